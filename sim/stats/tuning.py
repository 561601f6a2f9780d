"""Where a noisy response is best, with a budget of runs: measure, fit, measure where the best may lie.

    1   a spread of points over the ranges, each on the same pairs                  two fifths of the search
    2   rounds: responses are drawn that agree with all measures (``sim.stats.response``), and the best point of each
        draw gets more pairs, or its first ones where nothing near it is measured   the rest
    3   the fitted response has an optimum; where the optima of the fit lie when the pairs are drawn again is its
        interval

Drawing is Thompson's rule: a point gets runs as often as it may be the best. What is found is then measured anew, by
the caller, on pairs that the search has not seen (``CONFIRMED`` of the budget): the best of many noisy points looks
better than it is.

Values are logarithms of ratios to a baseline within pairs, larger is better. The same values lead to the same search.
Source: Thompson, Biometrika 25 (1933); Frazier, arXiv:1807.02811, for optimisation on such a fit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.stats.paired import Floats
from sim.stats.response import Response, fit, weigh

CONFIRMED: Final = 0.25
"""Share of the budget that measures the optimum anew."""
SPREAD: Final = 0.4
"""Share of the search that the first points get."""
FEWEST_PAIRS, MOST_FIRST_PAIRS = 3, 10
ROUNDS: Final = 8
NEAR: Final = 0.02
"""Points closer than this share of the range are one."""
STEPS: Final = 200
"""Steps of a range: values of real parameters are rounded to these."""
CANDIDATES: Final = 150
RESAMPLES: Final = 200
EDGE: Final = 0.01

Point = tuple[float, ...]
"""A value a parameter; whole numbers for whole-number parameters."""
Measure = Callable[[Sequence[Point], Sequence[int]], list[Floats]]
"""Values of each point on its pairs 0 to n; NaN for a pair that has none. Pairs that ran already cost nothing."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that is tuned within a range."""

    name: str
    low: float
    high: float
    is_integer: bool = False
    is_log: bool = False

    def value(self, unit: float) -> float:
        """The value at a share of the range, rounded to a step."""
        if self.is_log:
            value = self.low * (self.high / self.low) ** unit
        else:
            value = self.low + (self.high - self.low) * unit
        if self.is_integer:
            return int(np.rint(value))
        if unit in {0.0, 1.0}:
            return self.high if unit else self.low
        step = value / STEPS if self.is_log else (self.high - self.low) / STEPS
        return float(round(value, max(1 - int(np.floor(np.log10(abs(step)))), 0)))

    def unit(self, value: float) -> float:
        """Where a value lies in the range, 0 to 1."""
        if self.is_log:
            return float(np.log(value / self.low) / np.log(self.high / self.low))
        return (value - self.low) / (self.high - self.low)

    @property
    def count(self) -> int:
        """Values that it may take."""
        return int(self.high - self.low) + 1 if self.is_integer else STEPS + 1


