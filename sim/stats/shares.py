"""Shares with their intervals: of two means over the same pairs (Fieller), and of a count (Clopper and Pearson).

What share of a difference is left: with means x and y of n pairs, their variances and covariance over n, and t of
Student, r is in the interval when

    (y - r x)**2 <= t**2 (v_yy - 2 r v_xy + r**2 v_xx)

which is exact where x and y are normal. Where x itself is not told from 0 (t**2 v_xx >= x**2) the set is no interval,
and a share of nothing is no share. Where pairs come in planned strata, means, variances and covariance are sums over
strata with weights w and w**2, and t has the degrees of freedom of Satterthwaite.
E. C. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954).

The interval of k of n is never too short: the shares under which k or more, and k or fewer, are no rarer than half of
what the level leaves. C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).

Of two groups of pairs: whether one has a larger share of hits than chance would give it, by Fisher's exact test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, stdtrit

from sim.stats.paired import LEVEL, Floats
from sim.stats.strata import Booleans

Strata = tuple[Sequence[Booleans], Sequence[float]]
"""For each stratum which pairs are in it, and its weight."""


@dataclass(frozen=True, slots=True)
class Share:
    """A ratio of means; without an interval where the lower mean is not told from 0, or there is one pair."""

    value: float
    lo: float | None
    hi: float | None


def ratio_of_means(above: Floats, below: Floats, strata: Strata | None = None, *, level: float = LEVEL) -> Share | None:
    """Mean of ``above`` over the mean of ``below``, pair by pair; None where the latter is 0, or a stratum is empty."""
    masks, weights = strata or ([np.ones(len(above), dtype=bool)], [1.0])
    sizes = [int(mask.sum()) for mask in masks]
    if not all(sizes):
        return None
    y, x = (
        sum(w * float(each[mask].mean()) for w, mask in zip(weights, masks, strict=True)) for each in (above, below)
    )
    if x == 0:
        return None
    value = y / x
    if min(sizes) < 2:
        return Share(value, None, None)
    moments = [w * w * np.cov(above[mask], below[mask]) / n for w, mask, n in zip(weights, masks, sizes, strict=True)]
    (v_yy, v_xy), (_, v_xx) = np.sum(moments, axis=0)
    t2 = float(stdtrit(_freedom(moments, value, sizes), (1 + level) / 2)) ** 2
    a, b, c = x * x - t2 * v_xx, x * y - t2 * v_xy, y * y - t2 * v_yy
    if a <= 0:
        return Share(value, None, None)
    half = math.sqrt(max(b * b - a * c, 0.0))
    return Share(value, float((b - half) / a), float((b + half) / a))


def _freedom(moments: Sequence[Floats], ratio: float, sizes: Sequence[int]) -> float:
    """Satterthwaite's degrees of freedom of the mean of y - r x; of one stratum, those of its pairs."""
    parts = [max(float(each[0, 0] - 2 * ratio * each[0, 1] + ratio**2 * each[1, 1]), 0.0) for each in moments]
    squares = sum(part**2 / (n - 1) for part, n in zip(parts, sizes, strict=True))
    return sum(parts) ** 2 / squares if squares and len(sizes) > 1 else sum(sizes) - len(sizes)


def share_of_all(count: int, of: int, *, level: float = LEVEL) -> tuple[float, float]:
    """Ends of the share of all of which so many of so many were counted; ``of`` 1 or more."""
    tail = (1 - level) / 2
    lo = float(betaincinv(count, of - count + 1, tail)) if count else 0.0
    hi = float(betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return lo, hi


def p_more_often(some: int, of: int, others: int, of_others: int) -> float:
    """One-sided p of Fisher's exact test: so many hits or more of ``of``, if chance deals them to both groups alike."""
    hits, every = some + others, of + of_others
    ways = math.comb(every, of)
    return sum(math.comb(hits, k) * math.comb(every - hits, of - k) for k in range(some, min(hits, of) + 1)) / ways
