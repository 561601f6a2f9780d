"""All variants of a scenario: one table of paired effects, and who wins where."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.report.result import Arm, Result, compare_arms
from sim.scenario import Sweep
from sim.stats.many import holm
from sim.stats.paired import ROUNDING
from sim.sweep._pools import Pool
from sim.sweep._run import Progress, run_all

SURE = 0.05
"""Family-wise level at which the best arm of a variant is called the winner."""


@dataclass(frozen=True, slots=True)
class Winner:
    """The arm with the best mean of a metric, and whether it can be told apart from the others."""

    arm: str
    is_separable: bool
    """Every other arm is worse, at a family-wise level of 5 % (paired tests, Holm)."""
    ratio_to_next: float | None
    """Its mean ratio to the arm that comes second."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Results by variant, in the order of the file."""

    sweep: Sweep
    results: dict[str, Result]
    errors: dict[str, str] = field(default_factory=dict)
    """Variants of which an arm did not run at all, and why."""

    @property
    def table(self) -> pl.DataFrame:
        """One row a variant, candidate and metric: the varied fields, ``ratio`` and its intervals, ``winner``.

        No arm is the winner of a metric of which neither more nor less is better.
        """
        rows = []
        for variant in self.sweep.variants:
            result = self.results.get(variant.name)
            if result is None:
                continue
            fields = {path: _cell(variant.settings.get(path)) for path in self.sweep.paths}
            for each in result.comparisons:
                paired = each.paired
                best = winner(result, each.metric) if METRICS[each.metric].better != "none" else None
                rows.append(
                    {
                        "variant": variant.name,
                        **fields,
                        "metric": each.metric,
                        "baseline": each.baseline,
                        "candidate": each.candidate,
                        "pairs": paired.pairs,
                        "baseline_mean": result.means[each.baseline][each.metric].mean,
                        "candidate_mean": result.means[each.candidate][each.metric].mean,
                        "ratio": paired.ratio,
                        "lo": paired.lo,
                        "hi": paired.hi,
                        "p_worse": paired.p_worse,
                        "winner": best and best.arm,
                        "is_separable": best and best.is_separable,
                    }
                )
        return pl.DataFrame(rows, infer_schema_length=None)

    def digest(self) -> str:
        """Eight digits that tell what was compared: variants, cells, baseline, metrics and pairs."""
        said = [
            (name, [(arm.name, arm.hash, arm.values.height) for arm in result.arms.values()], result.metrics)
            for name, result in self.results.items()
        ]
        return hashlib.sha256(repr(said).encode()).hexdigest()[:8]

    @property
    def failures(self) -> int:
        """Replications and variants that did not run to their end."""
        return sum(result.failures for result in self.results.values()) + len(self.errors)


def sweep(
    made: Sweep,
    *,
    jobs: int | None = 1,
    out: str | Path = "results",
    keep_tables: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
    decided: Callable[[str, Result], None] | None = None,
    pool: Pool | None = None,
) -> SweepResult:
    """Run every variant of a scenario and store what was measured below ``out``; ``decided`` hears of each at once.

    Cells that several variants share run once. ``keep_tables`` stores every request and decision too, as ``run`` does.
    ScenarioError for what a user can put right.
    """
    scenarios = {variant.name: variant.scenario for variant in made.variants}
    results: dict[str, Result] = {}
    errors: dict[str, str] = {}

    def take(name: str, found: Result | ScenarioError) -> None:
        if isinstance(found, ScenarioError):
            errors[name] = str(found)
            return
        results[name] = found
        if decided is not None:
            decided(name, found)

    run_all(scenarios, take, jobs=jobs, out=out, keep_tables=keep_tables, fresh=fresh, progress=progress, pool=pool)
    if not results:
        raise ScenarioError(next(iter(errors.values())))
    in_order = {name: results[name] for name in scenarios if name in results}
    return SweepResult(made, in_order, errors)


def winner(result: Result, metric: str) -> Winner:
    """The best arm of one variant, by its mean, and whether the others are behind for sure."""
    better = METRICS[metric].better
    order = sorted(result.arms.values(), key=lambda arm: _badness(result.means[arm.name][metric].mean, better))
    best, others = order[0], order[1:]
    if not others:
        return Winner(best.name, is_separable=False, ratio_to_next=None)
    p = [_p(best, other, metric) for other in others]
    second = compare_arms(others[0], best, metric).paired
    return Winner(best.name, is_separable=max(holm(p)) < SURE, ratio_to_next=second.ratio)


def _badness(mean: float | None, better: str) -> float:
    """Least is best; an arm without a value comes last."""
    if mean is None:
        return float("inf")
    return mean if better == "lower" else -mean


def _p(best: Arm, other: Arm, metric: str) -> float:
    """Two-sided p of no effect; one that is the same in every pair is sure, one without interval is not."""
    paired = compare_arms(other, best, metric).paired
    if paired.p is not None:
        return paired.p
    is_sure = paired.lo is not None or (best.is_deterministic and other.is_deterministic)
    return 0.0 if is_sure and paired.ratio is not None and abs(paired.ratio - 1) > ROUNDING else 1.0


def _cell(value: Any) -> Any:
    """A varied value as a column holds it."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
