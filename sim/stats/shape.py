"""The shape of what is compared: quantiles with honest intervals, one hump or two, and what common streams bought.

    quantile_interval   ranks that cover a quantile with the asked confidence, whatever the law (order statistics)
    humps               Hartigan and Hartigan's dip test: is the law of these values one hump?
    common              correlation of the arms, and the variance of their paired log ratio over that of unpaired runs

The dip is the largest distance of the empirical distribution to the nearest unimodal one; its p is by simulation under
the uniform law, the least favourable unimodal one, so long tails are no second hump. Source: Hartigan and Hartigan, The
dip test of unimodality, Annals of Statistics 13 (1985).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import bdtr

from sim.stats.paired import LEVEL, SEED, Floats

Ranks = np.ndarray[Any, np.dtype[np.int64]]

ENOUGH_FOR_HUMPS = 20
"""Values below which nothing is said of humps."""
DIP_SAMPLES = 400
MOST_FOR_DIPS = 500
"""Values from which on dips of uniform samples are taken to shrink like one over the root of their number."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile and the order statistics around it."""

    value: float
    lo: float | None
    hi: float | None
    """None where too few values make the largest or smallest one no limit."""
    ranks: tuple[int, int]
    """Of the two ends, from 1; 0 and n + 1 stand for no limit."""


@dataclass(frozen=True, slots=True)
class Humps:
    """Whether the values fall into two humps, and where those lie."""

    p: float
    """Of one hump."""
    low: float
    high: float
    """Mean of the values on either side of the best cut."""
    share_high: float

    @property
    def are_two(self) -> bool:
        """One hump is refused at 5 %."""
        return self.p < 0.05


@dataclass(frozen=True, slots=True)
class Common:
    """What common random numbers bought."""

    correlation: float
    """Of the logarithms of the two arms over pairs."""
    variance_ratio: float
    """Variance of the paired log ratio over that of arms run on workloads of their own."""

    @property
    def has_worked(self) -> bool:
        """The arms vary together, so pairing cancels some of the noise."""
        return self.correlation > 0


def quantile_interval(values: Floats, q: float, *, level: float = LEVEL) -> Quantile:
    """The linear sample quantile with its interval by order statistics; the values must be independent."""
    if not 0 < q < 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q:g}")
    ordered = np.sort(values)
    low, high = quantile_ranks(len(ordered), q, level=level)
    return Quantile(
        float(np.quantile(ordered, q)),
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= len(ordered) else None,
        (low, high),
    )


def quantile_ranks(n: int, q: float, *, level: float = LEVEL) -> tuple[int, int]:
    """Ranks of n ordered values between which the quantile lies, with half of the error to either side.

    The k-th of n values lies below the quantile with the probability that a binomial count reaches k.
    """
    tail = (1 - level) / 2
    below = bdtr(np.arange(n + 1), n, q)  # P(count <= k), k = 0 .. n
    low = int(np.searchsorted(below, tail, side="right"))  # the largest k with P(count < k) <= tail
    high = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    return low, high


def common(baseline: Floats, candidate: Floats) -> Common | None:
    """Correlation and variance ratio of two positive columns; None where one is constant, or for fewer than 3 pairs."""
    if baseline.size < 3:
        return None
    a, b = np.log(baseline), np.log(candidate)
    if np.ptp(a) <= 1e-12 or np.ptp(b) <= 1e-12:
        return None
    return Common(float(np.corrcoef(a, b)[0, 1]), float((b - a).var(ddof=1) / (a.var(ddof=1) + b.var(ddof=1))))


def humps(values: Floats) -> Humps | None:
    """The dip test; None for fewer than 20 values or equal ones."""
    if values.size < ENOUGH_FOR_HUMPS or np.ptp(values) <= 1e-12:
        return None
    found = dip(values)
    known = min(values.size, MOST_FOR_DIPS)
    p = float((1 + (_dips(known) * (known / values.size) ** 0.5 >= found).sum()) / (DIP_SAMPLES + 1))
    ordered = np.sort(values)
    sums, counts = np.cumsum(ordered)[:-1], np.arange(1, len(ordered))
    low, high = sums / counts, (ordered.sum() - sums) / (len(ordered) - counts)
    cut = int(np.argmax(counts * (len(ordered) - counts) * (high - low) ** 2))
    return Humps(p, float(low[cut]), float(high[cut]), float(1 - counts[cut] / len(ordered)))


def dip(values: Floats) -> float:
    """Distance of the empirical distribution to the nearest unimodal one, between 1/(2n) and 1/4.

    Between the ends of the modal interval the law may be anything monotone; left of it the greatest convex minorant of
    the steps counts, right of it the least concave majorant. The interval shrinks until nothing is gained.
    """
    x = np.sort(values)
    n = len(x)
    if x[0] == x[-1]:
        return 0.5 / n
    low, high, found = 0, n - 1, 1.0
    while True:
        # Ranks: the lower corner of step i is i, the upper one i + 1.
        convex = low + _hull(x[low : high + 1], np.arange(low, high + 1), 1)
        concave = low + _hull(x[low : high + 1], np.arange(low + 1, high + 2), -1)
        below = np.interp(x[concave], x[convex], convex)
        above = np.interp(x[convex], x[concave], concave + 1)
        gap_convex, gap_concave = above - convex, concave + 1 - below
        gap = max(float(gap_convex.max()), float(gap_concave.max()))
        if gap <= found or (len(convex) < 3 and len(concave) < 3):
            return max(found, min(gap, found)) / (2 * n)
        if gap_convex.max() >= gap_concave.max():
            left = int(convex[gap_convex.argmax()])
            right = int(concave[np.searchsorted(concave, left)])
        else:
            right = int(concave[gap_concave.argmax()])
            left = int(convex[np.searchsorted(convex, right, side="right") - 1])
        found = max(
            found,
            _off(x, low, left, convex, 0),
            _off(x, right, high, concave, 1),
        )
        low, high = left, right  # strictly inside: at either end the gap is one step, which is no gain


def _hull(x: Floats, y: Ranks, sign: int) -> Ranks:
    """Indices of the greatest convex minorant (sign 1) or least concave majorant (sign -1) of points."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if sign * ((y[b] - y[a]) * (x[i] - x[a]) - (y[i] - y[a]) * (x[b] - x[a])) >= 0:
                kept.pop()
            else:
                break
        kept.append(i)
    return np.array(kept)


def _off(x: Floats, start: int, stop: int, knots: Ranks, side: int) -> float:
    """Largest distance of the steps from the hull between two ranks, in ranks."""
    inside = np.arange(start, stop + 1)
    line = np.interp(x[inside], x[knots], knots + side)
    steps = inside + 1 - line if side == 0 else line - inside
    return float(steps.max(initial=0.0))


@lru_cache(maxsize=8)
def _dips(n: int) -> Floats:
    """Dips of uniform samples."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    return np.array([dip(draw.random(n)) for _ in range(DIP_SAMPLES)])
