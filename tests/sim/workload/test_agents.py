"""Agent sessions: what they share, what turns are made of, sub-agents, populations, what stays, what fails."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from policies._content import PRIVATE, common_prefix, count, extend
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._arrivals import Poisson
from sim.workload._closed import Closed
from sim.workload._context import Context
from sim.workload._distributions import Geometric
from sim.workload._lengths import Lognormal, Uniform
from sim.workload._model import ALONE
from sim.workload._reuse import ideal_prefill_tokens
from sim.workload._sub_agents import SubAgents
from sim.workload.agents import Agents
from tests.sim.workload.test_reuse import naive

SUBS = SubAgents(
    turn_share=0.4,
    turns=Uniform("uniform", 1, 3),
    count=Uniform("uniform", 1, 2),
    task_tokens=Uniform("uniform", 0, 9),
    delay_s=Lognormal("lognormal", 1, 1),
)
SMALL = Agents(
    sessions=6,
    prompt=Context(Uniform("uniform", 0, 30), tenant_tokens=Uniform("uniform", 5, 15), tenants=3, system_tokens=7),
    output_tokens=Uniform("uniform", 1, 9),
    max_tokens=8,
    turns=Uniform("uniform", 1, 3),
    calls_per_turn=Geometric("geometric", 2),
    observation_tokens=Uniform("uniform", 0, 12),
    user_tokens=Uniform("uniform", 100, 110),
    tool_delay_s=Uniform("uniform", 1, 2),
    human_delay_s=Uniform("uniform", 50, 60),
    sub_agents=SUBS,
)


def generate(spec, seed=1):
    return spec.generate(Streams(seed), Path())


def sessions(workload):
    return [workload.session(index) for index in range(workload.sessions)]


def children(workload):
    return [(parent, child) for parent, own in workload.children.items() for child in own]


def context_after(session, turn):
    """What a session's context is once a turn has ended, in words that hold in either mode."""
    request = session.turns[turn]
    return extend(request.prompt, 2 * session.id + 2, request.output_tokens)


# -- what is shared ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 200), st.sampled_from(["live", "replay"]), st.sampled_from(["fork", "fresh"]))
def test_a_child_shares_exactly_its_fork_with_its_parent(seed, mode, context):
    """With every later prompt of its parent: the whole context at the fork, or the head alone, and not a token more."""
    spec = replace(SMALL, mode=mode, sub_agents=replace(SUBS, context=context))
    workload = generate(spec, seed)
    all_sessions = sessions(workload)
    for parent, child in children(workload):
        own, born = all_sessions[parent], all_sessions[child.session]
        forked = count(context_after(own, child.after_turn))
        shared = forked if context == "fork" else count(workload.head(parent))
        for turn in born.turns:
            for later in own.turns[child.after_turn + 1 :]:
                assert common_prefix(turn.prompt, later.prompt) == shared
        assert count(born.turns[0].prompt) >= shared


@settings(deadline=None)
@given(st.integers(0, 200))
def test_siblings_of_a_fork_share_the_fork_alone(seed):
    """Children of one turn start from one context and part at once; those of different agents share their heads."""
    workload = generate(SMALL, seed)
    all_sessions = sessions(workload)
    born = children(workload)
    for parent, one in born:
        for other_parent, other in born:
            if one.session >= other.session:
                continue
            shared = common_prefix(
                all_sessions[one.session].turns[0].prompt, all_sessions[other.session].turns[0].prompt
            )
            if parent == other_parent:
                first = min(one.after_turn, other.after_turn)
                assert shared == count(context_after(all_sessions[parent], first))
            else:
                heads = [workload.head(each) for each in (parent, other_parent)]
                assert shared == common_prefix(*heads)


def test_sessions_share_their_tenants_prompt():
    """First prompts agree up to the system prompt, within a tenant up to its own."""
    workload = generate(replace(SMALL, sessions=40, sub_agents=None))
    for one in range(40):
        for other in range(one):
            shared = common_prefix(workload.session(one).turns[0].prompt, workload.session(other).turns[0].prompt)
            is_one_tenant = workload.head_of[one] == workload.head_of[other]
            assert shared == 7 + (workload.head_tokens[one] if is_one_tenant else 0)


def test_tenants_are_as_popular_as_zipf_says():
    """Tenant k of 20 has a share in proportion to 1/k (99.9 % binomial intervals); with exponent 0 all are alike."""
    spec = replace(
        SMALL, sessions=10_000, sub_agents=None, prompt=Context(10, 10, tenants=20), turns=1, calls_per_turn=1
    )
    for exponent in (1.0, 0.0):
        made = generate(replace(spec, prompt=replace(spec.prompt, tenant_exponent=exponent)))
        weights = np.arange(1, 21) ** -exponent
        for tenant, share in enumerate(weights / weights.sum()):
            low, high = stats.binom.interval(0.9995, 10_000, share)
            assert low <= (made.head_of == tenant).sum() <= high


