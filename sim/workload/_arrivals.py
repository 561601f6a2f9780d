"""When groups arrive: all at once, by a Poisson process of a rate that may change, by other gaps, or as recorded.

A process of changing rate r(t) is a unit-rate Poisson process in the operational time R(t), the integral of r: draw the
points there and take them back through the inverse of R. So a rate times two halves every arrival time where all else
is in proportion, and group g keeps its time when the number of groups grows.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from sim.errors import ScenarioError
from sim.workload._check import MOST_SECONDS, positive, within
from sim.workload._file_column import read_column
from sim.workload._lengths import Floats

_HALVINGS: Final = 60
"""Steps of a bisection, each of which halves what is left of the range: 2^-60 of it is below a float's resolution."""


def _within_time(times: Floats, name: str) -> Floats:
    if not times[-1] <= MOST_SECONDS:
        raise ScenarioError(f"{name} is too low: the last group would arrive after {times[-1]:.3g} s")
    return times


def _unit(generator: np.random.Generator, count: int) -> Floats:
    """Points of a Poisson process of rate 1."""
    points: Floats = np.cumsum(generator.standard_exponential(count))
    return points


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Every group is there at time 0; a cap on what is in flight is the client's."""

    kind: Literal["at_once"]

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds."""
        return np.zeros(count)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Groups arrive independently of each other and of the system, ``groups_per_s`` on average."""

    kind: Literal["poisson"]
    groups_per_s: float

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive."""
        positive("groups_per_s", self.groups_per_s)

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds."""
        with np.errstate(over="ignore"):
            return _within_time(_unit(generator, count) / self.groups_per_s, "groups_per_s")


@dataclass(frozen=True, slots=True)
class Gamma:
    """Independent gaps of a gamma law: burstier than Poisson where ``cv`` is above 1, more regular below."""

    kind: Literal["gamma"]
    groups_per_s: float
    cv: float
    """Standard deviation of a gap over its mean; 1 is Poisson, 0 a metronome."""

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive and a spread that is no number to draw with."""
        positive("groups_per_s", self.groups_per_s)
        within("cv", self.cv, 0, 100)

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds."""
        if self.cv == 0:
            gaps: Floats = np.ones(count)
        else:
            shape = self.cv**-2
            gaps = generator.standard_gamma(shape, count) / shape
        with np.errstate(over="ignore"):
            return _within_time(np.cumsum(gaps) / self.groups_per_s, "groups_per_s")


@dataclass(frozen=True, slots=True)
class Rung:
    """A stretch of time at one rate."""

    groups_per_s: float
    """Poisson rate; 0: nothing arrives."""
    duration_s: float

    def __post_init__(self) -> None:
        """Refuse a negative rate and a stretch of no length."""
        within("groups_per_s", self.groups_per_s, 0, float("inf"))
        positive("duration_s", self.duration_s)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Poisson arrivals at one rate after the other, as a load test climbs; the last rate stays."""

    kind: Literal["ladder"]
    rungs: tuple[Rung, ...]

    def __post_init__(self) -> None:
        """Refuse a ladder without rungs, or one whose last rate is 0."""
        within("rungs: their number", len(self.rungs), 1, 10_000)
        positive("rungs: the last groups_per_s", self.rungs[-1].groups_per_s)

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds."""
        rates = np.array([rung.groups_per_s for rung in self.rungs])
        lengths = np.array([rung.duration_s for rung in self.rungs])
        ends = np.cumsum(rates * lengths)
        points = _unit(generator, count)
        rung = np.minimum(np.searchsorted(ends, points), len(ends) - 1)
        starts = np.cumsum(lengths) - lengths
        times: Floats = starts[rung] + (points - (ends - rates * lengths)[rung]) / rates[rung]
        return _within_time(times, "rungs: groups_per_s")


