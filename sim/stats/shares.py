"""The ratio of two means over the same pairs, with Fieller's interval: what share of a difference is left.

With means x and y of n pairs, their variances and covariance over n, and t of Student, r is in the interval when

    (y - r x)**2 <= t**2 (v_yy - 2 r v_xy + r**2 v_xx)

which is exact where x and y are normal. Where x itself is not told from 0 (t**2 v_xx >= x**2) the set is no interval,
and a share of nothing is no share. E. C. Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sim.stats.paired import LEVEL, Floats


@dataclass(frozen=True, slots=True)
class Share:
    """A ratio of means; without an interval where the lower mean is not told from 0, or there is one pair."""

    value: float
    lo: float | None
    hi: float | None


def ratio_of_means(above: Floats, below: Floats, *, level: float = LEVEL) -> Share | None:
    """Mean of ``above`` over the mean of ``below``, pair by pair; None where the latter is 0."""
    y, x = float(above.mean()), float(below.mean())
    if x == 0:
        return None
    n = len(above)
    value = y / x
    if n < 2:
        return Share(value, None, None)
    (v_yy, v_xy), (_, v_xx) = np.cov(above, below) / n
    t2 = float(stdtrit(n - 1, (1 + level) / 2)) ** 2
    a, b, c = x * x - t2 * v_xx, x * y - t2 * v_xy, y * y - t2 * v_yy
    if a <= 0:
        return Share(value, None, None)
    half = math.sqrt(max(b * b - a * c, 0.0))
    return Share(value, (b - half) / a, (b + half) / a)
