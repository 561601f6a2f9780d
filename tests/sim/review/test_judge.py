"""When a review recommends, what, and when it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.review import Findings, judge
from sim.stats import compare


def ratios(mean: float, sd: float, pairs: int = 20):
    logs = np.linspace(-1, 1, pairs) if pairs > 1 else np.zeros(1)
    logs = logs * sd / 0.6 + np.log(mean)  # a row of equal steps has a deviation near 0.6
    return compare(np.ones(pairs), np.exp(logs), "higher")


def found(mean: float = 1.1, sd: float = 0.02, **more: object) -> Findings:
    own = {"lower_is_better": False, "decides_alike": False, "failed_checks": (), "failures": 0}
    own |= {"metric": "samples_per_s", "paired": ratios(mean, sd), "interest": 0.05, "inside_share": 0.9}
    return Findings(**own | {"outside_by": "tokens"} | more)


@pytest.mark.parametrize(
    ("mean", "says"),
    [
        (1.1, "RUN the real benchmark, 12 pairs: "),
        (1.02, "DO NOT RUN for samples_per_s"),
        (0.9, "DO NOT RUN: "),
        (1.0, "DO NOT RUN for"),
    ],
)
def test_what_is_recommended(mean: float, says: str) -> None:
    """By where the interval lies; the ratio is there with its interval."""
    said = judge(found(mean), 12)
    assert said.headline.startswith(says)
    assert not said.is_refused
    assert f"{mean:.3f} [" in said.headline


def test_lower_is_better() -> None:
    """A ratio of 0.9 is a gain of a time, one of 1.1 is not."""
    assert judge(found(0.9, lower_is_better=True), 3).headline.startswith("RUN")
    assert judge(found(1.1, lower_is_better=True), 3).headline.startswith("DO NOT RUN: ")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"decides_alike": True}, "no decision of the two arms differs"),
        ({"failed_checks": ["null control: one engine"]}, "a check failed: null control: one engine"),
        ({"failures": 2}, "2 replications failed"),
        ({"inside_share": 0.79}, "21% of the simulated time is outside the calibrated region (most of it by tokens)"),
        ({"paired": ratios(1.1, 0.08)}, "half of the interval of samples_per_s"),
        ({"paired": ratios(1.1, 0.0, pairs=1)}, "samples_per_s has no interval (one pair, no interval)"),
    ],
)
def test_every_planted_fault_is_refused(fault: dict, says: str) -> None:
    """Each alone is enough, and says what would resolve it."""
    said = judge(replace(found(), **fault), 12)
    assert said.headline == "No recommendation"
    assert len(said.because) == 1
    assert said.because[0].startswith(says)


def test_just_inside_the_limits() -> None:
    """20 % outside, and an interval of just half of the effect's half, are let pass."""
    assert not judge(found(inside_share=0.8), 12).is_refused


@given(st.floats(0.7, 1.4), st.floats(0.001, 0.3), st.integers(3, 40))
def test_an_interval_too_wide_never_recommends(mean: float, sd: float, pairs: int) -> None:
    """And the number of pairs that it asks for is more than there are."""
    own = found(paired=ratios(mean, sd, pairs))
    _, lo, hi = own.oriented
    said = judge(own, 12)
    assert said.is_refused == ((hi - lo) / 2 > own.interest / 2)
    if said.is_refused:
        wanted = int(said.because[0].split("about ")[1].split(" pairs")[0].replace(",", ""))
        assert wanted > pairs
