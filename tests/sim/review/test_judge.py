"""When a review recommends, what, and when it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.report.region import UNSTATED
from sim.review import Findings, judge
from sim.review._judge import decision, oriented, standing
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
        (1.1, "RUN the real benchmark: "),
        (1.02, "DO NOT RUN: the candidate is predicted to gain less than the 5%"),
        (0.9, "DO NOT RUN: the candidate is predicted to be worse"),
        (1.0, "DO NOT RUN: the candidate is predicted to gain less"),
    ],
)
def test_what_is_recommended(mean: float, says: str) -> None:
    """By where the interval lies; the change is there with its interval."""
    said = judge(found(mean))
    assert said.headline.startswith(says)
    assert not said.is_refused
    assert f"samples_per_s {mean - 1:+.1%} [" in said.headline


def test_lower_is_better() -> None:
    """A ratio of 0.9 is a gain of a time, one of 1.1 is not."""
    assert judge(found(0.9, lower_is_better=True)).headline.startswith("RUN")
    assert judge(found(1.1, lower_is_better=True)).headline.startswith("DO NOT RUN: ")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ({"decides_alike": True}, "no decision of the two arms differs"),
        ({"failed_checks": ["null control: one engine"]}, "a check failed: null control: one engine"),
        ({"failures": 2}, "2 replications failed"),
        ({"inside_share": 0.79}, "21% of the simulated time is outside the calibrated region (most of it by tokens)"),
        (
            {"inside_share": 0.5, "outside_by": UNSTATED},
            "50% of the simulated time is outside the calibrated region (its",
        ),
        ({"paired": ratios(1.1, 0.08)}, "the interval of samples_per_s is ±"),
        ({"paired": ratios(1.1, 0.0, pairs=1)}, "samples_per_s has no interval (one pair, no interval)"),
    ],
)
def test_every_planted_fault_is_refused(fault: dict, says: str) -> None:
    """Each alone is enough, and says what would resolve it."""
    said = judge(replace(found(), **fault))
    assert said.headline == "No recommendation"
    assert len(said.because) == 1
    assert said.because[0].startswith(says)


def test_just_inside_the_limits() -> None:
    """20 % outside, and an interval of just half of the effect's half, are let pass."""
    assert not judge(found(inside_share=0.8)).is_refused


@given(st.floats(0.7, 1.4), st.floats(0.001, 0.3), st.integers(3, 40))
def test_an_interval_too_wide_never_recommends(mean: float, sd: float, pairs: int) -> None:
    """And the number of pairs that it asks for is more than there are."""
    own = found(paired=ratios(mean, sd, pairs))
    _, lo, hi = own.oriented
    said = judge(own)
    assert said.is_refused == ((hi - lo) / 2 > own.interest / 2)
    if said.is_refused:
        wanted = int(said.because[0].split("about ")[1].split(" pairs")[0].replace(",", ""))
        assert wanted > pairs


MEANS, SPREADS = st.floats(0.7, 1.4), st.floats(0.0005, 0.05)


@given(MEANS, SPREADS, st.integers(3, 60), st.booleans())
def test_a_headline_says_what_the_interval_allows(mean: float, sd: float, pairs: int, lower: bool) -> None:
    """Better and worse only of an interval on that side of 1; too little only of one below the effect of interest."""
    own = found(paired=ratios(mean, sd, pairs), lower_is_better=lower, candidate="group")
    _, lo, hi = own.oriented
    said = judge(own)
    assert said.word in ("RUN the real benchmark", "DO NOT RUN", "No recommendation")
    if "to be better" in said.headline:
        assert lo >= 1 - 1e-9
        assert hi >= 1 + own.interest
    if "to be worse" in said.headline:
        assert hi < 1
    if "to gain less" in said.headline:
        assert hi < 1 + own.interest
    assert said.word.startswith("RUN") == ("to be better" in said.headline)
    assert said.is_refused == ("predicted" not in said.headline)
    if not said.is_refused:
        assert said.word.startswith(decision(own.oriented, own.interest))
        assert f"samples_per_s {own.paired.ratio - 1:+.1%} [" in said.headline


@given(MEANS, SPREADS, st.booleans(), st.floats(0.8, 1.2))
def test_the_way_round_changes_no_judgement(mean: float, sd: float, lower: bool, line: float) -> None:
    """A metric turned over is the same evidence; above and below a line leave it out, and open holds it."""
    own = ratios(mean, sd)
    found_ = oriented(own.ratio, own.lo, own.hi, lower_is_better=lower)
    again = oriented(*(1 / each for each in (own.ratio, own.hi, own.lo)), lower_is_better=not lower)
    assert found_ == pytest.approx(again)
    stands = standing(*found_[1:], line)
    assert (stands == "open") == (found_[1] <= line <= found_[2])
    assert (stands == "above") == (found_[1] > line)
    assert standing(None, 1.0) is None


def test_a_plan_and_how_sure_it_is_stand_in_the_headline() -> None:
    """Pairs and GPU-hours where there is a plan; what is refused says that it advises nothing."""
    said = judge(found(plan="72 pairs, 53.4 GPU-hours", candidate="group", sure="How sure: so."))
    assert said.headline.startswith("RUN the real benchmark, 72 pairs, 53.4 GPU-hours: group is predicted to be better")
    assert said.sure == "How sure: so."
    assert "neither" in judge(found(failures=1)).sure
