"""Distributions of lengths and times: constant, uniform, lognormal, mixtures, and those of ``_distributions.py``.

A distribution maps standard draws to values (``value = low + u (high - low)``; ``value = median exp(sigma z)``), so one
column of draws serves any parameters: a changed median scales every length and reorders none. ``median`` and ``sigma``
(standard deviation of the logarithm) are those before floor and cap; a capped value is the cap itself.

Lengths are rounded to the nearest whole number, then raised to the least value that makes sense where they are used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.workload._check import MOST_SECONDS, MOST_TOKENS, positive, within
from sim.workload._distributions import Binomial, Empirical, Geometric

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_WIDEST: Final = 20.0
"""Largest sigma: wider, and the exponential leaves the range of a float."""
_MOST_PARTS: Final = 100


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value each time; a bare number says the same."""

    kind: Literal["constant"]
    value: float

    def __post_init__(self) -> None:
        """Refuse a negative value."""
        within("value", self.value, 0)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` equal values; draws nothing."""
        return np.broadcast_to(np.float64(self.value), (count,))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every value from ``low`` to ``high`` alike; for lengths both ends included."""

    kind: Literal["uniform"]
    low: float
    high: float

    def __post_init__(self) -> None:
        """Refuse a negative low and a high below it."""
        within("low", self.low, 0)
        within("high", self.high, 0)
        if self.high < self.low:
            raise ScenarioError(f"high must be at least low, {self.low:,}, not {self.high:,}")

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` draws."""
        draws: Floats = self.low + generator.random(count) * (self.high - self.low)
        return draws

    def whole_draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` whole numbers, both ends as likely as what lies between."""
        low, high = round(self.low), round(self.high)
        draws: Floats = low + np.floor(generator.random(count) * (high - low + 1))
        return draws


@dataclass(frozen=True, slots=True)
class Lognormal:
    """``median * exp(sigma * z)``, z standard normal; clipped to ``floor`` and ``cap`` where they are given."""

    kind: Literal["lognormal"]
    median: float
    sigma: float
    """Standard deviation of the logarithm."""
    cap: float | None = None
    """Values above become this one."""
    floor: float | None = None
    """Values below become this one."""

    def __post_init__(self) -> None:
        """Refuse a median that is not positive, a negative sigma, and a floor or cap that leave no value."""
        positive("median", self.median)
        within("median", self.median, 0)
        within("sigma", self.sigma, 0, _WIDEST)
        if self.cap is not None:
            positive("cap", self.cap)
            within("cap", self.cap, 0)
        if self.floor is not None:
            within("floor", self.floor, 0, MOST_TOKENS if self.cap is None else self.cap)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` draws."""
        return self.at(generator.standard_normal(count))

    def at(self, normals: Floats) -> Floats:
        """The values that belong to standard normal draws."""
        draws: Floats = self.median * np.exp(self.sigma * normals)
        if self.floor is not None:
            draws = np.maximum(draws, self.floor)
        return draws if self.cap is None else np.minimum(draws, self.cap)


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a mixture."""

    weight: float
    """How often, in proportion to the weights of the other parts."""
    value: float | Constant | Uniform | Lognormal | Binomial | Geometric | Empirical
    """What is drawn then."""

    def __post_init__(self) -> None:
        """Refuse a part that can never be drawn, and a negative value."""
        positive("weight", self.weight)
        within("weight", self.weight, 0)
        if isinstance(self.value, int | float):
            within("value", self.value, 0)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Each draw from one of several distributions, chosen by weight: short and long tools, two kinds of tasks."""

    kind: Literal["mixture"]
    parts: tuple[Share, ...]

    def __post_init__(self) -> None:
        """Refuse a mixture of nothing."""
        within("parts: their number", len(self.parts), 1, _MOST_PARTS)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` draws."""
        return self._draw(values, generator, count)

    def whole_draw(self, generator: np.random.Generator, count: int) -> Floats:
        """``count`` draws; uniform parts give whole numbers."""
        return self._draw(unrounded, generator, count)

    def _draw(self, draw: Callable[..., Floats], generator: np.random.Generator, count: int) -> Floats:
        """Each part has a whole column of its own, so draws stay when ``count`` grows."""
        weights = np.array([part.weight for part in self.parts])
        chosen = np.searchsorted(np.cumsum(weights[:-1]) / weights.sum(), generator.random(count), side="right")
        own = generator.spawn(len(self.parts))
        columns = [draw(part.value, each, count) for part, each in zip(self.parts, own, strict=True)]
        drawn: Floats = np.stack(columns)[chosen, np.arange(count)]
        return drawn


Length = int | Constant | Uniform | Lognormal | Binomial | Geometric | Empirical | Mixture
Time = float | Constant | Uniform | Lognormal | Binomial | Geometric | Empirical | Mixture


def check_length(name: str, length: Length, least: int) -> None:
    """Refuse what can only be below ``least`` or out of range; a single draw below ``least`` becomes ``least``."""
    if isinstance(length, Constant):
        within(name, length.value, least)
    elif isinstance(length, Uniform):
        within(f"{name}.high", length.high, least)
    elif isinstance(length, int):
        within(name, length, least)


def check_time(name: str, time: Time) -> None:
    """Refuse a negative time, bare or constant."""
    if isinstance(time, int | float):
        within(name, time, 0, MOST_SECONDS)


def whole(name: str, values: Floats, least: int) -> Ints:
    """Lengths from values: rounded, at least ``least``; beyond any context is refused rather than wrapped."""
    largest = float(values.max(initial=0.0))
    if not largest <= MOST_TOKENS:
        raise ScenarioError(f"{name} drew {largest:.3g}: give the distribution a cap, at most {MOST_TOKENS:,}")
    result: Ints = np.maximum(np.rint(values), least).astype(np.int64)
    return result


def fixed(value: Length | Time) -> float | None:
    """The value of a constant or bare number; None where draws differ."""
    if isinstance(value, Constant):
        return value.value
    return value if isinstance(value, int | float) else None


def repeat(length: float, count: int, least: int) -> Ints:
    """The same length ``count`` times, rounded, in the room of one."""
    return np.broadcast_to(np.int64(max(round(length), least)), (count,))


def lengths(name: str, length: Length, generator: np.random.Generator, count: int, least: int) -> Ints:
    """A column of whole lengths."""
    same = fixed(length)
    if same is not None:
        return repeat(same, count, least)
    return whole(name, unrounded(length, generator, count), least)


def unrounded(length: Length, generator: np.random.Generator, count: int) -> Floats:
    """A column of lengths as drawn."""
    if isinstance(length, Uniform | Mixture):
        return length.whole_draw(generator, count)
    return values(length, generator, count)


def values(value: Length | Time, generator: np.random.Generator, count: int) -> Floats:
    """A column of values as drawn, neither rounded nor bounded."""
    if isinstance(value, int | float):
        return np.broadcast_to(np.float64(value), (count,))
    return value.draw(generator, count)


def bounded(name: str, times: Floats) -> Floats:
    """The times, none of them beyond what the clock can hold."""
    longest = float(times.max(initial=0.0))
    if not longest <= MOST_SECONDS:
        raise ScenarioError(f"{name} drew {longest:.3g} s: give the distribution a cap")
    return times
