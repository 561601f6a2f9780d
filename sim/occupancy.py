"""How unevenly a good hash spreads many keys: the fullest of N engines, for any number of keys.

K keys fall on N engines independently and uniformly. Counts of a multinomial are those of independent Poisson variables
given that they sum to K, so with X Poisson of mean K/N

    P(fullest <= m) = P(X_1 <= m, .., X_N <= m, sum X = K) / P(sum X = K).

The numerator is the coefficient of K in the N-th power of a truncated series, taken by a Fourier transform of length M:
sums are then counted modulo M, which costs nothing as long as a sum so far from its mean of K is as good as impossible
(M is 24 of its standard deviations and more). Cost O(M log M) for each m, M about 24 sqrt(K).

``sim/placement.py`` has the same for few keys in whole numbers.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]

_MOST_POINTS = 400
"""Values of m at which the distribution is computed; between them it is interpolated."""


def max_over_mean(keys: int, engines: int) -> float:
    """Expected number of keys of the fullest engine over the mean, K/N."""
    most, below = _below(keys, engines)
    # The sum of P(fullest > m), by the trapezoid between values of m that are not neighbours.
    gaps = np.diff(most)
    above = (gaps + 1) / 2 * (1 - below[:-1]) + (gaps - 1) / 2 * (1 - below[1:])
    return float((most[0] + above.sum()) * engines / keys)


def quantile_over_mean(keys: int, engines: int, share: float = 0.95) -> float:
    """The smallest number of keys, over the mean, that the fullest engine stays within with this probability."""
    most, below = _below(keys, engines)
    return float(most[np.searchsorted(below, share)] * engines / keys)


@lru_cache(maxsize=256)
def _below(keys: int, engines: int) -> tuple[NDArray[np.int64], _Floats]:
    """Values m from the least that the fullest can hold, and P(fullest <= m) for each; the last is as good as 1."""
    if keys < 1 or engines < 1:
        raise ValueError(f"needs keys and engines, not {keys} and {engines}")
    if engines == 1:
        return np.array([keys]), np.array([1.0])
    mean = keys / engines
    least = math.ceil(mean)
    spread = math.sqrt(mean)
    highest = min(keys, math.ceil(mean + 8 * spread * math.sqrt(1 + math.log(engines) / 8) + 40))
    stride = max(1, (highest - least) // _MOST_POINTS)
    most = np.arange(least, highest + stride, stride)
    size = 1 << math.ceil(math.log2(24 * math.sqrt(keys) + 128))
    series = _poisson(mean, int(most[-1]))
    folded = np.zeros(size)
    at, whole = 0, math.exp(keys * math.log(keys) - keys - math.lgamma(keys + 1))  # P(sum X = K)
    below = np.empty(len(most))
    for index, value in enumerate(most.tolist()):
        np.add.at(folded, np.arange(at, value + 1) % size, series[at : value + 1])
        at = value + 1
        below[index] = float(np.fft.irfft(np.fft.rfft(folded) ** engines, size)[keys % size]) / whole
    return most, np.clip(np.maximum.accumulate(below), 0.0, 1.0)


def _poisson(mean: float, last: int) -> _Floats:
    """Probabilities of 0 .. ``last``."""
    numbers = np.arange(1, last + 1)
    logs = np.concatenate([[0.0], np.cumsum(math.log(mean) - np.log(numbers))]) - mean
    return np.exp(logs)
