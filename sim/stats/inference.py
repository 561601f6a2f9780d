"""Tests of pairs, and what they entitle to say.

    permutation_p   sign flips of log ratios: exact up to 12 pairs, else 9,999 random ones; assumes symmetry alone
    spearman        rank correlation with the p of permuted pairings
    equivalence_p   two one-sided t tests (TOST): small where the mean ratio lies within a factor of ``1 + margin``
    verdict         in words: better, worse, equal within the margin, harm or no harm, or not separable

"No significant difference" is no equality: that is claimed by the equivalence test alone. Equal and better can hold at
once (a gain of 1 % is known to be there and known to be small); then both are said.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtr

from sim.stats.paired import ROUNDING, SEED, Better, Floats, t_interval

Direction = Literal["better", "worse", "not separable"]
FLIPS = 9_999
"""Random permutations where there are too many for all."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank correlation."""

    rho: float
    p: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an interval entitles to say of a ratio."""

    direction: Direction
    is_equal: bool
    """Equal within the margin, by the equivalence test at 5 %."""
    harm_excluded: bool
    """The 95 % interval lies on the good side of the harm line."""
    interest_shown: bool
    """The 95 % interval lies beyond the smallest interesting effect."""
    margin: float

    def __str__(self) -> str:
        """In words."""
        words: list[str] = [self.direction] if self.direction != "not separable" or not self.is_equal else []
        if self.is_equal:
            words.append(f"equal within {100 * self.margin:g} %")
        if self.interest_shown:
            words.append("by more than the smallest interesting effect")
        if not self.harm_excluded and self.direction != "worse":
            words.append("harm not excluded")
        return ", ".join(words)


def permutation_p(logs: Floats) -> float:
    """Two-sided p of no effect: how often flipped signs give a mean as far from zero."""
    if float(np.ptp(logs)) <= ROUNDING and abs(float(logs.mean())) <= ROUNDING:
        return 1.0
    from scipy import stats

    rng = np.random.Generator(np.random.PCG64(SEED))
    found = stats.permutation_test(
        (logs,), np.mean, permutation_type="samples", vectorized=True, n_resamples=FLIPS, batch=_batch(logs), rng=rng
    )
    return float(found.pvalue)


def kendall(x: Floats, y: Floats) -> float:
    """Kendall's tau-b: how far two orders of the same things agree, -1 to 1; nan where either is all ties."""
    from scipy import stats

    return float(stats.kendalltau(x, y).statistic)


def spearman(x: Floats, y: Floats) -> Rank | None:
    """Rank correlation of two columns; None where one of them is constant or there are fewer than three pairs."""
    if x.size < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy import stats

    ranks, fixed = (_standard(stats.rankdata(column)) for column in (x, y))
    rng = np.random.Generator(np.random.PCG64(SEED))
    found = stats.permutation_test(
        (ranks,),
        lambda each, axis: (each * fixed).mean(axis=axis),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=FLIPS,
        batch=_batch(x),
        rng=rng,
    )
    return Rank(float(found.statistic), float(found.pvalue))


def equivalence_p(logs: Floats, margin: float) -> float:
    """The p of the hypothesis that the mean ratio is off by the factor ``1 + margin`` or more, either way."""
    if margin <= 0:
        raise ValueError(f"the margin of equality must be positive, not {margin:g}")
    bound, centre = float(np.log1p(margin)), float(logs.mean())
    if logs.size < 2:
        return 1.0
    error = float(logs.std(ddof=1)) / logs.size**0.5
    if error <= ROUNDING:
        return 0.0 if abs(centre) < bound else 1.0
    return float(max(stdtr(logs.size - 1, (centre - bound) / error), stdtr(logs.size - 1, -(centre + bound) / error)))


def verdict(
    logs: Floats, better: Better, *, margin: float = 0.02, harm: float = 0.03, interest: float = 0.05
) -> Verdict:
    """What the pairs entitle to say; for a metric whose lower values are better, ratios count upside down."""
    signed = -logs if better == "lower" else logs
    lo, hi = t_interval(signed) if signed.size > 1 else (-np.inf, np.inf)
    direction: Direction = "better" if lo > 0 else "worse" if hi < 0 else "not separable"
    return Verdict(
        direction,
        is_equal=equivalence_p(logs, margin) < 0.05,
        harm_excluded=lo > np.log1p(-harm),
        interest_shown=lo > np.log1p(interest),
        margin=margin,
    )


def _batch(column: Floats) -> int:
    """Permutations at once, so that the table of them stays below 80 MB."""
    return max(1, 10_000_000 // column.size)


def _standard(column: Floats) -> Floats:
    return np.asarray((column - column.mean()) / column.std())
