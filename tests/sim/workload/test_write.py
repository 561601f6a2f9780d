"""Exported workloads read back: the trace of this program to the last token, others in what they can say."""

import json
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies._content import PRIVATE, canonical, common_prefix, count
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._lengths import Uniform
from sim.workload._model import ALONE, Child, Travel, Turn
from sim.workload._prompt import Prompt
from sim.workload._replay import Replay
from sim.workload._traces._write import WRITERS, BlockIds, losses
from sim.workload._traces.paired import lines
from sim.workload.rollout import Rollout
from sim.workload.trace import Trace

SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30)), min_size=1, max_size=4).map(canonical)
SECONDS = st.floats(0, 1e6, allow_nan=False)


@st.composite
def turns(draw):
    output = draw(st.integers(1, 50))
    most = draw(st.integers(output, 60))
    return Turn(draw(SPANS), output, draw(st.sampled_from([PRIVATE, 3, 7])), most, draw(SECONDS))


@st.composite
def workloads(draw):
    """Any sessions in any groups, some of which start others, some groups after others."""
    groups = draw(st.integers(1, 4))
    group_of = [*range(groups), *draw(st.lists(st.integers(0, groups - 1), max_size=4))]
    given_turns = [draw(st.lists(turns(), min_size=1, max_size=4)) for _ in group_of]
    boots = draw(st.booleans())
    arrival_s = np.array([draw(st.sampled_from([0.0, 1.5, 2.25]) | SECONDS) for _ in range(groups)])
    follows = {group: group - 1 for group in range(1, groups) if draw(st.booleans())}
    clocked = [group for group in range(groups) if group not in follows]
    order = sorted(draw(st.permutations(clocked)), key=lambda group: arrival_s[group]) + sorted(follows)
    children: dict[int, list[Child]] = {}
    for session in range(groups, len(group_of)):
        parent = group_of[session]
        if draw(st.booleans()):
            after = draw(st.integers(0, len(given_turns[parent]) - 1))
            later = [ALONE, *range(after + 1, len(given_turns[parent]))]
            children.setdefault(parent, []).append(Child(session, after, draw(SECONDS), draw(st.sampled_from(later))))
    children_ids = {child.session for each in children.values() for child in each}
    for session, each in enumerate(given_turns):
        if not boots or session in children_ids:
            each[0] = each[0]._replace(delay_s=0.0)
    travel = Travel(draw(st.sampled_from(["text", "chat", "input_ids"])), draw(st.none() | st.floats(0.5, 9)))
    workload = Replay(given_turns, np.array(group_of), arrival_s, np.array(order), travel, children)
    workload.follows = follows
    workload.has_boots = any(each[0].delay_s for each in given_turns)
    if draw(st.booleans()):
        workload.key_owner = np.array([draw(st.sampled_from([each, group_of[each]])) for each in range(len(group_of))])
    return workload


def read_back(text, **more):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.jsonl").write_text(text)
        return Trace("t.jsonl", **more).generate(Streams(1), Path(folder))


def sessions(workload):
    return [workload.session(index) for index in range(workload.sessions)]


@given(workloads())
def test_an_exported_workload_is_the_same_workload(workload):
    """Sessions, times, groups, order, forks, boots, keys, encoding: all as they were."""
    again = read_back("".join(lines(workload, {"pair": 0}, {}, None)))
    assert sessions(again) == sessions(workload)
    assert again.group_of.tolist() == workload.group_of.tolist()
    assert again.arrival_s.tolist() == workload.arrival_s.tolist()
    assert again.order.tolist() == workload.order.tolist()
    assert again.children == workload.children
    assert (again.follows, again.has_boots) == (workload.follows, workload.has_boots)
    assert (again.key_owner is None) == (workload.key_owner is None)
    if workload.key_owner is not None:
        assert again.key_owner.tolist() == workload.key_owner.tolist()
    assert (again.encoding, again.chars_per_token) == (workload.encoding, workload.chars_per_token)
    assert again.summary() == workload.summary()


