"""Where the mean of the next few observations falls: Student's prediction interval.

    mean +- t(n - 1) * sqrt(s**2 / n + (s**2 + noise**2) / m)

for m observations to come, after n of deviation s; ``noise`` is what those to come have besides and these have not.
"""

import math

from scipy.special import stdtrit

from sim.stats.paired import LEVEL, Floats


def prediction(values: Floats, to_come: int, *, noise: float = 0.0, level: float = LEVEL) -> tuple[float, float]:
    """Ends of the interval; two values or more."""
    n, s = len(values), float(values.std(ddof=1))
    reach = math.sqrt(s * s / n + (s * s + noise * noise) / to_come)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * reach
    mean = float(values.mean())
    return mean - half, mean + half