# -- turns ------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 100), st.booleans())
def test_growth_is_the_sum_of_what_is_new(seed, forks):
    """New tokens of a session (answers, observations, words) sum to its last context less its first prompt."""
    workload = generate(SMALL if forks else replace(SMALL, sub_agents=None), seed)
    for session in sessions(workload):
        answers = sum(turn.output_tokens for turn in session.turns[:-1])
        added = [
            count(later.prompt) - count(turn.prompt) - turn.output_tokens
            for turn, later in zip(session.turns, session.turns[1:], strict=False)
        ]
        assert all(0 <= each <= 12 or 100 <= each <= 110 for each in added)
        assert count(session.turns[-1].prompt) - count(session.turns[0].prompt) == answers + sum(added)


def test_a_human_adds_words_and_time_where_a_tool_adds_observations():
    """Long pauses and long additions go together: they open a human turn."""
    humans = 0
    for session in sessions(generate(replace(SMALL, sessions=200, sub_agents=None))):
        for turn, later in zip(session.turns, session.turns[1:], strict=False):
            added = count(later.prompt) - count(turn.prompt) - turn.output_tokens
            is_human = added >= 100
            assert 50 <= later.delay_s <= 60 if is_human else 1 <= later.delay_s <= 2
            humans += is_human
        assert session.turns[0].delay_s == 0
    assert humans > 100


def test_calls_are_those_of_the_human_turns():
    """Mean 2 human turns of mean 2 calls: 4 calls a session, within three standard errors."""
    turns = [len(each.turns) for each in sessions(generate(replace(SMALL, sessions=2000, sub_agents=None)))]
    variance = 2 * 2 + 4 * 2 / 3  # of a sum of U{1,2,3} geometric numbers: E N Var X + Var N E X^2
    assert np.mean(turns) == pytest.approx(4, abs=3.3 * math.sqrt(variance / 2000))


def test_live_answers_are_content_and_recorded_ones_are_not():
    """The same lengths either way."""
    live, replay = (sessions(generate(replace(SMALL, mode=mode))) for mode in ("live", "replay"))
    assert [[count(t.prompt) for t in each.turns] for each in live] == [
        [count(t.prompt) for t in each.turns] for each in replay
    ]
    assert {turn.output_source for each in replay for turn in each.turns} == {PRIVATE}
    assert {turn.output_source for turn in live[0].turns} == {2}


# -- sub-agents -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 100), st.booleans(), st.sampled_from([None, 60, 150]))
def test_forks_keep_the_rules_of_the_model(seed, waits, limit):
    """Numbers above the parent's, in its group; after a turn that is there and not last; joining the next, or none."""
    workload = generate(replace(SMALL, sub_agents=replace(SUBS, waits=waits), context_limit_tokens=limit), seed)
    born = children(workload)
    assert sorted(child.session for _, child in born) == sorted(set(range(workload.sessions)) - roots(workload))
    for parent, child in born:
        assert child.session > parent
        assert workload.group_of[child.session] == workload.group_of[parent]
        assert 0 <= child.after_turn < len(workload.session(parent).turns) - 1
        assert child.joins_turn == (child.after_turn + 1 if waits else ALONE)
        assert child.delay_s > 0


def roots(workload):
    return {int(np.flatnonzero(workload.group_of == group)[0]) for group in range(workload.groups)}


def test_keys_of_sub_agents_are_their_agents_or_their_own():
    """By default a sub-agent sends its agent's key."""
    workload = generate(SMALL)
    assert workload.key_owner.tolist() == [
        next((parent for parent, child in children(workload) if child.session == index), index)
        for index in range(workload.sessions)
    ]
    assert generate(replace(SMALL, sub_agents=replace(SUBS, keys="own"))).key_owner is None


def test_sub_agents_are_as_frequent_as_stated():
    """Of the turns that may start some, the stated share does (99.9 % binomial interval), 1.5 at a time."""
    workload = generate(replace(SMALL, sessions=2000))
    may = sum(len(workload.session(index).turns) - 1 for index in roots(workload))
    starters = {(parent, child.after_turn) for parent, child in children(workload)}
    low, high = stats.binom.interval(0.999, may, 0.4)
    assert low <= len(starters) <= high
    assert len(children(workload)) / len(starters) == pytest.approx(1.5, abs=3.3 * 0.5 / math.sqrt(len(starters)))


