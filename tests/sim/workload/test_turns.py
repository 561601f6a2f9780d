"""Numbers of turns and growth along them: resemblance of siblings, concave contexts, long sessions that read more."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from policies._content import count
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._lengths import Lognormal
from sim.workload._prompt import Prompt
from sim.workload._turns import growth_factors
from sim.workload.rollout import Rollout

SPEC = Rollout(
    groups=1000,
    samples_per_group=2,
    prompt=Prompt(100),
    output_tokens=Lognormal("lognormal", 100, 0.01),
    max_tokens=10_000,
    turns=Lognormal("lognormal", 400, 0.3),
)


def turns_of(spec):
    workload = spec.generate(Streams(5), Path())
    return np.array([len(workload.session(index).turns) for index in range(workload.sessions)])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_siblings_share_the_stated_part_of_the_variance_of_turns(share):
    """The correlation of log turns of two siblings is the share (99.9 % interval by Fisher's z), the law stays."""
    few = replace(SPEC, turns_variance_share_between_groups=share)
    log = np.log(turns_of(few)).reshape(-1, 2)
    if share == 1:
        assert np.array_equal(log[:, 0], log[:, 1])
    else:
        measured = np.corrcoef(log.T)[0, 1]
        assert abs(math.atanh(measured) - math.atanh(share)) < 3.29 / math.sqrt(len(log) - 3)
    assert log.std() == pytest.approx(0.3, rel=0.1)


@given(st.floats(0.2, 3), st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_growth_follows_its_power(exponent, turns):
    """The first k of n observations sum to (k / n)^a of all, whose mean factor is 1."""
    turns = np.array(turns)
    starts = np.cumsum(turns) - turns
    factors = growth_factors(exponent, starts, turns)
    for start, n in zip(starts, turns - 1, strict=True):
        sums = np.cumsum(factors[start : start + n])
        assert sums == pytest.approx(n * (np.arange(1, n + 1) / max(n, 1)) ** exponent)


def test_a_context_grows_as_measured():
    """Exponent 0.57: half of what the environment adds to a context is there after 30 % of the turns."""
    spec = replace(SPEC, groups=1, samples_per_group=1, turns=101, observation_tokens=1000, growth_exponent=0.57)
    prompts = [count(turn.prompt) for turn in spec.generate(Streams(1), Path()).session(0).turns]
    outputs = [turn.output_tokens for turn in spec.generate(Streams(1), Path()).session(0).turns]
    added = np.array(prompts) - prompts[0] - np.concatenate([[0], np.cumsum(outputs)[:-1]])
    assert added[-1] == pytest.approx(100 * 1000, rel=1e-3)
    assert added[30] / added[-1] == pytest.approx(0.3**0.57, rel=1e-3)


def test_an_exponent_of_one_changes_nothing():
    """The default draws what it drew."""
    spec = replace(SPEC, groups=5, observation_tokens=Lognormal("lognormal", 700, 1.2))
    one, other = (each.generate(Streams(2), Path()) for each in (spec, replace(spec, growth_exponent=1.0)))
    assert [one.session(i) for i in range(10)] == [other.session(i) for i in range(10)]


def test_long_sessions_read_more_at_a_time():
    """Log of an observation correlates with log turns as stated, and keeps its law."""
    spec = replace(
        SPEC,
        groups=1000,
        samples_per_group=1,
        turns=Lognormal("lognormal", 30, 0.5, floor=2),
        observation_tokens=Lognormal("lognormal", 70_000, 1.2),
        observation_turns_correlation=0.6,
    )
    workload = spec.generate(Streams(3), Path())
    first = []
    for index in range(workload.sessions):
        one, two = workload.session(index).turns[:2]
        first.append((math.log(len(workload.session(index).turns)), math.log(count(two.prompt) - count(one.prompt))))
    log_turns, log_added = np.array(first).T
    measured = np.corrcoef(log_turns, log_added)[0, 1]
    assert abs(math.atanh(measured) - math.atanh(0.6)) < 3.29 / math.sqrt(len(first) - 3)
    assert stats.kstest((log_added - math.log(70_000)) / 1.2, "norm").pvalue > 0.001


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"turns_variance_share_between_groups": 1.1}, "turns_variance_share_between_groups"),
        ({"turns_variance_share_between_groups": 0.5, "turns": 3}, "turns_variance_share_between_groups needs"),
        ({"growth_exponent": 0.0}, "growth_exponent"),
        ({"observation_turns_correlation": -2.0}, "observation_turns_correlation"),
        ({"observation_turns_correlation": 0.5}, "observation_turns_correlation needs"),
    ],
)
def test_what_is_refused(change, rule):
    """By the name of the field."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        replace(SPEC, **change)


def test_growth_without_growth_is_idle():
    """A power of nothing is nothing, and the check says so."""
    assert replace(SPEC, turns=1, growth_exponent=0.57).idle_fields() == [
        "growth_exponent has no effect: a sample has one turn"
    ]
    assert replace(SPEC, growth_exponent=0.57).idle_fields() == [
        "growth_exponent has no effect: there are no observations"
    ]
