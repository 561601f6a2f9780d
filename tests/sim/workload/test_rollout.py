"""Rollouts: what siblings share, how contexts grow, what stays when numbers grow, what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies._content import PRIVATE, common_prefix, count, cut, extend
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._arrivals import AtOnce, Poisson
from sim.workload._lengths import Constant, Lognormal, Uniform
from sim.workload._prompt import Prompt
from sim.workload.rollout import Rollout

SMALL = Rollout(
    groups=3,
    samples_per_group=4,
    prompt=Prompt(group_tokens=Lognormal("lognormal", 300, 0.5), system_tokens=1000),
    output_tokens=Lognormal("lognormal", 50, 0.8),
    max_tokens=100,
    turns=Uniform("uniform", 1, 6),
    observation_tokens=Lognormal("lognormal", 200, 1.0),
    tool_delay_s=Lognormal("lognormal", 0.85, 2.4, cap=180),
)


def generate(spec, seed=1, replication=0):
    return spec.generate(Streams(seed, replication), Path())


def sessions(workload):
    return [workload.session(index) for index in range(workload.sessions)]


def test_siblings_share_the_prompt_and_strangers_the_system_prompt():
    """First prompts agree token for token inside a group, and up to the system prompt between groups."""
    first = [(each.group, each.turns[0].prompt) for each in sessions(generate(SMALL))]
    for group, prompt in first:
        for other_group, other in first:
            shared = count(prompt) if group == other_group else 1000
            assert common_prefix(prompt, other) == shared


def test_live_turns_extend_prompt_and_output():
    """Live: what a turn generated is the start of what the next prompt adds."""
    for session in sessions(generate(SMALL)):
        for turn, later in zip(session.turns, session.turns[1:], strict=False):
            answered = extend(turn.prompt, turn.output_source, turn.output_tokens)
            assert cut(later.prompt, count(answered)) == answered


def test_replayed_turns_extend_the_prompt_alone():
    """Replay: the same lengths, and the generated tokens are private."""
    live, replay = sessions(generate(SMALL)), sessions(generate(replace(SMALL, mode="replay")))
    assert [[count(turn.prompt) for turn in each.turns] for each in live] == [
        [count(turn.prompt) for turn in each.turns] for each in replay
    ]
    assert {turn.output_source for each in replay for turn in each.turns} == {PRIVATE}


def test_sessions_share_nothing_of_their_own():
    """What two siblings add after the first prompt is never equal."""
    one, other = sessions(generate(replace(SMALL, turns=3)))[:2]
    assert common_prefix(one.turns[2].prompt, other.turns[2].prompt) == count(one.turns[0].prompt)


def test_growth_is_the_sum_of_new_tokens():
    """New tokens of a session sum to its last context less its first prompt."""
    spec = replace(SMALL, turns=5, output_tokens=Constant("constant", 30), observation_tokens=170)
    for session in sessions(generate(spec)):
        assert count(session.turns[-1].prompt) - count(session.turns[0].prompt) == 4 * (30 + 170)


def test_outputs_end_at_the_limit():
    """A drawn length above max_tokens becomes max_tokens; below it stays."""
    free = [turn.output_tokens for each in sessions(generate(replace(SMALL, max_tokens=10**6))) for turn in each.turns]
    cut_off = [turn.output_tokens for each in sessions(generate(SMALL)) for turn in each.turns]
    assert cut_off == [min(tokens, 100) for tokens in free]
    assert max(free) > 100


def test_the_first_turn_has_no_delay_and_the_others_do():
    """A delay lies between two turns."""
    turns = [each.turns for each in sessions(generate(replace(SMALL, turns=4)))]
    assert all(each[0].delay_s == 0 for each in turns)
    assert all(0 < turn.delay_s <= 180 for each in turns for turn in each[1:])


def test_groups_stay_when_groups_are_added():
    """L5: the first groups, their arrivals and all their turns are the same among three and among nine."""
    spec = replace(SMALL, arrivals=Poisson("poisson", 0.5))
    few, many = generate(spec), generate(replace(spec, groups=9))
    assert sessions(few) == sessions(many)[:12]
    assert np.array_equal(few.arrival_s, many.arrival_s[:3])


def test_turns_stay_when_turns_are_added():
    """The first turns are the same in a session of four turns and in one of nine."""
    few, many = sessions(generate(replace(SMALL, turns=4))), sessions(generate(replace(SMALL, turns=9)))
    assert [list(each.turns) for each in few] == [list(each.turns)[:4] for each in many]


@given(st.integers(0, 5), st.integers(0, 3))
def test_a_replication_is_its_seed(seed, replication):
    """L4: equal streams give equal workloads, in any order of asking."""
    one, other = generate(SMALL, seed, replication), generate(SMALL, seed, replication)
    backwards = [other.session(index) for index in reversed(range(12))]
    assert sessions(one) == backwards[::-1]


def test_replications_differ():
    """Another replication draws anew."""
    assert sessions(generate(SMALL)) != sessions(generate(SMALL, replication=1))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_siblings_correlate_by_the_stated_share(share):
    """The correlation of log length between two siblings is the share of variance between groups."""
    spec = Rollout(
        4000, 2, Prompt(10), Lognormal("lognormal", 4000, 0.5), 10**6, turns=2, variance_share_between_groups=share
    )
    logs = np.log([[turn.output_tokens for turn in each.turns] for each in sessions(generate(spec))]).reshape(
        4000, 2, 2
    )
    # Four standard errors of a correlation over 4,000 pairs; rounding to whole tokens is far below.
    bound = 4 * (1 - share**2) / np.sqrt(4000) + 1e-3
    for turn, other_turn in ((0, 0), (0, 1), (1, 1)):
        assert np.corrcoef(logs[:, 0, turn], logs[:, 1, other_turn])[0, 1] == pytest.approx(share, abs=bound)
    assert logs.std() == pytest.approx(0.5, rel=0.05)


def test_siblings_resemble_each_other_by_default():
    """Lognormal outputs have a share of 0.6 where none is stated."""
    assert sessions(generate(SMALL)) == sessions(generate(replace(SMALL, variance_share_between_groups=0.6)))


def test_a_session_ends_at_the_context_limit():
    """Every later turn leaves room for max_tokens below the limit, and one more turn would not."""
    free = sessions(generate(replace(SMALL, turns=30)))
    bound = sessions(generate(replace(SMALL, turns=30, context_limit_tokens=4000)))
    for longer, session in zip(free, bound, strict=True):
        kept = len(session.turns)
        assert list(session.turns) == list(longer.turns)[:kept]
        assert all(count(turn.prompt) + 100 <= 4000 for turn in session.turns[1:])
        assert kept == 30 or count(longer.turns[kept].prompt) + 100 > 4000
    assert {len(each.turns) for each in bound} != {30}


def test_a_poisson_process_has_its_rate():
    """Mean and standard deviation of the gaps are both 1 / rate, within four standard errors."""
    arrivals = Poisson("poisson", 5.0).times(Streams(1).column("workload/arrivals"), 10_000)
    gaps = np.diff(arrivals, prepend=0.0)
    assert gaps.mean() == pytest.approx(0.2, rel=0.04)
    assert gaps.std() == pytest.approx(0.2, rel=0.06)


def test_half_the_rate_doubles_every_arrival():
    """L9: arrival times scale exactly."""
    spec = replace(SMALL, arrivals=Poisson("poisson", 2.0))
    slow = replace(SMALL, arrivals=Poisson("poisson", 1.0))
    assert np.array_equal(generate(slow).arrival_s, 2 * generate(spec).arrival_s)


def test_groups_that_are_there_at_once_start_in_the_order_of_the_data():
    """All arrive at 0."""
    workload = generate(replace(SMALL, arrivals=AtOnce("at_once")))
    assert workload.arrival_s.tolist() == [0, 0, 0]
    assert workload.order.tolist() == [0, 1, 2]


def test_the_summary_counts_what_the_sessions_hold():
    """Totals over the columns equal totals over the turns built from them."""
    spec = replace(SMALL, turns=Uniform("uniform", 1, 30), context_limit_tokens=4000)
    workload = generate(spec)
    turns = [turn for each in sessions(workload) for turn in each.turns]
    sizes = [count(turn.prompt) + turn.max_tokens for turn in turns]
    assert workload.summary() == {
        "requests": len(turns),
        "sessions": 12,
        "groups": 3,
        "prompt_tokens": sum(count(turn.prompt) for turn in turns),
        "output_tokens": sum(turn.output_tokens for turn in turns),
        "largest_request_tokens": max(sizes),
        "smallest_request_tokens": min(sizes),
    }


def test_turns_hold_plain_numbers():
    """No numpy scalar gets into the simulation, where it would be slow."""
    for session in sessions(generate(SMALL)):
        kinds = {type(value) for turn in session.turns for value in turn[1:4]} | {type(session.group)}
        assert kinds == {int}
        assert {type(each) for turn in session.turns for span in turn.prompt for each in span} == {int}
        assert {type(turn.delay_s) for turn in session.turns} == {float}


def test_token_ids_take_more_characters():
    """Decimal ids take 5.5 characters a token, text 4, unless the scenario says otherwise."""
    assert generate(SMALL).chars_per_token == 4.0
    assert generate(replace(SMALL, encoding="input_ids")).chars_per_token == 5.5
    assert generate(replace(SMALL, encoding="input_ids", chars_per_token=6.0)).chars_per_token == 6.0


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"groups": 0}, "groups must be from 1"),
        ({"samples_per_group": 0}, "samples_per_group must be from 1"),
        ({"groups": 10**6, "samples_per_group": 10**6}, "groups"),
        ({"turns": 0}, "turns must be from 1"),
        ({"output_tokens": -5}, "output_tokens must be from 1"),
        ({"output_tokens": Constant("constant", 0)}, "output_tokens must be from 1"),
        ({"output_tokens": Uniform("uniform", 0, 0)}, "output_tokens.high must be from 1"),
        ({"turns": Uniform("uniform", 0, 0.5)}, "turns.high must be from 1"),
        ({"observation_tokens": -1}, "observation_tokens must be from 0"),
        ({"tool_delay_s": -0.5}, "tool_delay_s must be from 0"),
        ({"max_tokens": 0}, "max_tokens must be from 1"),
        ({"context_limit_tokens": 0}, "context_limit_tokens must be from 1"),
        ({"variance_share_between_groups": 1.5}, "variance_share_between_groups must be from 0 to 1"),
        ({"output_tokens": 50, "variance_share_between_groups": 0.5}, "variance_share_between_groups needs"),
        ({"chars_per_token": 0.0}, "chars_per_token must be above 0"),
    ],
)
def test_what_is_refused(change, rule):
    """The message opens with the name of the field."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"turns": Lognormal("lognormal", 1e6, 1)}, "turns of the longest session"),
        ({"groups": 10**6, "turns": 100}, "turns of all sessions"),
        ({"observation_tokens": Lognormal("lognormal", 1e6, 20)}, "observation_tokens drew"),
        ({"tool_delay_s": Lognormal("lognormal", 1e6, 20)}, "tool_delay_s drew"),
        ({"arrivals": Poisson("poisson", 1e-300)}, "groups_per_s is too low"),
    ],
)
def test_what_is_refused_once_drawn(change, rule):
    """Draws beyond what a run can hold are refused, not wrapped or built."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        generate(replace(SMALL, **change))


def test_a_prompt_needs_a_token():
    """Neither a system prompt nor a task is no prompt."""
    with pytest.raises(ScenarioError, match="group_tokens must be at least 1"):
        Prompt(group_tokens=0)
    assert generate(replace(SMALL, prompt=Prompt(0, system_tokens=7))).session(5).turns[0].prompt == ((0, 7),)
