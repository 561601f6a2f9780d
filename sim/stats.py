"""Paired comparisons: ratios within pairs, their intervals, and how likely harm is.

    ratio           geometric mean over pairs of candidate / baseline
    lo, hi          95 % by Student's t on the logarithms of the ratios
    boot_lo, _hi    95 % by the bias-corrected accelerated bootstrap (BCa) of the same mean
    p_worse         share of pairs strictly on the worse side of 1; a tie is not worse
    p_mean_worse    share of bootstrap resamples of the pairs whose mean log ratio is worse; ties count half

A pair in which one arm has no value is left out. A ratio with a zero in it is undefined: then ratio and intervals are
None with the reason, while p_worse still counts pairs. Resamples are the same for all metrics and drawn from a fixed
seed. SciPy's own ``bootstrap`` gives the same BCa interval metric by metric; here one product of matrices serves all
metrics of all arms, and importing ``scipy.stats`` would take longer than the whole calculation.

Left out: several comparisons at once are not corrected for; the intervals hold one by one.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

Floats = np.ndarray[Any, np.dtype[np.float64]]
Better = Literal["higher", "lower", "none"]

LEVEL = 0.95
RESAMPLES = 10_000
SEED = 20_250_101


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of one metric over the replications of one arm."""

    mean: float | None
    lo: float | None
    hi: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """A candidate against the baseline in one metric."""

    ratio: float | None
    lo: float | None
    hi: float | None
    p_worse: float | None
    pairs: int
    boot_lo: float | None = None
    boot_hi: float | None = None
    p_mean_worse: float | None = None
    reason: str = ""
    """Why there is no ratio, or no interval."""
    is_tie: bool = False
    """Both arms have the same value in every pair; then no probability of harm is given."""


def mean(values: Floats, *, deterministic: bool = False) -> Mean:
    """Mean with its 95 % t interval; NaN stands for no value. A deterministic cell is one observation."""
    known = values[~np.isnan(values)]
    if not known.size:
        return Mean(None, None, None, 0)
    if deterministic:
        return Mean(float(known[0]), None, None, 1)
    if known.size == 1:
        return Mean(float(known[0]), None, None, 1)
    lo, hi = _t_interval(known)
    return Mean(float(known.mean()), lo, hi, known.size)


def compare(baseline: Floats, candidate: Floats, better: Better, *, deterministic: bool = False) -> Ratio:
    """Compare two arms, pair by pair; NaN stands for no value."""
    known = ~(np.isnan(baseline) | np.isnan(candidate))
    baseline, candidate = baseline[known], candidate[known]
    if deterministic:
        baseline, candidate = baseline[:1], candidate[:1]
    pairs = int(baseline.size)
    if not pairs:
        return Ratio(None, None, None, None, 0, reason="no pair has a value in both arms")
    p_worse = _share_worse(candidate - baseline, better)
    tie = bool((candidate == baseline).all())
    if (zeros := int(((baseline <= 0) | (candidate <= 0)).sum())) > 0:
        worse = None if deterministic or tie else _mean_worse(candidate - baseline, better)
        reason = f"zero in {zeros} {'pair' if zeros == 1 else 'pairs'}"
        return Ratio(None, None, None, p_worse, pairs, p_mean_worse=worse, reason=reason, is_tie=tie)
    logs = np.log(candidate / baseline)
    ratio = float(np.exp(logs.mean()))
    if pairs == 1:
        reason = "deterministic, n = 1" if deterministic else "one pair, no interval"
        return Ratio(ratio, None, None, p_worse, pairs, reason=reason, is_tie=tie)
    lo, hi = np.exp(_t_interval(logs))
    boot_lo, boot_hi = np.exp(bca_interval(logs))
    worse = None if tie else _mean_worse(logs, better)
    ends = (float(boot_lo), float(boot_hi))
    return Ratio(ratio, float(lo), float(hi), p_worse, pairs, *ends, worse, is_tie=tie)


def geometric_ratio(baseline: Floats, candidate: Floats) -> float | None:
    """Geometric mean of candidate / baseline over pairs with a value in both; None without one, or with a zero."""
    known = ~(np.isnan(baseline) | np.isnan(candidate))
    baseline, candidate = baseline[known], candidate[known]
    if not baseline.size or (baseline <= 0).any() or (candidate <= 0).any():
        return None
    return float(np.exp(np.log(candidate / baseline).mean()))


def bca_interval(values: Floats) -> tuple[float, float]:
    """95 % bias-corrected accelerated bootstrap interval of the mean."""
    centre = values.mean()
    means = _resampled_means(values)
    if np.ptp(values) == 0:
        return float(centre), float(centre)
    below = ((means < centre).mean() + (means <= centre).mean()) / 2
    bias = ndtri(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    # Leaving one value out moves the mean by its distance from the centre, so the jackknife needs no loop.
    moves = values - centre
    acceleration = (moves**3).sum() / (6 * (moves**2).sum() ** 1.5)
    tails = bias + ndtri(np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    lo, hi = np.quantile(means, ndtr(bias + tails / (1 - acceleration * tails)))
    return float(lo), float(hi)


def _t_interval(values: Floats) -> tuple[float, float]:
    n = values.size
    half = stdtrit(n - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - half), float(values.mean() + half)


def _share_worse(differences: Floats, better: Better) -> float | None:
    if better == "none":
        return None
    return float((differences < 0).mean() if better == "higher" else (differences > 0).mean())


def _mean_worse(values: Floats, better: Better) -> float | None:
    """Bootstrap probability that the mean is on the worse side of zero."""
    if better == "none" or values.size < 2:
        return None
    means = _resampled_means(values) * (1 if better == "lower" else -1)
    return float(((means > 0).mean() + (means >= 0).mean()) / 2)


def _resampled_means(values: Floats) -> Floats:
    return np.asarray(_weights(values.size) @ values)


@lru_cache(maxsize=8)
def _weights(n: int) -> Floats:
    """How often each of n values is drawn in each resample, over n."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    return draw.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
