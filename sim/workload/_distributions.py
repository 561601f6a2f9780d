"""Distributions of counts, and those of a recording: binomial, geometric, empirical.

Each maps standard uniforms u to values by its inverse distribution function, so a higher u never gives a lower value,
and a changed parameter reorders no draws.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.workload._check import MOST_TOKENS, within
from sim.workload._file_column import read_column

_Floats = NDArray[np.float64]

_MOST_TRIALS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Binomial:
    """``least`` plus the number of successes in ``trials`` independent trials."""

    kind: Literal["binomial"]
    trials: int
    chance: float
    """Of success, 0..1."""
    least: int = 0
    """Added to each draw."""

    def __post_init__(self) -> None:
        """Refuse what is no binomial law."""
        within("trials", self.trials, 1, _MOST_TRIALS)
        within("chance", self.chance, 0, 1)
        within("least", self.least, 0)

    def draw(self, generator: np.random.Generator, count: int) -> _Floats:
        """``count`` draws."""
        drawn: _Floats = self.least + np.searchsorted(self._below(), generator.random(count), side="right").astype(
            np.float64
        )
        return drawn

    def _below(self) -> _Floats:
        """Chance of at most k successes, k from 0 to ``trials`` - 1."""
        n, p = self.trials, self.chance
        if p in (0, 1):
            return np.full(n, float(p == 0))
        log = [
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(p)
            + (n - k) * math.log1p(-p)
            for k in range(n)
        ]
        return np.cumsum(np.exp(log))


@dataclass(frozen=True, slots=True)
class Geometric:
    """``least``, or one more as often as a coin says go on: whole numbers with this mean, without memory."""

    kind: Literal["geometric"]
    mean: float
    """Mean of the draws, ``least`` included."""
    least: int = 1
    """The smallest draw, and the likeliest."""

    def __post_init__(self) -> None:
        """Refuse a mean below the least."""
        within("least", self.least, 0)
        within("mean", self.mean, self.least)

    def draw(self, generator: np.random.Generator, count: int) -> _Floats:
        """``count`` draws."""
        uniforms = generator.random(count)
        more = self.mean - self.least
        if more == 0:
            return np.full(count, float(self.least))
        drawn: _Floats = self.least + np.floor(np.log1p(-uniforms) / math.log(more / (1 + more)))
        return np.minimum(drawn, MOST_TOKENS)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Values of a recording, each as likely as it is frequent there, drawn independently."""

    kind: Literal["empirical"]
    file: str
    """CSV with a header, or one JSON object a line; plain or .gz, relative to the scenario."""
    column: str
    """Which column, or key, holds the values; a list of numbers under a key counts as so many."""
    scale: float = 1.0
    """Multiplies each value."""

    def __post_init__(self) -> None:
        """Refuse a scale that turns values around."""
        within("scale", self.scale, 0)

    def draw(self, generator: np.random.Generator, count: int) -> _Floats:
        """``count`` draws; the file must have been located (``_located.py``)."""
        values = np.sort(read_column(Path(self.file), self.column))
        drawn: _Floats = values[np.floor(generator.random(count) * len(values)).astype(np.int64)] * self.scale
        if not drawn.max(initial=0.0) < float("inf"):
            raise ScenarioError(f"scale must leave the values of {self.column} finite, not {self.scale:,}")
        return drawn