@dataclass(frozen=True, slots=True)
class Tried:
    """A point that was measured."""

    point: Point
    values: Floats
    """Of its pairs."""
    fitted: float
    fitted_lo: float
    fitted_hi: float
    """Of the fitted response there, 95 %."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    space: tuple[Parameter, ...]
    tried: list[Tried]
    optimum: Point
    lo: Point
    hi: Point
    """Where the optimum lies, 95 % a parameter."""
    worst: Point
    """The measured point whose fitted value is worst."""
    runs: int
    """Runs of points and of the baseline."""

    @property
    def at_edge(self) -> list[tuple[Parameter, float]]:
        """Parameters whose optimum is an end of their range, and that end."""
        ends = zip(self.space, self.optimum, strict=True)
        return [(each, value) for each, value in ends if not EDGE < each.unit(value) < 1 - EDGE]

    @property
    def loose(self) -> list[tuple[Parameter, float, float]]:
        """Parameters whose optimum may lie anywhere in more than half of the range."""
        every = zip(self.space, self.lo, self.hi, strict=True)
        return [(each, lo, hi) for each, lo, hi in every if each.unit(hi) - each.unit(lo) > 0.5]


def fewest_runs(parameters: int) -> int:
    """The least budget of a search."""
    return (_first_points(parameters) + 1) * FEWEST_PAIRS * 2


def search(space: Sequence[Parameter], measure: Measure, runs: int, *, seed: int = 0) -> Found:
    """Search with at most this many runs, those of the baseline included."""
    if runs < fewest_runs(len(space)):
        raise ValueError(f"{runs} runs are too few for {len(space)} parameters")
    rng = np.random.default_rng(seed)
    grid = _grid(space, rng)
    first = _first(space, rng)
    pairs = int(np.clip(SPREAD * runs / (len(first) + 1), FEWEST_PAIRS, MOST_FIRST_PAIRS))
    wanted = dict.fromkeys(first, pairs)
    response, known, table = _measured(space, measure, wanted)
    part = max((runs - _cost(wanted)) // ROUNDS, pairs)
    while True:
        best = np.argmax(response.draws(grid, part, rng), axis=1)
        if not _deal(wanted, [_point(space, grid[i]) for i in best], space, pairs, min(part, runs - _cost(wanted))):
            break
        response, known, table = _measured(space, measure, wanted)
    return _found(space, response, known, table, grid, rng, _cost(wanted))


def _first_points(parameters: int) -> int:
    return 4 + 3 * parameters


def _first(space: Sequence[Parameter], rng: np.random.Generator) -> list[Point]:
    """Evenly spaced with both ends for one parameter, a scrambled Halton sequence for more."""
    count = _first_points(len(space))
    if len(space) == 1:
        units = np.linspace(0, 1, count)[:, None]
    else:
        from scipy.stats import qmc

        units = qmc.Halton(len(space), rng=rng).random(count)
    return list(dict.fromkeys(_point(space, unit) for unit in units))


def _grid(space: Sequence[Parameter], rng: np.random.Generator) -> Floats:
    """Points among which the best is looked for."""
    if len(space) == 1:
        units = np.linspace(0, 1, min(space[0].count, STEPS + 1))[:, None]
    else:
        from scipy.stats import qmc

        inside = qmc.Halton(len(space), rng=rng).random(CANDIDATES)
        units = np.vstack([inside, np.clip(1.1 * inside - 0.05, 0, 1)])  # ends are optima often enough
    points = dict.fromkeys(_point(space, unit) for unit in units)
    return np.array([_unit(space, point) for point in points])


def _point(space: Sequence[Parameter], units: Floats) -> Point:
    return tuple(each.value(float(unit)) for each, unit in zip(space, units, strict=True))


def _unit(space: Sequence[Parameter], point: Point) -> list[float]:
    return [each.unit(value) for each, value in zip(space, point, strict=True)]


def _cost(wanted: dict[Point, int]) -> int:
    """Runs of all points, and of the baseline on every pair."""
    return sum(wanted.values()) + max(wanted.values())


def _measured(
    space: Sequence[Parameter], measure: Measure, wanted: dict[Point, int]
) -> tuple[Response, list[Point], Floats]:
    """All measures as one table, and the response fitted to it; a point without any is left out."""
    values = measure(list(wanted), list(wanted.values()))
    table = np.full((max(map(len, values)), len(values)), np.nan)
    for column, each in enumerate(values):
        table[: len(each), column] = each
    is_known = ~np.isnan(table).all(axis=0)
    known = [point for point, is_there in zip(wanted, is_known, strict=True) if is_there]
    if len(known) < 2:
        raise ValueError("fewer than two points have values")
    table = table[:, is_known]
    return fit(np.array([_unit(space, point) for point in known]), table), known, table


def _deal(wanted: dict[Point, int], votes: Sequence[Point], space: Sequence[Parameter], pairs: int, runs: int) -> bool:
    """Spend some runs on the points that were voted for; False: they are too few for anything."""
    more = max(pairs // 2, 1)
    left = runs
    for vote in votes:
        units = np.array([_unit(space, point) for point in wanted])
        apart = np.abs(units - np.array(_unit(space, vote))).max(axis=1)
        nearest = list(wanted)[int(apart.argmin())]
        is_near = bool(apart.min() <= NEAR)
        after = {**wanted, nearest: wanted[nearest] + more} if is_near else {**wanted, vote: pairs}
        cost = _cost(after) - _cost(wanted)
        if cost > left:
            continue
        wanted.update(after)
        left -= cost
    return left < runs


def _found(
    space: Sequence[Parameter],
    response: Response,
    known: Sequence[Point],
    table: Floats,
    grid: Floats,
    rng: np.random.Generator,
    runs: int,
) -> Found:
    at = int(np.argmax(response.mean(grid)))
    fitted = response.mean(response.x)
    reach = 1.96 * np.sqrt(np.maximum(np.diag(response.covariance(response.x)), 0.0))
    columns = [table[:, i] for i in range(len(known))]
    tried = [
        Tried(point, column[: len(column) - int(np.isnan(column[::-1]).argmin())], *each)
        for point, column, *each in zip(known, columns, fitted, fitted - reach, fitted + reach, strict=True)
    ]
    optima = _optima(response, table, grid, rng)
    ends = np.quantile(np.vstack([optima, grid[at]]), [0.025, 0.975], axis=0)
    lo, hi = (
        _point(space, np.clip(end, 0, 1)) for end in (np.minimum(ends[0], grid[at]), np.maximum(ends[1], grid[at]))
    )
    return Found(tuple(space), tried, _point(space, grid[at]), lo, hi, known[int(np.argmin(fitted))], runs)


def _optima(response: Response, table: Floats, grid: Floats, rng: np.random.Generator) -> Floats:
    """Optima of responses that the measures allow: some by drawing the pairs again, some by drawing the response."""
    of = response.pooled
    size = len(table)
    counts = rng.multinomial(size, np.full(size, 1 / size), RESAMPLES).astype(float)
    again = [np.argmax(response.mean(grid, weigh(table, of.noise, of.shared, each))) for each in counts]
    drawn = np.argmax(response.draws(grid, RESAMPLES, rng), axis=1)
    return np.asarray(grid[[*again, *drawn]])
