"""What the review found as things stand, and how a ratio elsewhere is decided: by the rule of the review itself."""

from dataclasses import dataclass

import numpy as np

from sim.metrics import METRICS
from sim.report.result import Arm
from sim.review._judge import Decision, decision
from sim.scenario import Scenario
from sim.stats import Floats, Ratio
from sim.stats.sensitivity import Estimate


@dataclass(frozen=True, slots=True)
class Centre:
    """What the review found, and what it takes to ask again."""

    scenario: Scenario
    """Of the two arms alone."""
    candidate: str
    change: str
    """Path of the field in which they differ."""
    paired: Ratio
    """Of the metric that decides."""
    arms: tuple[Arm, Arm]
    interest: float
    pairs: int
    """That both arms have."""
    requests: int
    """Of a replication, in the arm and the pair that have most."""

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self.scenario.metrics[0]

    @property
    def is_lower_better(self) -> bool:
        """Which way round ratios are read."""
        return METRICS[self.metric].better == "lower"

    @property
    def estimate(self) -> Estimate:
        """The ratio of the review."""
        return Estimate(self.paired.ratio, self.paired.lo, self.paired.hi, self.paired.pairs)

    def logs(self) -> Floats:
        """Log ratios by pair; NaN where there is none."""
        return log_ratios(*self.arms, self.metric)

    def decide(self, found: Estimate) -> Decision:
        """From an interval elsewhere; one on one side of the smallest effect of interest decides however wide it is."""
        oriented = self._oriented(found)
        if oriented is not None and oriented[2] < 1 + self.interest:
            return "DO NOT RUN"
        if oriented is not None and oriented[1] > 1 + self.interest:
            return "RUN"
        return decision(oriented, self.interest)

    @property
    def decided(self) -> Decision:
        """At the scenario as it stands, exactly as the review does."""
        return decision(self._oriented(self.estimate), self.interest)

    def _oriented(self, found: Estimate) -> tuple[float, float, float] | None:
        ratio, lo, hi = found.ratio, found.lo, found.hi
        if ratio is None or lo is None or hi is None:
            return None
        return (1 / ratio, 1 / hi, 1 / lo) if self.is_lower_better else (ratio, lo, hi)

    def gain(self, found: Estimate) -> float:
        """Logarithm of the ratio over the smallest effect worth having; more is better."""
        log = found.log or 0.0
        return (-log if self.is_lower_better else log) - float(np.log1p(self.interest))


def log_ratios(base: Arm, arm: Arm, metric: str) -> Floats:
    """Of an arm over another by pair; NaN where there is none."""
    pairs = min(base.values.height, arm.values.height)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(arm.column(metric)[:pairs] / base.column(metric)[:pairs])
    return np.asarray(np.where(np.isfinite(logs), logs, np.nan))
