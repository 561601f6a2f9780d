"""From findings to a recommendation, or to the reasons why there is none.

    refused    arms that decide alike, replications that failed, a null control or another check that failed, a metric
               of what was served where an arm finished fewer of its requests, more than 20 % of the simulated time
               outside the calibrated region, or half of the interval wider than half of the smallest effect of interest
    DO NOT     the interval lies on the bad side of 1, or below the smallest effect of interest
    RUN        else: an interval narrow enough not to be refused, that reaches a gain of interest, leaves out 1

Ratios are turned so that more than 1 is better, whatever the metric's direction.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sim.report.region import UNSTATED
from sim.report.rule import percent
from sim.review._model import Judgement
from sim.stats import Ratio

Decision = Literal["RUN", "DO NOT RUN", "undecided"]
Standing = Literal["above", "below", "open"]
Oriented = tuple[float, float, float]
"""Ratio, lower and upper end, more than 1 is better."""

MOST_OUTSIDE = 0.2
"""Share of simulated time outside the calibrated region beyond which nothing is recommended."""


UNTIL: Final = (
    "Until that is resolved this review advises neither to run nor not to run; what follows shows what was simulated, "
    "and is no ground for GPU time."
)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a recommendation depends on."""

    metric: str
    lower_is_better: bool
    paired: Ratio
    interest: float
    decides_alike: bool
    """No decision of the two arms differs but for the names of engines."""
    failed_checks: Sequence[str]
    """Null controls and laws that did not hold, in words."""
    failures: int
    """Replications that raised."""
    inside_share: float
    """Of the simulated time, in the arm that has less."""
    outside_by: str
    """By which quantity most of the rest is outside."""
    unequal_work: str = ""
    """How many requests each arm finished, where these shares differ and the metric is of what was served."""
    candidate: str = "the candidate"
    plan: str = ""
    """Pairs and GPU-hours of the real campaign, for reading."""
    sure: str = ""
    """How sure the answer is, for reading."""

    @property
    def oriented(self) -> Oriented | None:
        """The ratio and its interval, more than 1 is better; None without an interval."""
        return oriented(self.paired.ratio, self.paired.lo, self.paired.hi, lower_is_better=self.lower_is_better)


def oriented(ratio: float | None, lo: float | None, hi: float | None, *, lower_is_better: bool) -> Oriented | None:
    """A ratio and its interval turned so that more than 1 is better; None where one of them is missing."""
    if ratio is None or lo is None or hi is None:
        return None
    return (1 / ratio, 1 / hi, 1 / lo) if lower_is_better else (ratio, lo, hi)


def standing(lo: float | None, hi: float | None, line: float = 1.0) -> Standing | None:
    """On which side of a line an interval lies; open where it holds the line, None where there is no interval.

    What a review says to be better, worse or not told, of the whole or of a part, it says by this alone.
    """
    if lo is None or hi is None:
        return None
    return "above" if lo > line else "below" if hi < line else "open"


def decision(oriented: Oriented | None, interest: float) -> Decision:
    """What an interval alone says: ratio, lower and upper end, more than 1 is better; None is no interval."""
    if oriented is None or (oriented[2] - oriented[1]) / 2 > interest / 2:
        return "undecided"
    return "DO NOT RUN" if oriented[2] < 1 + interest else "RUN"


Answer = Literal["better", "worse", "too little", "undecided"]


def answer(oriented: Oriented | None, interest: float) -> Answer:
    """What a decision rests on, for every sentence that gives a reason for it or argues against it."""
    decided = decision(oriented, interest)
    if oriented is None or decided == "undecided":
        return "undecided"
    if decided == "RUN":
        return "better"
    return "worse" if standing(*oriented[1:]) == "below" else "too little"


def judge(found: Findings) -> Judgement:
    """The recommendation."""
    reasons = list(_refusals(found))
    if reasons:
        return Judgement("No recommendation", reasons, UNTIL)
    assert found.oriented is not None
    says = answer(found.oriented, found.interest)
    ends = f"[{signed(found.paired.lo)}, {signed(found.paired.hi)}]"
    changes = f"{found.metric} {signed(found.paired.ratio)} {ends} (95%, counting simulation noise only)"
    if says == "worse":
        return Judgement(f"DO NOT RUN: {found.candidate} is predicted to be worse, {changes}", sure=found.sure)
    if says == "too little":
        least = percent(found.interest)
        said = (
            f"DO NOT RUN: {found.candidate} is predicted to gain less than the {least} that are worth having, {changes}"
        )
        return Judgement(said, sure=found.sure)
    plan = f", {found.plan}" if found.plan else ""
    said = f"RUN the real benchmark{plan}: {found.candidate} is predicted to be better, {changes}"
    return Judgement(said, sure=found.sure)


def _by(quantity: str) -> str:
    return "its cost profile states none" if quantity == UNSTATED else f"most of it by {quantity.replace('_', ' ')}"


def signed(ratio: float | None) -> str:
    """A ratio as a change."""
    return "–" if ratio is None else f"{ratio - 1:+.1%}"


def _refusals(found: Findings) -> Iterator[str]:
    if found.failures:
        yield f"{found.failures} replications failed: see the warnings, mend the scenario, and run again"
    if found.unequal_work:
        yield (
            f"{found.metric} is of the requests that were served, and {found.unequal_work}: "
            "let a metric decide that counts what was asked for (goodput_per_s), or give both arms the same limits"
        )
    for each in found.failed_checks:
        yield f"a check failed: {each}; no number of this review can be trusted until it is explained"
    if found.decides_alike:
        yield (
            "no decision of the two arms differs: the change does not reach the router in this workload; "
            "check that it does what is meant, or take a workload in which it matters"
        )
    elif found.oriented is None:
        reason = found.paired.reason or "the pairs have none"
        yield f"{found.metric} has no interval ({reason}): run more pairs, or name the noise that real runs have"
    elif (half := (found.oriented[2] - found.oriented[1]) / 2) > found.interest / 2:
        wanted = math.ceil(found.paired.pairs * (2 * half / found.interest) ** 2)
        yield (
            f"the interval of {found.metric} is ±{half:.1%}, and ±{percent(found.interest / 2)} is needed to tell an "
            f"effect of {percent(found.interest)}: simulate about {wanted:,} pairs instead of {found.paired.pairs:,} "
            "(--pairs)"
        )
    if (outside := 1 - found.inside_share) > MOST_OUTSIDE:
        yield (
            f"{outside:.0%} of the simulated time is outside the calibrated region ({_by(found.outside_by)}): "
            "measure steps of this kind (windtunnel calibrate), or take a profile that covers them"
        )
