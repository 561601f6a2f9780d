"""How many real pairs would show an effect, and what they cost.

    power(n)   probability that a two-sided paired t test on log ratios of n pairs shows an effect (noncentral t)
    pairs      the smallest n that reaches a power; never below three, two pairs show nothing of their spread
    spread     sqrt(simulated**2 + 2 * run**2): each arm of a real pair adds the real system's own noise

A simulated spread alone understates what GPUs do: a simulated pair repeats exactly. So the real system's run-to-run
noise, a relative standard deviation of one run of one arm, is always added; numbers without it are shown beside, and no
plan rests on them. NeMo-RL's pull request 3663 measured 0.018 of a step's wall time; other products' repeats reach 0.15
(sglang 38423).

Blocking: where placement classes explain part of the spread and the real run is planned class by class, the spread
within classes counts; the means of the classes are recombined by exact weights, and t has Satterthwaite's degrees of
freedom, as ``sim.stats.strata`` has it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtri, stdtrit

from sim.stats.paired import LEVEL, ROUNDING, Floats

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

    @property
    def minutes(self) -> float:
        """Of one run with what is around it, to three digits: products of what is printed come out as printed."""
        return float(f"{60 * (self.run_h + self.overhead_h):.3g}")

    def gpu_hours(self, pairs: float, cells: int = 1) -> float:
        """Both arms of every pair of every cell, with runs that fail and are repeated."""
        return pairs * cells * 2 * self.gpus * self.minutes / 60 * (1 + self.failure_rate)


@dataclass(frozen=True, slots=True)
class Design:
    """Pairs by placement class; one class is a campaign that is not blocked."""

    shares: tuple[float, ...]
    """Weight of each class."""
    spreads: tuple[float, ...]
    """Standard deviation of a real pair's log ratio within each class."""
    allocate: Callable[[int], Sequence[int]]
    """Pairs of each class, of so many in all."""

    def power(self, pairs: int, effect: float, *, level: float = LEVEL) -> float:
        """As ``power``, of the recombined mean; 0 where a class has too few pairs for a spread."""
        counts = np.asarray(self.allocate(pairs))
        if (counts < 2).any():
            return 0.0
        parts = np.square(self.shares) * np.square(self.spreads) / counts
        variance = float(parts.sum())
        if variance <= 0:
            return 1.0
        freedom = variance**2 / float((parts**2 / (counts - 1)).sum())
        return _shown(abs(float(np.log1p(effect))) / variance**0.5, freedom, level)

    def needed(self, effect: float, *, wanted: float = 0.8, level: float = LEVEL) -> int:
        """As ``pairs_needed``."""
        _check(effect, wanted)
        return fewest(lambda pairs: self.power(pairs, effect, level=level), wanted, f"an effect of {effect:g}")


def unblocked(spread: float) -> Design:
    """All pairs alike."""
    return Design((1.0,), (spread,), lambda pairs: (pairs,))


def power(pairs: int, effect: float, spread: float, *, level: float = LEVEL) -> float:
    """Probability that the interval of so many pairs leaves out 1 when the true ratio is ``1 + effect``."""
    return unblocked(spread).power(pairs, effect, level=level)


def _shown(shift: float, freedom: float, level: float) -> float:
    """Probability that a t whose mean is off by so many standard errors leaves out 0."""
    from scipy import stats

    critical = float(stdtrit(freedom, (1 + level) / 2))
    wrong_side = float(stats.nct.cdf(-critical, freedom, shift)) if shift < 5 else 0.0  # SciPy has no number there
    return float(stats.nct.sf(critical, freedom, shift)) + wrong_side


def pairs_needed(effect: float, spread: float, *, wanted: float = 0.8, level: float = LEVEL) -> int:
    """The fewest pairs with which an effect shows with the wanted probability."""
    return unblocked(spread).needed(effect, wanted=wanted, level=level)


def _check(effect: float, wanted: float) -> None:
    if effect <= -1 or effect == 0:
        raise ValueError(f"an effect is a share such as 0.05, not {effect:g}")
    if not 0 < wanted < 1:
        raise ValueError(f"power lies between 0 and 1, not {wanted:g}")


def fewest(chance: Callable[[int], float], wanted: float, of: str) -> int:
    """The fewest pairs, three or more, whose chance is the wanted one; ValueError beyond a million."""
    low, high = FEWEST - 1, FEWEST
    while chance(high) < wanted:
        low, high = high, 2 * high
        if low > MOST:
            raise ValueError(f"{of} would take more than {MOST:,} pairs")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= wanted else (middle, high)
    return high


def ends_of_spread(spread: float, pairs: int, *, level: float = LEVEL) -> tuple[float, float]:
    """Within which a standard deviation lies that so many normal observations gave, by chi-squared."""
    squares = (pairs - 1) * spread**2
    lo, hi = (float(chdtri(pairs - 1, (1 + sign * level) / 2)) for sign in (-1, 1))
    return (squares / lo) ** 0.5, (squares / hi) ** 0.5


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


@dataclass(frozen=True, slots=True)
class Drawn:
    """What campaigns measure at a look, an entry a campaign; nan without an interval."""

    ratio: Floats
    lo: Floats
    hi: Floats


def drawn_looks(
    centre: float, design: Design, pairs: Sequence[int], levels: Sequence[float], draws: int, seed: int
) -> Iterator[Drawn]:
    """What so many campaigns measure at each of their looks, of which each adds pairs to those before.

    Log ratios are normal within each class; drawn are not the pairs but their mean and sum of squares, normal and
    chi-squared and independent of each other. Means of classes differ from ``centre`` by amounts that the exact weights
    cancel, so they are left out.
    """
    source = np.random.default_rng(seed)
    classes = len(design.shares)
    means, squares, before = np.zeros((draws, classes)), np.zeros((draws, classes)), np.zeros(classes)
    for in_all, level in zip(pairs, levels, strict=True):
        so_far = np.asarray(design.allocate(in_all), dtype=np.float64)
        for k, (spread, added) in enumerate(zip(design.spreads, so_far - before, strict=True)):
            if added > 0:
                more = source.normal(centre, spread / added**0.5, draws)
                if added > 1:
                    squares[:, k] += spread**2 * source.chisquare(added - 1, draws)
                squares[:, k] += (more - means[:, k]) ** 2 * before[k] * added / so_far[k]
                means[:, k] = (before[k] * means[:, k] + added * more) / so_far[k]
        before = so_far
        yield _drawn(means, squares, so_far, np.asarray(design.shares), level)


def _drawn(means: Floats, squares: Floats, pairs: Floats, shares: Floats, level: float) -> Drawn:
    """Student's interval over classes, with Satterthwaite's degrees of freedom."""
    mean = means @ shares
    if (pairs < 2).any():
        none = np.full(len(mean), np.nan)
        return Drawn(np.exp(mean) if (pairs > 0).all() else none, none, none)
    parts = shares**2 * squares / (pairs - 1) / pairs
    variance = parts.sum(axis=1)
    spreads = variance > ROUNDING**2
    freedom = np.divide(variance**2, (parts**2 / (pairs - 1)).sum(axis=1), out=np.ones(len(mean)), where=spreads)
    half = np.where(spreads, stdtrit(freedom, (1 + level) / 2) * variance**0.5, 0.0)
    return Drawn(np.exp(mean), np.exp(mean - half), np.exp(mean + half))
