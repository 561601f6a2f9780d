"""When groups arrive: all at once, or by a Poisson process.

Gaps of the process are standard exponentials divided by the rate, so halving the rate doubles every arrival time
exactly. Group g keeps its time when the number of groups grows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim.errors import ScenarioError
from sim.workload._check import MOST_SECONDS, positive
from sim.workload._lengths import Floats


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
            times: Floats = np.cumsum(generator.standard_exponential(count)) / self.groups_per_s
        if not times[-1] <= MOST_SECONDS:
            raise ScenarioError(f"groups_per_s is too low: the last group would arrive after {times[-1]:.3g} s")
        return times