def test_a_row_says_what_a_load_generator_needs():
    """Lengths, what is shared, keys of every arm, and when to send."""
    prompts = [((0, 100),), ((0, 100), (1, 20))]
    given_turns = [[Turn(each, 7, PRIVATE, 9 - 2 * at, 0.5 * at) for at, each in enumerate(prompts)]]
    workload = Replay(given_turns, np.array([0]), np.array([2.5]), np.array([0]), Travel())
    header, first, second = map(json.loads, lines(workload, {"seed": 5}, {"a": ["k"], "b": [""]}, 30.0))
    assert (header["schema"], header["seed"], header["sessions"]) == ("windtunnel.trace/1", 5, 1)
    assert first["arrive"] == {"mode": "at", "t": 2.5, "rank": 0}
    assert second["arrive"] == {"mode": "after", "after_rid": 0, "delay_s": 0.5, "joins": []}
    assert (second["input_len"], second["shared_len"], second["output_len"]) == (120, 100, 7)
    assert [(each["max_tokens"], each["ignore_eos"]) for each in (first, second)] == [(9, True), (7, True)]
    assert first["key"] == {"a": "k"}
    assert first["deadline_s"] == 30.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rid": 5}, "2: rid must be 0"),
        ({"session": 3}, "2: session and turn must follow"),
        ({"spans": [[0, 5], [0, 5]]}, "2: spans must be merged"),
        ({"spans": [[0]]}, "2: each of spans"),
        ({"input_len": 3}, "2: spans must be merged, and add up"),
        ({"arrive": {"mode": "at", "t": -1, "rank": 0}}, "2: arrive: t must be a number"),
        ({"arrive": 7}, "2: arrive must be an object"),
    ],
)
def test_a_changed_row_is_named(change, reason):
    """A file that was edited by hand is held to its own rules."""
    workload = Replay([[Turn(((0, 9),), 1, PRIVATE, 1, 0.0)]], np.array([0]), np.zeros(1), np.array([0]), Travel())
    header, row = lines(workload, {}, {}, None)
    with pytest.raises(ScenarioError, match=rf"t\.jsonl:{reason}"):
        read_back(header + json.dumps(json.loads(row) | change) + "\n")
    with pytest.raises(ScenarioError, match="says 1 sessions, and 0 follow"):
        read_back(header)


def rollout(mode, seed):
    """Two groups of two samples, up to four turns."""
    spec = Rollout(
        groups=2,
        samples_per_group=2,
        prompt=Prompt(Uniform("uniform", 5, 40), system_tokens=16),
        output_tokens=Uniform("uniform", 1, 30),
        max_tokens=30,
        turns=Uniform("uniform", 1, 4),
        observation_tokens=Uniform("uniform", 1, 20),
        tool_delay_s=Uniform("uniform", 0, 3),
        mode=mode,
    )
    return spec.generate(Streams(seed), Path())


