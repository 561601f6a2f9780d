"""Strata recombined: cells that count alike, or placement classes by their exact probabilities.

    estimate      sum over strata of weight * mean of the logarithms of the ratios
    variance      sum of weight**2 * s**2 / n, s each stratum's own
    lo, hi        Student's t with Satterthwaite's degrees of freedom
    boot_lo, _hi  BCa with resampling within strata; the acceleration is that of the stratified jackknife

Weights are given, not estimated: what luck made frequent in a campaign weighs no more for it. A stratum of one pair has
no spread of its own; then there is no interval, because what is not known cannot be added up.

Source of the acceleration: Davison and Hinkley, Bootstrap Methods and their Application (1997), 5.3.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from sim.stats.paired import (
    ENOUGH_PAIRS,
    LEVEL,
    RESAMPLES,
    ROUNDING,
    SEED,
    Better,
    Caution,
    Floats,
    Mean,
    Ratio,
    caution,
    compare,
)

Booleans = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Pooled:
    """A ratio over strata."""

    ratio: float
    lo: float | None
    hi: float | None
    pairs: int
    boot_lo: float | None = None
    boot_hi: float | None = None
    p: float | None = None
    """Two-sided, of no effect, by the same t."""
    caution: Caution = ""
    reason: str = ""
    """Why there is no interval."""


def pooled(strata: Sequence[Floats], weights: Sequence[float] | None = None, *, level: float = LEVEL) -> Pooled:
    """The ratio over strata of log ratios; equal weights where none are given. Every stratum needs a pair."""
    shares = np.full(len(strata), 1 / len(strata)) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(shares) != len(strata) or not np.isclose(shares.sum(), 1.0):
        raise ValueError("weights are one a stratum and add up to 1")
    sizes = np.array([logs.size for logs in strata])
    if (sizes == 0).any():
        raise ValueError("a stratum has no pair")
    centre, pairs = float(shares @ [logs.mean() for logs in strata]), int(sizes.sum())
    if (sizes == 1).any():
        return Pooled(float(np.exp(centre)), None, None, pairs, reason="a stratum of one pair, no interval")
    parts = shares**2 * [logs.var(ddof=1) for logs in strata] / sizes
    variance = float(parts.sum())
    if variance <= ROUNDING**2:
        return Pooled(float(np.exp(centre)), float(np.exp(centre)), float(np.exp(centre)), pairs)
    freedom = variance**2 / float((parts**2 / (sizes - 1)).sum())
    half = float(stdtrit(freedom, (1 + level) / 2)) * variance**0.5
    p = 2 * float(stdtr(freedom, -abs(centre) / variance**0.5))
    lo, hi = np.exp([centre - half, centre + half])
    moves = np.concatenate([logs - logs.mean() for logs in strata])
    doubt: Caution = "few" if pairs < ENOUGH_PAIRS else caution(moves)
    if doubt:
        return Pooled(float(np.exp(centre)), float(lo), float(hi), pairs, p=p, caution=doubt)
    boot_lo, boot_hi = np.exp(_bca(strata, shares, level))
    return Pooled(float(np.exp(centre)), float(lo), float(hi), pairs, float(boot_lo), float(boot_hi), p)


def compare_blocked(
    baseline: Floats, candidate: Floats, better: Better, strata: Sequence[Booleans], weights: Sequence[float]
) -> Ratio:
    """Compare two arms whose pairs come in planned strata; each mask marks the pairs of one.

    Shares of pairs that are worse are recombined by the weights too. Where a stratum has no pair there is no ratio.
    """
    plain = compare(baseline, candidate, better)
    if plain.ratio is None:
        return plain
    known = ~(np.isnan(baseline) | np.isnan(candidate))
    kept = [mask & known for mask in strata]
    if not all(mask.any() for mask in kept):
        reason = "a placement class has no pair"
        return Ratio(None, None, None, None, plain.pairs, reason=reason, is_tie=plain.is_tie)
    logs = np.zeros(baseline.size)
    logs[known] = np.log(candidate[known] / baseline[known])
    found = pooled([logs[mask] for mask in kept], weights)
    worse = {"higher": logs < 0, "lower": logs > 0}.get(better)
    return Ratio(
        found.ratio,
        found.lo,
        found.hi,
        None if worse is None else float(np.dot(weights, [worse[mask].mean() for mask in kept])),
        plain.pairs,
        found.boot_lo,
        found.boot_hi,
        p_mean_worse=_mean_worse(found, better),
        reason=found.reason,
        is_tie=plain.is_tie,
        p=found.p,
        caution=found.caution,
    )


def _mean_worse(found: Pooled, better: Better) -> float | None:
    """Probability that the mean is on the worse side, by the same t as the interval."""
    if found.p is None or better == "none":
        return None
    is_worse = (found.ratio > 1) == (better == "lower")
    return 1 - found.p / 2 if is_worse else found.p / 2


def weighted_mean(strata: Sequence[Floats], weights: Sequence[float]) -> tuple[float, float | None]:
    """Mean over strata and half of its 95 % interval; None where a stratum has one value."""
    centre = float(np.dot(weights, [values.mean() for values in strata]))
    if any(values.size < 2 for values in strata):
        return centre, None
    parts = np.array([(w**2) * values.var(ddof=1) / values.size for w, values in zip(weights, strata, strict=True)])
    variance = float(parts.sum())
    if variance == 0:
        return centre, 0.0
    freedom = variance**2 / sum(part**2 / (values.size - 1) for part, values in zip(parts, strata, strict=True))
    return centre, float(stdtrit(freedom, (1 + LEVEL) / 2)) * variance**0.5


def mean_blocked(values: Floats, strata: Sequence[Booleans], weights: Sequence[float]) -> Mean:
    """Mean of one metric over planned strata; without value where a stratum has none."""
    known = ~np.isnan(values)
    kept = [values[mask & known] for mask in strata]
    if not all(each.size for each in kept):
        return Mean(None, None, None, int(known.sum()))
    centre, half = weighted_mean(kept, weights)
    lo, hi = (None, None) if half is None else (centre - half, centre + half)
    return Mean(centre, lo, hi, int(known.sum()))


def _bca(strata: Sequence[Floats], shares: Floats, level: float) -> tuple[float, float]:
    draw = np.random.Generator(np.random.PCG64(SEED))
    means = np.zeros(RESAMPLES)
    cubes = squares = 0.0
    for logs, share in zip(strata, shares, strict=True):
        n = logs.size
        means += share * (draw.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) @ logs) / n
        moves = share * (logs - logs.mean())
        cubes += float((moves**3).sum()) / n**3
        squares += float((moves**2).sum()) / n**2
    centre = float(shares @ [logs.mean() for logs in strata])
    below = ((means < centre).mean() + (means <= centre).mean()) / 2
    bias = ndtri(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    acceleration = cubes / (6 * squares**1.5)
    tails = bias + ndtri(np.array([(1 - level) / 2, (1 + level) / 2]))
    lo, hi = np.quantile(means, ndtr(bias + tails / (1 - acceleration * tails)))
    return float(lo), float(hi)
