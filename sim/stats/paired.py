"""Paired comparisons: ratios within pairs, their intervals, and how likely harm is.

    ratio           geometric mean over pairs of candidate / baseline
    lo, hi          95 % by Student's t on the logarithms of the ratios
    boot_lo, _hi    95 % by the bias-corrected accelerated bootstrap (BCa) of the same mean; refused where it is too
                    sure: below 20 pairs, and where the logarithms are too skewed for their number
    p_worse         share of pairs strictly on the worse side of 1; a tie is not worse
    p_mean_worse    one-sided p of a mean that is no better: the share of bootstrap resamples of the pairs whose mean
                    log ratio is worse, ties count half; below 20 pairs Student's t, as the interval has it

A pair in which one arm has no value is left out. A ratio with a zero in it is undefined: then ratio and intervals are
None with the reason, while p_worse still counts pairs. Resamples are the same for all metrics and drawn from a fixed
seed. SciPy's own ``bootstrap`` gives the same BCa interval metric by metric; here one product of matrices serves all
metrics of all arms, and importing ``scipy.stats`` would take longer than the whole calculation.

The rule for skewness is Cochran's (Sampling Techniques, 1977, 2.15): a normal interval of a mean needs more than
25 g**2 observations of skewness g. Pairs of a blocked campaign come in strata, which ``sim.stats.strata`` recombines.

Left out: several comparisons at once are not corrected for here (``sim.stats.many``); the intervals hold one by one.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

Floats = np.ndarray[Any, np.dtype[np.float64]]
Better = Literal["higher", "lower", "none"]
Caution = Literal["", "few", "skewed"]

LEVEL = 0.95
RESAMPLES = 10_000
SEED = 20_250_101
KEPT = 1000
"""Pairs up to which the weights of all resamples are kept for the next metric; beyond they would fill the memory."""
CHUNK = 100
ENOUGH_PAIRS = 20
"""Pairs below which a bootstrap interval is refused."""
ROUNDING = 1e-12
"""Logarithms closer than this are equal but for rounding."""
COCHRAN = 25
"""Observations that the normal approximation of a mean needs for each unit of squared skewness."""


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
    p: float | None = None
    """Two-sided, of no effect, by Student's t on the logarithms; None without interval or spread."""
    caution: Caution = ""
    """Why the bootstrap interval is refused and Student's is rough: few pairs, or skewed ratios."""


def mean(values: Floats, *, deterministic: bool = False) -> Mean:
    """Mean with its 95 % t interval; NaN stands for no value. A deterministic cell is one observation."""
    known = values[~np.isnan(values)]
    if not known.size:
        return Mean(None, None, None, 0)
    if deterministic:
        return Mean(float(known[0]), None, None, 1)
    if known.size == 1:
        return Mean(float(known[0]), None, None, 1)
    lo, hi = t_interval(known)
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
    lo, hi = np.exp(t_interval(logs))
    worse = None if tie else _mean_worse(logs, better)
    spread = float(logs.std(ddof=1))
    p = 2 * float(stdtr(pairs - 1, -abs(logs.mean()) * pairs**0.5 / spread)) if spread > ROUNDING else None
    found = Ratio(
        ratio, float(lo), float(hi), p_worse, pairs, p_mean_worse=worse, is_tie=tie, p=p, caution=caution(logs)
    )
    if found.caution or tie:
        return found
    boot_lo, boot_hi = np.exp(bca_interval(logs))
    return replace(found, boot_lo=float(boot_lo), boot_hi=float(boot_hi))


def caution(logs: Floats) -> Caution:
    """What makes an interval of the mean of these values rough: their small number, or their skewness."""
    if np.ptp(logs) <= ROUNDING:
        return ""
    if logs.size < ENOUGH_PAIRS:
        return "few"
    return "skewed" if logs.size <= COCHRAN * skewness(logs) ** 2 else ""


def skewness(values: Floats) -> float:
    """Third central moment over the third power of the standard deviation; 0 of equal values."""
    moves = values - values.mean()
    spread = float((moves**2).mean())
    return float((moves**3).mean() / spread**1.5) if spread > 0 else 0.0