# -- laws -------------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_the_first_sessions_stay_when_sessions_are_added(seed, few, more, forks):
    """L5: numbers, prompts, answers, delays, arrivals, keys and forks of the first groups are as they were."""
    spec = replace(SMALL, sub_agents=SUBS if forks else None, arrivals=Poisson("poisson", 2.0))
    one, other = (generate(replace(spec, sessions=number), seed) for number in (few, few + more))
    assert sessions(one) == [other.session(index) for index in range(one.sessions)]
    assert one.arrival_s.tolist() == other.arrival_s.tolist()[:few]
    assert one.children == {parent: own for parent, own in other.children.items() if parent < one.sessions}
    if forks:
        assert one.key_owner.tolist() == other.key_owner.tolist()[: one.sessions]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 60), st.integers(1, 6), st.sampled_from(["live", "replay"]), st.booleans())
def test_the_reuse_ceiling_is_that_of_a_set_of_blocks(seed, block, mode, forks):
    """Whatever forks from whatever: the tokens left to compute are those of blocks spelled out."""
    spec = replace(SMALL, sessions=4, mode=mode, user_tokens=None, sub_agents=SUBS if forks else None)
    workload = generate(spec, seed)
    assert ideal_prefill_tokens(workload, block) == naive(workload, block)


@pytest.mark.parametrize(("turns", "published"), [(2, 0.431), (5, 0.722), (10, 0.841), (29, 0.937)])
def test_multi_turn_hits_are_the_closed_form(turns, published):
    """Hit = 1 - (S + T u + (T-1) o) / sum_t (S + t u + (t-1) o), with S 2,000, u 500, o 300."""
    spec = Agents(
        sessions=1,
        prompt=Context(task_tokens=500, system_tokens=2000),
        output_tokens=300,
        max_tokens=300,
        turns=turns,
        observation_tokens=500,
    )
    workload = generate(spec)
    total = workload.summary()["prompt_tokens"]
    assert total == sum(2000 + t * 500 + (t - 1) * 300 for t in range(1, turns + 1))
    # The closed form computes answers in prefill; live, their KV is there from decoding, but for the last token.
    replayed = generate(replace(spec, mode="replay"))
    assert 1 - ideal_prefill_tokens(replayed, 1) / total == pytest.approx(published, abs=5e-4)
    saved = (turns - 1) * (300 - 1)
    assert ideal_prefill_tokens(workload, 1) == ideal_prefill_tokens(replayed, 1) - saved


def test_a_closed_population_has_one_session_a_user():
    """Session i + n follows session i after its user's think time; the first ones start within the ramp."""
    spec = replace(SMALL, sessions=7, arrivals=Closed("closed", 3, think_s=5.0, ramp_s=6.0))
    workload = generate(spec)
    assert workload.follows == {0: 3, 1: 4, 2: 5, 3: 6}
    assert workload.arrival_s.tolist() == [0.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]
    assert workload.order.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert generate(replace(spec, arrivals=Closed("closed", 30))).follows == {}


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: replace(SMALL, sessions=0), "sessions"),
        (lambda: replace(SMALL, turns=0), "turns"),
        (lambda: replace(SMALL, user_tokens=-1), "user_tokens"),
        (lambda: replace(SMALL, human_delay_s=-1.0), "human_delay_s"),
        (lambda: Context(0), "task_tokens"),
        (lambda: Context(5, tenants=0), "tenants"),
        (lambda: Context(5, tenant_exponent=-1.0), "tenant_exponent"),
        (lambda: SubAgents(1.5), "turn_share"),
        (lambda: SubAgents(0.5, count=0), "count"),
        (lambda: Closed("closed", 0), "users"),
        (lambda: generate(replace(SMALL, turns=Lognormal("lognormal", 1e6, 1.0))), "turns of the longest session"),
        (lambda: generate(replace(SMALL, calls_per_turn=1e6)), "turns of the longest session"),
    ],
)
def test_what_is_refused(make, rule):
    """By the name of the field."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        make()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"turns": 1}, ["user_tokens has", "human_delay_s has"]),
        ({"calls_per_turn": 1, "sub_agents": None}, ["tool_delay_s has", "observation_tokens has"]),
        ({"prompt": Context(5, tenants=2)}, ["prompt.tenants has"]),
        ({"prompt": Context(5, tenant_exponent=2.0)}, ["prompt.tenant_exponent has"]),
        (
            {"turns": 1, "calls_per_turn": 1, "user_tokens": None, "human_delay_s": 0.0},
            ["sub_agents has"],
        ),
    ],
)
def test_fields_without_effect_are_named(change, said):
    """What changes nothing beside the other fields is told."""
    found = replace(SMALL, **change).idle_fields()
    assert len(found) == len(said)
    assert all(each.startswith(start) for each, start in zip(found, said, strict=True))
