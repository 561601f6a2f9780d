"""When a comparison has enough pairs. Rules are asked after each batch of pairs and answer from the pairs so far.

    Pairs        a number
    Precision    half of the width of the 95 % interval of the paired ratio is at most a given share; by default a
                 quarter of the smallest interesting effect

Looking again and again until an interval is narrow makes it cover less than it says when few pairs suffice: the spread
happens to be small where the rule stops (Chow and Robbins 1965 have the asymptotics). So precision is not asked before
``FEWEST`` pairs; the coverage that this leaves is in docs/statistics.md. Selecting the best of many arms is
``sim.stats.selection``; a budget of time is kept by whoever has the clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np
from scipy.special import stdtrit

from sim.stats.paired import LEVEL, Floats, t_interval

INTEREST = 0.05
"""The smallest interesting effect, unless told otherwise."""
FEWEST = 20
"""Pairs before which precision is not asked."""


class Rule(Protocol):
    """Says whether the pairs so far are enough."""

    def is_met(self, arms: Sequence[Floats]) -> bool:
        """``arms`` has the log ratios of each candidate, all of the same pairs."""
        ...

    def still_needed(self, arms: Sequence[Floats]) -> int:
        """A guess of how many more pairs it takes; 0 where the rule is met."""
        ...


@dataclass(frozen=True, slots=True)
class Pairs:
    """A number of pairs fixed beforehand."""

    count: int

    def is_met(self, arms: Sequence[Floats]) -> bool:
        """As many as said."""
        return self.still_needed(arms) == 0

    def still_needed(self, arms: Sequence[Floats]) -> int:
        """Exactly what is missing."""
        return max(0, self.count - min((logs.size for logs in arms), default=self.count))


@dataclass(frozen=True, slots=True)
class Precision:
    """Every candidate's ratio is known to within a share of one."""

    half_width: float = INTEREST / 4
    """Half of the width of the 95 % interval of the ratio."""
    fewest: int = FEWEST

    def __post_init__(self) -> None:
        """Refuse what cannot be reached or asked."""
        if not self.half_width > 0:
            raise ValueError(f"half_width must be positive, not {self.half_width:g}")
        if self.fewest < 2:
            raise ValueError(f"an interval needs 2 pairs, not {self.fewest}")

    def is_met(self, arms: Sequence[Floats]) -> bool:
        """Enough pairs, and every interval narrow enough."""
        return all(logs.size >= self.fewest and half_width(logs) <= self.half_width for logs in arms)

    def still_needed(self, arms: Sequence[Floats]) -> int:
        """From the spread so far, for the arm that needs most."""
        if self.is_met(arms):
            return 0
        return max(1, *(self._needed(logs) - logs.size for logs in arms))

    def _needed(self, logs: Floats) -> int:
        if logs.size < 2:
            return self.fewest
        # Width of the ratio's interval: ratio * (e**h - e**-h) / 2 = ratio * sinh(h).
        target = float(np.arcsinh(self.half_width / np.exp(logs.mean())))
        spread, n = float(logs.std(ddof=1)), float(logs.size)
        for _ in range(8):  # the quantile of t depends on the answer, ever less
            n = max(2.0, (float(stdtrit(max(n, 2.0) - 1, (1 + LEVEL) / 2)) * spread / target) ** 2)
        return max(self.fewest, ceil(n))


def half_width(logs: Floats) -> float:
    """Half of the width of the 95 % t interval of the ratio; infinite below two pairs."""
    if logs.size < 2:
        return float("inf")
    lo, hi = np.exp(t_interval(logs))
    return float(hi - lo) / 2
