"""How many real pairs would show an effect, and what they cost.

    power(n)   probability that a two-sided paired t test on log ratios of n pairs shows an effect (noncentral t)
    pairs      the smallest n that reaches a power; never below three, two pairs show nothing of their spread
    spread     sqrt(simulated**2 + 2 * run**2): each arm of a real pair adds the real system's own noise

A simulated spread alone understates what GPUs do: a simulated pair repeats exactly. So the real system's run-to-run
noise, a relative standard deviation of one run of one arm, is always added; numbers without it are shown beside, and no
plan rests on them. NeMo-RL's pull request 3663 measured 0.018 of a step's wall time; other products' repeats reach 0.15
(sglang 38423).

Blocking: where placement classes explain part of the spread and the real run is planned class by class, the spread
within classes counts; the means of the classes are recombined by exact weights.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from sim.stats.paired import LEVEL, Floats
from sim.stats.strata import Pooled

RUN_NOISE = 0.018
"""Relative standard deviation of one real run of one arm, unless measured."""
MOST_RUN_NOISE = 0.15
"""The largest that was found published."""
FEWEST = 3
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviation of the log ratio of a pair."""

    simulated: float
    run_noise: float = RUN_NOISE
    """Of one arm."""

    @property
    def real(self) -> float:
        """With the real system's own noise in both arms."""
        return float(np.hypot(self.simulated, 2**0.5 * self.run_noise))


@dataclass(frozen=True, slots=True)
class Cost:
    """What a real campaign of pairs takes."""

    gpus: int
    """Of one arm's fleet."""
    run_h: float
    """Hours of one run."""
    overhead_h: float = 0.0
    """Hours of boot, warm-up and drain of one run."""
    failure_rate: float = 0.1

    def gpu_hours(self, pairs: int, cells: int = 1) -> float:
        """Both arms of every pair of every cell, with runs that fail and are repeated."""
        return pairs * cells * 2 * self.gpus * (self.run_h + self.overhead_h) * (1 + self.failure_rate)


def power(pairs: int, effect: float, spread: float, *, level: float = LEVEL) -> float:
    """Probability that the interval of so many pairs leaves out 1 when the true ratio is ``1 + effect``."""
    from scipy import stats

    if pairs < 2:
        return 0.0
    if spread <= 0:
        return 1.0
    shift = abs(float(np.log1p(effect))) / spread * pairs**0.5
    critical = float(stdtrit(pairs - 1, (1 + level) / 2))
    wrong_side = float(stats.nct.cdf(-critical, pairs - 1, shift)) if shift < 5 else 0.0  # SciPy has no number there
    return float(stats.nct.sf(critical, pairs - 1, shift)) + wrong_side


def pairs_needed(effect: float, spread: float, *, wanted: float = 0.8, level: float = LEVEL) -> int:
    """The fewest pairs with which an effect shows with the wanted probability."""
    if effect <= -1 or effect == 0:
        raise ValueError(f"an effect is a share such as 0.05, not {effect:g}")
    if not 0 < wanted < 1:
        raise ValueError(f"power lies between 0 and 1, not {wanted:g}")
    low, high = FEWEST - 1, FEWEST
    while power(high, effect, spread, level=level) < wanted:
        low, high = high, 2 * high
        if low > MOST:
            raise ValueError(f"an effect of {effect:g} would take more than {MOST:,} pairs at a spread of {spread:.3g}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle, effect, spread, level=level) >= wanted else (middle, high)
    return high


def spread_from_interval(lo: float, hi: float, pairs: int) -> float:
    """Standard deviation of a pair's log ratio from a published 95 % interval of normal theory."""
    return float(np.log(hi / lo) / 2 / ndtri((1 + LEVEL) / 2) * pairs**0.5)


def within(logs: Sequence[Floats], shares: Sequence[float]) -> float:
    """Spread of a pair of a blocked campaign: root of the weighted variance within strata of two pairs or more.

    A stratum of one pair has no spread; the others stand for it, with their shares scaled up.
    """
    known = [(share, logs.var(ddof=1)) for share, logs in zip(shares, logs, strict=True) if logs.size > 1]
    if not known:
        raise ValueError("no placement class has two pairs")
    return float(np.sqrt(sum(share * variance for share, variance in known) / sum(share for share, _ in known)))


def recombined(ratios: Sequence[float], weights: Sequence[float]) -> float:
    """Geometric mean of class ratios under weights that add up to anything: counts, or exact probabilities."""
    return float(np.exp(np.dot(weights, np.log(ratios)) / np.sum(weights)))


def drawn_looks(
    centre: float, spread: float, pairs: int, levels: Sequence[float], draws: int, seed: int
) -> Iterator[list[Pooled]]:
    """What so many campaigns measure at each of their looks, of which each adds as many pairs to those before.

    Log ratios are normal about ``centre``; drawn are not the pairs but their mean and sum of squares, normal and
    chi-squared and independent of each other.
    """
    source = np.random.default_rng(seed)
    means, squares = np.zeros(draws), np.zeros(draws)
    for look, level in enumerate(levels):
        before, so_far = look * pairs, (look + 1) * pairs
        more = source.normal(centre, spread / pairs**0.5, draws)
        if pairs > 1:
            squares = squares + spread**2 * source.chisquare(pairs - 1, draws)
        squares = squares + (more - means) ** 2 * before * pairs / so_far
        means = (before * means + pairs * more) / so_far
        yield [_ratio(*each, so_far, level) for each in zip(means.tolist(), squares.tolist(), strict=True)]


def _ratio(mean: float, squares: float, pairs: int, level: float) -> Pooled:
    """Student's interval of a mean of log ratios with this sum of squares about it."""
    if pairs < 2:
        return Pooled(math.exp(mean), None, None, pairs, reason="one pair has no interval")
    error = (squares / (pairs - 1) / pairs) ** 0.5
    half = float(stdtrit(pairs - 1, (1 + level) / 2)) * error
    p = 2 * float(stdtr(pairs - 1, -abs(mean) / error)) if error > 0 else None
    return Pooled(math.exp(mean), math.exp(mean - half), math.exp(mean + half), pairs, p=p)
