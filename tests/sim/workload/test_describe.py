"""What is said of a workload is what it holds: hand-computed worlds, brute force, measured recordings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies._content import canonical, common_prefix, count
from sim.rng import Streams
from sim.workload._closed import Closed
from sim.workload._context import Context
from sim.workload._describe import Spread, describe, shared_parts
from sim.workload._lengths import Uniform
from sim.workload._prompt import Prompt
from sim.workload._sub_agents import SubAgents
from sim.workload.agents import Agents
from sim.workload.rollout import Rollout

ROLLOUT = Rollout(
    2, 3, Prompt(100, system_tokens=50), 20, 30, turns=4, observation_tokens=5, tool_delay_s=2.0, encoding="chat"
)
FORKING = Agents(
    sessions=5,
    prompt=Context(Uniform("uniform", 1, 9), tenant_tokens=7, tenants=2),
    output_tokens=Uniform("uniform", 1, 5),
    max_tokens=5,
    turns=Uniform("uniform", 2, 4),
    observation_tokens=Uniform("uniform", 0, 5),
    human_delay_s=Uniform("uniform", 1, 2),
    sub_agents=SubAgents(0.5, turns=Uniform("uniform", 1, 2), task_tokens=3),
)


def describe_it(spec, seed=1, **more):
    return describe(spec.generate(Streams(seed), Path()), **more)


def test_a_rollout_by_hand():
    """Two groups of three samples of four turns: 150 tokens first, 25 more a turn, 225 last."""
    found = describe_it(ROLLOUT, blocks=(1, 16))
    assert found.totals["requests"] == 24
    assert found.spreads["first prompt, tokens"] == Spread(6, 150, 150, 150, 150, 150)
    assert found.spreads["shared part of it, tokens"].mean == 150, "each has siblings with the same prompt"
    assert found.spreads["last prompt, tokens"].p50 == 225
    assert found.spreads["new tokens of a later turn"] == Spread(18, 25, 25, 25, 25, 25)
    assert found.spreads["gap before a later turn, s"].max == 2.0
    assert found.spreads["prompt tokens of a session"].mean == 150 + 175 + 200 + 225
    assert (found.largest.tokens, found.largest.session, found.largest.turn) == (225 + 30, 0, 3)
    assert found.top_share == pytest.approx(1 / 6)
    assert found.turns_context_correlation is None
    # Live: the first prompts once a group but for the system prompt, then observation and last token of each answer.
    assert found.reuse[1] == pytest.approx(1 - (150 + 100 + 6 * 3 * 6) / found.totals["prompt_tokens"])
    assert found.reuse[16] < found.reuse[1]


@settings(deadline=None)
@given(st.integers(0, 100))
def test_totals_and_percentiles_are_those_of_the_requests(seed):
    """Against a plain walk over all sessions, with forks."""
    workload = FORKING.generate(Streams(seed), Path())
    found = describe(workload, (1,))
    sessions = [workload.session(index).turns for index in range(workload.sessions)]
    prompts = [count(turn.prompt) for own in sessions for turn in own]
    born = {child.session for own in workload.children.values() for child in own}
    roots = [own for index, own in enumerate(sessions) if index not in born]
    assert found.totals.get("sub_agents", 0) == len(born)
    assert found.totals["prompt_tokens"] == sum(prompts)
    assert found.quantities["prompt, tokens"].tolist() == prompts
    assert found.spreads["output, tokens"].max == max(turn.output_tokens for own in sessions for turn in own)
    assert found.quantities["turns of a session"].tolist() == [len(own) for own in roots]
    assert found.quantities["last prompt, tokens"].tolist() == [count(own[-1].prompt) for own in roots]
    gaps = [turn.delay_s for own in sessions for turn in own[1:]]
    assert found.quantities["gap before a later turn, s"].tolist() == gaps
    assert found.largest.tokens == max(count(turn.prompt) + turn.max_tokens for own in sessions for turn in own)
    where = workload.session(found.largest.session).turns[found.largest.turn]
    assert count(where.prompt) + where.max_tokens == found.largest.tokens


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=4), max_size=8))
def test_the_shared_part_is_the_longest_common_beginning(contents):
    """Sorted neighbours have it: against all pairs."""
    prompts = [canonical(each) for each in contents]
    expected = [
        max((common_prefix(one, other) for at, other in enumerate(prompts) if at != index), default=0)
        for index, one in enumerate(prompts)
    ]
    assert shared_parts(prompts).tolist() == expected


def test_a_few_sessions_have_most_of_the_work():
    """One session of a hundred with a hundred times the tokens of another has half of the work."""
    spec = replace(ROLLOUT, groups=100, samples_per_group=1, turns=1)
    workload = spec.generate(Streams(1), Path())
    big = workload._columns.own.copy()
    big[17] = 99 * 170
    workload._own = big.data
    found = describe(workload, ())
    assert found.top_share == pytest.approx(100 / 199)
    assert found.largest.session == 17


def test_arrivals_known_beforehand_are_told():
    """Of a closed population the first sessions alone: the others wait for these."""
    spec = replace(FORKING, sub_agents=None, arrivals=Closed("closed", 2, think_s=1000.0, ramp_s=8.0))
    assert describe_it(spec).last_arrival_s == 4.0


def test_correlation_of_turns_and_context():
    """Sessions that grow by equal steps: close to 1, and None without variation."""
    spec = replace(ROLLOUT, groups=200, turns=Uniform("uniform", 1, 9))
    assert describe_it(spec).turns_context_correlation > 0.9
    assert np.isfinite(describe_it(spec).turns_context_correlation)
