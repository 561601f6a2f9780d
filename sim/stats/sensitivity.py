"""What a paired ratio does when something that was taken for given is otherwise, under common random numbers.

Everything is in logarithms of ratios, pair by pair. Runs at another value see the random numbers of the centre, so what
the value changes is the mean of differences within pairs, and what changes nothing is zero exactly.

    change      the ratio elsewhere over the ratio at the centre, over the pairs that both have
    elsewhere   the ratio elsewhere: the centre's, over all its pairs, times the change (difference estimator under
                double sampling; Cochran, Sampling Techniques, 1977, 12.9), or of the pairs run there alone, whichever
                is known better
    narrow      brackets of roots, all of them at once (Chandrupatla's method, as SciPy has it)
    crossing    where a response crosses a line, in which bracket, and with which interval
    Response    a piecewise linear response under a uniform law: mean, spread, and what knowing the value is worth
    spread      how far the ratio moves when all is drawn at once, the noise of few pairs taken out

Left out: responses that bend between the runs, and correlation between assumptions; ranges are taken as independent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from sim.stats.paired import LEVEL, ROUNDING, Floats

Ints = np.ndarray[Any, np.dtype[np.int64]]
SEED = 20_250_102
NEAR = 0.02
"""Share of a range within which a root is near enough."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its 95 % interval; None where there is none."""

    ratio: float | None
    lo: float | None
    hi: float | None
    pairs: int

    @property
    def log(self) -> float | None:
        """Logarithm of the ratio."""
        return None if self.ratio is None else float(np.log(self.ratio))


def change(centre: Floats, there: Floats) -> Estimate:
    """The ratio elsewhere over that at the centre; arrays are log ratios by pair, NaN where a pair has none."""
    moved = _known(there - centre)
    return _estimate(float(moved.mean()) if moved.size else None, _variance(moved) / max(moved.size, 1), moved.size)


def elsewhere(every: Floats, centre: Floats, there: Floats) -> Estimate:
    """The ratio elsewhere. ``every``: all pairs of the centre; the others: the pairs run at both."""
    both = ~(np.isnan(centre) | np.isnan(there))
    all_of, c, e = _known(every), centre[both], there[both]
    n = e.size
    if not n:
        return _estimate(None, np.nan, 0)
    moved = e - c
    if n < 2:
        return _estimate(float(all_of.mean() + moved.mean()), np.nan, n)
    shared = float(np.cov(c, moved, ddof=1)[0, 1])
    by_change = _variance(all_of) / all_of.size + _variance(moved) / n + 2 * shared / all_of.size
    alone = _variance(e) / n
    if by_change <= alone:
        return _estimate(float(all_of.mean() + moved.mean()), max(by_change, 0.0), n)
    return _estimate(float(e.mean()), alone, n)


def _known(values: Floats) -> Floats:
    return np.asarray(values[~np.isnan(values)])


def _variance(values: Floats) -> float:
    return float(values.var(ddof=1)) if values.size > 1 else float("nan")


def _estimate(log: float | None, variance: float, pairs: int) -> Estimate:
    if log is None:
        return Estimate(None, None, None, pairs)
    if pairs < 2:
        return Estimate(float(np.exp(log)), None, None, pairs)
    half = float(stdtrit(pairs - 1, (1 + LEVEL) / 2)) * variance**0.5
    return Estimate(float(np.exp(log)), float(np.exp(log - half)), float(np.exp(log + half)), pairs)


Respond = Callable[[Floats, Ints], Floats]
"""Values of the responses with these numbers at these points of their ranges."""