def geometric_ratio(baseline: Floats, candidate: Floats) -> float | None:
    """Geometric mean of candidate / baseline over pairs with a value in both; None without one, or with a zero."""
    known = ~(np.isnan(baseline) | np.isnan(candidate))
    baseline, candidate = baseline[known], candidate[known]
    if not baseline.size or (baseline <= 0).any() or (candidate <= 0).any():
        return None
    return float(np.exp(np.log(candidate / baseline).mean()))


def bca_interval(values: Floats) -> tuple[float, float]:
    """95 % bias-corrected accelerated bootstrap interval of the mean."""
    lo, hi = bca_intervals(values[None, :])[0]
    return float(lo), float(hi)


def bca_intervals(samples: Floats) -> Floats:
    """The same for many samples of one size, a row each: two columns, the ends."""
    centre = samples.mean(axis=1)
    means = np.sort(_resampled_means(samples.T), axis=0)
    below = ((means < centre).mean(axis=0) + (means <= centre).mean(axis=0)) / 2
    bias = ndtri(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    # Leaving one value out moves the mean by its distance from the centre, so the jackknife needs no loop.
    moves = samples - centre[:, None]
    spread = 6 * (moves**2).sum(axis=1) ** 1.5
    acceleration = np.divide((moves**3).sum(axis=1), spread, out=np.zeros_like(centre), where=spread > 0)
    ends = []
    for tail in ndtri(np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])):
        at = ndtr(bias + (bias + tail) / (1 - acceleration * (bias + tail))) * (RESAMPLES - 1)
        low = np.minimum(at.astype(np.int64), RESAMPLES - 2)
        lower, upper = (np.take_along_axis(means, (low + step)[None, :], axis=0)[0] for step in (0, 1))
        ends.append(np.where(spread > 0, lower + (at - low) * (upper - lower), centre))
    return np.stack(ends, axis=1)


def t_interval(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Student's interval of the mean of two or more values."""
    n = values.size
    half = stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - half), float(values.mean() + half)


def interval_p(ratio: float, lo: float, hi: float, pairs: int, level: float = LEVEL) -> float:
    """Two-sided p of a ratio of 1, by the t whose interval at ``level`` over so many pairs this is; pairs above 1."""
    centre, half = float(np.log(ratio)), float(np.log(hi) - np.log(lo)) / 2
    if half == 0:
        return 1.0 if centre == 0 else 0.0
    error = half / float(stdtrit(pairs - 1, (1 + level) / 2))
    return 2 * float(stdtr(pairs - 1, -abs(centre) / error))


def _share_worse(differences: Floats, better: Better) -> float | None:
    if better == "none":
        return None
    return float((differences < 0).mean() if better == "higher" else (differences > 0).mean())


def _mean_worse(values: Floats, better: Better) -> float | None:
    """One-sided p of a mean that is not on the better side of zero."""
    if better == "none" or values.size < 2:
        return None
    sign = 1 if better == "lower" else -1
    if values.size < ENOUGH_PAIRS:
        spread = float(values.std(ddof=1))
        if spread > ROUNDING:
            return float(stdtr(values.size - 1, sign * values.mean() * values.size**0.5 / spread))
    means = _resampled_means(values) * sign
    return float(((means > 0).mean() + (means >= 0).mean()) / 2)


def _resampled_means(values: Floats) -> Floats:
    """By resample the mean of a sample, or of each column of samples."""
    n = len(values)
    if n <= KEPT:
        return np.asarray(_weights(n) @ values)
    draw = np.random.Generator(np.random.PCG64(SEED))
    even = np.full(n, 1 / n)
    parts = [draw.multinomial(n, even, size=CHUNK) @ values / n for _ in range(RESAMPLES // CHUNK)]
    return np.asarray(np.concatenate(parts))


@lru_cache(maxsize=8)
def _weights(n: int) -> Floats:
    """How often each of n values is drawn in each resample, over n."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    return draw.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