def dumped(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def shared_blocks(workload, block):
    """Of each two prompts: the whole blocks that they share, or all where they are equal."""
    prompts = [turn.prompt for session in sessions(workload) for turn in session.turns]
    return [
        count(one) if one == other else common_prefix(one, other) // block * block
        for one in prompts
        for other in prompts
    ]


@given(st.integers(0, 10_000), st.sampled_from([1, 4, 16]), st.sampled_from(["mooncake", "dynamo"]))
def test_rows_that_cover_their_prompts_share_what_they_shared(seed, block, form):
    """Mooncake and Dynamo: lengths, waits and whole blocks in common come back; the tail equals only itself."""
    workload = rollout("replay", seed)
    again = read_back(dumped(WRITERS[form](workload, block)), block_tokens=block)
    for one, other in zip(sessions(workload), sessions(again), strict=True):
        assert [count(turn.prompt) for turn in one.turns] == [count(turn.prompt) for turn in other.turns]
        assert [turn.output_tokens for turn in one.turns] == [turn.output_tokens for turn in other.turns]
        assert np.allclose([turn.delay_s for turn in one.turns], [turn.delay_s for turn in other.turns], atol=1e-9)
    assert shared_blocks(again, block) == shared_blocks(workload, block)


@given(st.integers(0, 10_000))
def test_rows_that_add_grow_to_the_same_prompts(seed):
    """AIPerf, of a live workload: prompt, answer and observation add up to the same lengths, and share the same."""
    workload = rollout("live", seed)
    again = read_back(dumped(WRITERS["aiperf"](workload, 4)), block_tokens=4, rows="add", mode="live")
    for one, other in zip(sessions(workload), sessions(again), strict=True):
        mine, theirs = ([turn.prompt for turn in each.turns] for each in (one, other))
        assert list(map(count, mine)) == list(map(count, theirs))
        assert [common_prefix(a, b) for a, b in pairwise(mine)] == [common_prefix(a, b) for a, b in pairwise(theirs)]


def test_sub_agents_come_back_from_dynamo_rows():
    """Forks, joins and waits; a format without them refuses."""
    turn = Turn(((0, 40),), 5, PRIVATE, 5, 0.0)
    given_turns = [
        [turn, turn._replace(prompt=((0, 60),), delay_s=1.5)],
        [turn._replace(prompt=((0, 40), (1, 8)))],
        [turn._replace(prompt=((0, 32), (2, 8))), turn._replace(prompt=((0, 32), (2, 24)), delay_s=0.25)],
    ]
    children = {0: [Child(1, 0, 0.5), Child(2, 0, 0.75, 1)]}
    workload = Replay(given_turns, np.zeros(3, dtype=np.int64), np.zeros(1), np.array([0]), Travel(), children)
    again = read_back(dumped(WRITERS["dynamo"](workload, 8)), block_tokens=8)
    assert again.children == children
    assert [[turn.delay_s for turn in each.turns] for each in sessions(again)] == [[0.0, 1.5], [0.0], [0.0, 0.25]]
    assert any("waits for sub-agents" in each for each in losses(workload, "dynamo", 8))
    for form in ("mooncake", "aiperf"):
        with pytest.raises(ScenarioError, match=f"^{form} cannot say that sessions start others"):
            list(WRITERS[form](workload, 8))


def test_a_boot_is_part_of_when_a_session_starts():
    """Rows stand in the order in which first requests are sent, boot times included."""
    given_turns = [[Turn(((0, 9),), 5, PRIVATE, 5, boot)] for boot in (4.0, 1.5)]
    workload = Replay(given_turns, np.arange(2), np.array([0.0, 1.0]), np.arange(2), Travel())
    workload.has_boots = True
    rows = list(WRITERS["mooncake"](workload, 16))
    assert [row["timestamp"] for row in rows] == [2500, 4000]


def test_a_prompt_that_falls_cannot_add_to_a_history():
    """AIPerf's history only grows."""
    given_turns = [[Turn(((0, 90),), 5, PRIVATE, 5, 0.0), Turn(((0, 60),), 5, PRIVATE, 5, 0.0)]]
    workload = Replay(given_turns, np.array([0]), np.zeros(1), np.array([0]), Travel())
    with pytest.raises(ScenarioError, match=r"history of 95 tokens, and turn 1 of session 0 has a prompt of 60"):
        list(WRITERS["aiperf"](workload, 16))


def test_block_ids_stand_for_a_block_and_all_before_it():
    """Equal blocks behind different ones are different blocks; a partial one is no full one."""
    ids = BlockIds(4)
    assert ids.of(((0, 8),)) == [0, 1]
    assert ids.of(((0, 4), (1, 4))) == [0, 2]
    assert ids.of(((1, 4), (0, 4))) == [3, 4]
    assert ids.of(((0, 7),)) == [0, 5]
    assert ids.of(((0, 3),)) == [6]


def test_what_is_lost_is_said():
    """Groups, limits, answers: each is named where a format leaves it out."""
    live, replay = rollout("live", 1), rollout("replay", 1)
    assert any("group" in each for each in losses(replay, "mooncake", 16))
    assert any("which blocks are answers" in each for each in losses(live, "mooncake", 16))
    assert any("recorded answers are replaced" in each for each in losses(replay, "aiperf", 16))
    assert not any("recorded answers" in each for each in losses(live, "aiperf", 16))
    assert any("larger limit" in each for each in losses(live, "aiperf", 16))