def narrow(respond: Respond, brackets: Sequence[tuple[float, float]], rounds: int) -> None:
    """Ask for points that close in on a root in each bracket, at which the response has different signs.

    Points are asked for round by round, one a bracket, so that those of a round can be computed at once. What was
    found is the caller's to keep: nothing is returned.
    """
    from scipy.optimize import elementwise

    if not brackets:
        return
    low, high = (np.array([each[end] for each in brackets], dtype=float) for end in (0, 1))

    def at_share(share: Floats, which: Floats) -> Floats:
        index = which.astype(np.int64)
        return respond(low[index] + share * (high[index] - low[index]), index)

    ends = np.zeros(len(brackets)), np.ones(len(brackets))
    which = np.arange(len(brackets), dtype=float)
    elementwise.find_root(at_share, ends, args=(which,), tolerances={"xatol": NEAR, "xrtol": 0.0}, maxiter=rounds)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a response crosses a line."""

    value: float
    bracket: tuple[float, float]
    """Two points that lie on different sides, with none between them."""
    interval: tuple[float | None, float | None]
    """Outside it the response is on one side for sure; None: not within the range."""
    falls: bool
    """From above the line to below it."""


def crossing(points: Floats, values: Sequence[Estimate], line: float, near: float) -> Crossing | None:
    """The crossing of a response with a ratio, nearest to ``near``; points rise. None where it does not cross."""
    logs = np.array([np.nan if each.log is None else each.log for each in values]) - np.log(line)
    kept = ~np.isnan(logs)
    x, y = points[kept], logs[kept]
    bounds = [each for each, keep in zip(values, kept, strict=True) if keep]
    # A response that is on the line exactly is on neither side, so it ends no bracket.
    sides = [i for i in range(len(x)) if abs(y[i]) > ROUNDING]
    turns = [(i, j) for i, j in pairwise(sides) if y[i] * y[j] < 0]
    if not turns:
        return None
    at, to = min(turns, key=lambda turn: abs((x[turn[0]] + x[turn[1]]) / 2 - near))
    falls = bool(y[at] > y[to])
    root = float(x[at] + (x[to] - x[at]) * y[at] / (y[at] - y[to])) if to == at + 1 else float(x[at + 1])
    lo = np.array([np.nan if each.lo is None else np.log(each.lo / line) for each in bounds])
    hi = np.array([np.nan if each.hi is None else np.log(each.hi / line) for each in bounds])
    # By how much the bound on the line's side stays clear of it, before the root and after it.
    before, after = (lo, -hi) if falls else (-hi, lo)
    left = _clear(root, x[: at + 1][::-1], before[: at + 1][::-1], abs(y[at]))
    right = _clear(root, x[to:], after[to:], abs(y[to]))
    return Crossing(root, (float(x[at]), float(x[to])), (left, right), falls)


def _clear(root: float, x: Floats, margins: Floats, first: float) -> float | None:
    """Going away from the root, where the margin becomes positive; at the root it is minus half of the interval.

    None where it does not, or where the nearest point has no interval.
    """
    if np.isnan(margins[0]):
        return None
    previous, below = root, min(float(margins[0]) - first, 0.0)
    for at, margin in zip(x.tolist(), margins.tolist(), strict=True):
        if margin > 0:
            return float(previous + below / (below - margin) * (at - previous))
        if not np.isnan(margin):
            previous, below = at, margin
    return None


@dataclass(frozen=True, slots=True)
class Response:
    """Gains at points of a range, straight lines between them; or at values that are alike likely."""

    gains: tuple[float, ...]
    points: tuple[float, ...] = ()
    """Rising, where the law is uniform over a range; empty: each gain is as likely."""

    @property
    def mean(self) -> float:
        """Expected gain."""
        return self._over(lambda a, b: (a + b) / 2)

    @property
    def variance(self) -> float:
        """Of the gain."""
        return max(self._over(lambda a, b: (a * a + a * b + b * b) / 3) - self.mean**2, 0.0)

    @property
    def chance(self) -> float:
        """Probability that the gain has another sign than its mean: that who knew the value would decide otherwise."""
        positive = self._over(_share_above)
        return 1 - positive if self.mean > 0 else positive

    @property
    def worth(self) -> float:
        """Expected loss that knowing the value avoids: E max(gain, 0) - max(E gain, 0)."""
        return max(self._over(_mean_above) - max(self.mean, 0.0), 0.0)

    def _over(self, of: Callable[[float, float], float]) -> float:
        """The mean over the law of what a straight piece gives."""
        if not self.points:
            return float(np.mean([of(gain, gain) for gain in self.gains]))
        widths = np.diff(self.points)
        parts = [of(a, b) for a, b in zip(self.gains, self.gains[1:], strict=False)]
        return float(np.dot(widths, parts) / widths.sum())


def _share_above(a: float, b: float) -> float:
    if a > 0 and b > 0:
        return 1.0
    if a <= 0 and b <= 0:
        return 0.0
    return max(a, b) / abs(a - b)


def _mean_above(a: float, b: float) -> float:
    if a > 0 and b > 0:
        return (a + b) / 2
    return _share_above(a, b) * max(a, b, 0.0) / 2


def latin(draws: int, inputs: int) -> Floats:
    """A Latin hypercube of points in 0..1, a row a draw; the same each time."""
    from scipy.stats import qmc

    return np.asarray(qmc.LatinHypercube(inputs, rng=SEED).random(draws))


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a ratio moves when all inputs are drawn at once."""

    draws: int
    mean: float
    """Of the change, a logarithm."""
    sd: float
    """Of the change, the noise of the pairs taken out."""
    noise: float
    """Standard deviation of one draw's change by its pairs."""
    lowest: float
    highest: float
    """Changes of single draws, as ratios, noise included."""

    @property
    def half(self) -> float:
        """Half of the 95 % width of the log ratio."""
        return self._width(self.sd)

    @property
    def most(self) -> float:
        """The same with the noise of the pairs counted as spread."""
        return self._width((self.sd**2 + self.noise**2) ** 0.5)

    def _width(self, sd: float) -> float:
        return float(stdtrit(max(self.draws - 1, 1), (1 + LEVEL) / 2)) * sd

    def p_below(self, log: float) -> float:
        """Probability of a smaller change of the log ratio, by the t of that width."""
        if not self.sd:
            return float(self.mean < log)
        return float(stdtr(max(self.draws - 1, 1), (log - self.mean) / self.sd))


def spread(moved: Sequence[Floats]) -> Spread | None:
    """Of changes by draw, each an array over its pairs; None of fewer than three draws with two pairs."""
    known = [each for each in map(_known, moved) if each.size > 1]
    if len(known) < 3:
        return None
    means = np.array([each.mean() for each in known])
    noise = float(np.mean([each.var(ddof=1) / each.size for each in known]))
    between = max(float(means.var(ddof=1)) - noise, 0.0)
    ends = np.exp([means.min(), means.max()])
    return Spread(len(known), float(means.mean()), between**0.5, noise**0.5, float(ends[0]), float(ends[1]))
