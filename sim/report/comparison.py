"""One candidate against the baseline in one metric."""

from dataclasses import dataclass

from sim.stats import Ratio


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate against the baseline in one metric."""

    baseline: str
    candidate: str
    metric: str
    paired: Ratio