@dataclass(frozen=True, slots=True)
class OnOff:
    """Poisson arrivals that come and go: ``on_s`` at one rate, ``off_s`` at another, and again."""

    kind: Literal["on_off"]
    groups_per_s: float
    """Rate while on."""
    on_s: float
    """Length of a period that is on."""
    off_s: float
    """Length of a period that is off."""
    off_groups_per_s: float = 0.0
    """Rate while off."""
    periods: Literal["fixed", "exponential"] = "fixed"
    """Whether each period has the given length, or draws an exponential one of that mean."""

    def __post_init__(self) -> None:
        """Refuse rates and periods that are not positive."""
        positive("groups_per_s", self.groups_per_s)
        positive("on_s", self.on_s)
        positive("off_s", self.off_s)
        within("off_groups_per_s", self.off_groups_per_s, 0, float("inf"))

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds."""
        points = _unit(generator, count)
        each = self.groups_per_s * self.on_s + self.off_groups_per_s * self.off_s
        chance = generator.spawn(1)[0]
        cycles = math.ceil(points[-1] / each) + 1 if points[-1] / each < 1e7 else 0
        within("groups_per_s: periods until the last group arrives", cycles, 1, 10_000_000)
        ends, lengths, rates = np.zeros(0), np.zeros(0), np.zeros(0)
        while not len(ends) or ends[-1] < points[-1]:
            more = np.tile([self.on_s, self.off_s], cycles)
            if self.periods == "exponential":
                more = more * chance.standard_exponential(2 * cycles)
            lengths = np.concatenate([lengths, more])
            rates = np.concatenate([rates, np.tile([self.groups_per_s, self.off_groups_per_s], cycles)])
            ends = np.cumsum(rates * lengths)
        period = np.searchsorted(ends, points)
        starts = np.cumsum(lengths) - lengths
        times: Floats = starts[period] + (points - (ends - rates * lengths)[period]) / rates[period]
        return _within_time(times, "groups_per_s")


@dataclass(frozen=True, slots=True)
class Diurnal:
    """Poisson arrivals whose rate swings once a day: ``mean * (1 + swing * sin(2 pi (t - start) / period))``."""

    kind: Literal["diurnal"]
    groups_per_s: float
    """Mean rate."""
    swing: float
    """Amplitude over the mean, 0..1: at 0.8 the rate goes from 0.2 to 1.8 times the mean."""
    period_s: float = 86_400.0
    """Length of a day."""
    start_s: float = 0.0
    """Time at which the rate passes its mean on its way up."""

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive, or that a swing would make negative."""
        positive("groups_per_s", self.groups_per_s)
        positive("period_s", self.period_s)
        within("swing", self.swing, 0, 1)

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds: by bisection of the integral of the rate."""
        points = _unit(generator, count) / self.groups_per_s
        turn = 2 * math.pi / self.period_s
        at_zero = math.cos(turn * self.start_s)
        # The integral of rate over mean differs from t by at most twice swing / turn.
        low = np.maximum(points - 2 * self.swing / turn, 0.0)
        high = points + 2 * self.swing / turn
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            passed = middle + self.swing / turn * (at_zero - np.cos(turn * (middle - self.start_s)))
            is_early = passed < points
            low, high = np.where(is_early, middle, low), np.where(is_early, high, middle)
        return _within_time(np.maximum.accumulate(high), "groups_per_s")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The times of a recording, in the order of time; the first one is time 0."""

    kind: Literal["recorded"]
    file: str
    """CSV with a header, or one JSON object a line; plain or .gz, relative to the scenario."""
    column: str
    """Which column, or key, holds the times; it needs a row for each group."""
    unit: Literal["s", "ms", "us"] = "s"
    """Unit of the times."""
    rate_scale: float = 1.0
    """Groups come this many times as fast as recorded."""

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive."""
        positive("rate_scale", self.rate_scale)

    def times(self, generator: np.random.Generator, count: int) -> Floats:
        """Arrival of each group, seconds; nothing is drawn."""
        recorded = np.sort(read_column(Path(self.file), self.column))
        if len(recorded) < count:
            raise ScenarioError(f"file: {self.file} holds {len(recorded):,} times, {count:,} groups are to arrive")
        per_s = {"s": 1, "ms": 1e3, "us": 1e6}[self.unit]
        times: Floats = (recorded[:count] - recorded[0]) / per_s / self.rate_scale
        return _within_time(times, "rate_scale")


Arrivals = AtOnce | Poisson | Gamma | OnOff | Diurnal | Ladder | Recorded
