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
from typing import Literal

from sim.report.rule import percent
from sim.review._model import Judgement
from sim.stats import Ratio

Decision = Literal["RUN", "DO NOT RUN", "undecided"]

MOST_OUTSIDE = 0.2
"""Share of simulated time outside the calibrated region beyond which nothing is recommended."""


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
    with_model: str = "not quantified"
    """The ratio with errors of the model's form, for reading."""

    @property
    def oriented(self) -> tuple[float, float, float] | None:
        """Ratio, lower and upper end, more than 1 is better; None without an interval."""
        ratio, lo, hi = self.paired.ratio, self.paired.lo, self.paired.hi
        if ratio is None or lo is None or hi is None:
            return None
        return (1 / ratio, 1 / hi, 1 / lo) if self.lower_is_better else (ratio, lo, hi)


def decision(oriented: tuple[float, float, float] | None, interest: float) -> Decision:
    """What an interval alone says: ratio, lower and upper end, more than 1 is better; None is no interval."""
    if oriented is None or (oriented[2] - oriented[1]) / 2 > interest / 2:
        return "undecided"
    return "DO NOT RUN" if oriented[2] < 1 + interest else "RUN"


def judge(found: Findings, pairs: int) -> Judgement:
    """The recommendation; ``pairs`` are those that a real campaign would need, for its text."""
    reasons = list(_refusals(found))
    if reasons:
        return Judgement("No recommendation", reasons)
    assert found.oriented is not None
    hi = found.oriented[2]
    effect = (
        f"ratio {found.paired.ratio:.3f} [{found.paired.lo:.3f}, {found.paired.hi:.3f}] by chance alone; "
        f"with model error {found.with_model}"
    )
    if hi < 1:
        return Judgement(f"DO NOT RUN: the candidate is predicted to be worse in {found.metric} ({effect})")
    if decision(found.oriented, found.interest) == "DO NOT RUN":
        return Judgement(
            f"DO NOT RUN for {found.metric}: whatever gain there is lies below {percent(found.interest)} ({effect})"
        )
    return Judgement(
        f"RUN the real benchmark, {pairs} pairs: it is worth its GPU time, "
        f"as the candidate is predicted to be better in {found.metric} ({effect})"
    )


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
            f"half of the interval of {found.metric} ({half:.1%}) exceeds half of the smallest effect of interest "
            f"({percent(found.interest / 2)}): about {wanted:,} pairs instead of {found.paired.pairs:,} would narrow it"
        )
    if (outside := 1 - found.inside_share) > MOST_OUTSIDE:
        yield (
            f"{outside:.0%} of the simulated time is outside the calibrated region (most of it by {found.outside_by}): "
            "measure steps of this kind (windtunnel calibrate), or take a profile that covers them"
        )
