"""What a comparison found: values of each arm pair by pair, means, paired ratios, placement classes, warnings.

The numbers are made here once; the table, the JSON document and the charts only show them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sim import stats
from sim.log import store
from sim.log.frames import Tables
from sim.metrics import METRICS
from sim.placement import exact
from sim.report.cautions import cautions
from sim.report.comparison import Comparison
from sim.report.placements import Placed
from sim.stats import Mean
from sim.stats.strata import compare_blocked, mean_blocked


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm after all its replications."""

    name: str
    hash: str
    folder: Path
    """Where its tables are stored."""
    values: pl.DataFrame
    """One row a pair, one column a metric."""
    decisions: str
    """Digest of which requests went to one engine: equal for arms that decide alike."""
    groups: int
    """Groups of a replication."""
    placed: Placed | None = None
    null_control: bool = False
    notes: tuple[str, ...] = ()
    """What its decisions say of its policy."""
    is_blocked: bool = False
    """Pairs were planned by placement class, and are recombined by exact weights."""
    is_hashed: bool = False
    """The policy places a key by a hash alone, so the classes have an expected share."""

    @property
    def is_deterministic(self) -> bool:
        """All replications gave the same numbers."""
        return self.values.height > 1 and self.values.drop("pair").unique().height == 1

    def column(self, metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Values of one metric by pair, NaN where there is none."""
        return self.values[metric].fill_null(float("nan")).to_numpy()

    def tables(self) -> Tables:
        """The stored tables of these pairs: requests, decisions, groups, engines, replications."""
        return store.read(self.folder, self.values.height)


@dataclass(frozen=True, slots=True)
class Placement:
    """One placement class of a candidate: how often, and what it gains there."""

    candidate: str
    name: str
    p_exact: float
    p_simulated: float
    pairs: int
    ratio: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a scenario."""

    scenario: str
    baseline: str
    metrics: tuple[str, ...]
    """What is shown, in this order; each arm's ``values`` hold every metric."""
    arms: dict[str, Arm]
    means: dict[str, dict[str, Mean]]
    comparisons: list[Comparison]
    placements: list[Placement]
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """When and why it stopped, where a rule decided that."""
    failures: int = 0
    """Replications that raised; the warnings say which, their pairs have no values."""

    @property
    def values(self) -> pl.DataFrame:
        """One row an arm and pair, one column a metric (all of them), ``arm`` and ``pair`` first."""
        frames = [arm.values.select(pl.lit(name).alias("arm"), pl.all()) for name, arm in self.arms.items()]
        return pl.concat(frames)

    def comparison(self, candidate: str, metric: str) -> Comparison:
        """The comparison of one candidate in one metric."""
        return next(each for each in self.comparisons if (each.candidate, each.metric) == (candidate, metric))


def assemble(
    scenario: str, baseline: str, metrics: Sequence[str], arms: Sequence[Arm], warnings: Sequence[str]
) -> Result:
    """Compare the arms, all of which ran the same pairs."""
    base = next(arm for arm in arms if arm.name == baseline)
    candidates = [arm for arm in arms if arm is not base]
    compared = [compare_arms(base, arm, metric) for arm in candidates for metric in metrics]
    return Result(
        scenario=scenario,
        baseline=baseline,
        metrics=tuple(metrics),
        arms={arm.name: arm for arm in arms},
        means={arm.name: {metric: _mean(arm, metric) for metric in metrics} for arm in arms},
        comparisons=compared,
        placements=[each for arm in candidates for each in _placements(base, arm, metrics)],
        warnings=[*warnings, *cautions(compared)],
    )


def ratios(base: Arm, arm: Arm, metric: str) -> pl.DataFrame:
    """``pair`` and ``ratio`` candidate / baseline of the pairs that have one."""
    both = base.values.select("pair", base=metric).join(arm.values.select("pair", arm=metric), on="pair")
    known = both.filter((pl.col("base") > 0) & (pl.col("arm") > 0))
    return known.select("pair", ratio=pl.col("arm") / pl.col("base")).sort("pair")


def _mean(arm: Arm, metric: str) -> Mean:
    if arm.is_blocked and arm.placed is not None and not arm.is_deterministic:
        return mean_blocked(arm.column(metric), *arm.placed.strata(arm.values["pair"]))
    return stats.mean(arm.column(metric), deterministic=arm.is_deterministic)


def compare_arms(base: Arm, arm: Arm, metric: str) -> Comparison:
    """Over the pairs that both arms ran: a rule may have given one of them more."""
    alike = base.is_deterministic and arm.is_deterministic
    better = METRICS[metric].better
    pairs = min(base.values.height, arm.values.height)
    columns = base.column(metric)[:pairs], arm.column(metric)[:pairs]
    # An arm's own classes first: a baseline that is keyed otherwise has others, or none.
    blocked = next((each for each in (arm, base) if each.is_blocked and each.placed is not None), None)
    if blocked is not None and blocked.placed is not None and not alike:
        strata = blocked.placed.strata(base.values["pair"][:pairs])
        return Comparison(base.name, arm.name, metric, compare_blocked(*columns, better, *strata))
    paired = stats.compare(*columns, better, deterministic=alike)
    return Comparison(base.name, arm.name, metric, paired)


def _placements(base: Arm, arm: Arm, metrics: Sequence[str]) -> list[Placement]:
    if arm.placed is None:
        return []
    classes = arm.placed.classes.filter(pl.col("pair") < base.values.height).sort("pair")
    found = []
    for name, p_exact in exact(arm.placed.keys, arm.placed.engines).items():
        here = classes.filter(pl.col("class") == name)["pair"].to_numpy()
        ratio = {each: stats.geometric_ratio(base.column(each)[here], arm.column(each)[here]) for each in metrics}
        found.append(Placement(arm.name, name, p_exact, len(here) / classes.height, len(here), ratio))
    return found
