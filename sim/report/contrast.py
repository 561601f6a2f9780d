"""Two sides compared pair by pair, with every test that their pairs allow.

The first metric is the one that decides; the others are exploratory, and nothing corrects for their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sim import placement, stats
from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.registry import suggest
from sim.report.sides import Side
from sim.stats import Floats, Mean, Ratio
from sim.stats.inference import Rank, Verdict, permutation_p, spearman, verdict
from sim.stats.shape import Common, Humps, Quantile, common, humps, quantile_interval
from sim.stats.strata import Pooled, compare_blocked, pooled

IMBALANCE = "load_tokens_max_over_mean"
SHOWN = ("samples_per_s", "group_completion_p95_s", "load_tokens_max_over_mean", "prefill_tokens")
"""Metrics that are compared unless others are named, where both sides have them."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What counts as equal, as harm and as interesting, as shares of the baseline."""

    equal: float = 0.02
    harm: float = 0.03
    interest: float = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """One metric of two sides. What does not exist is None."""

    metric: str
    baseline: Mean
    candidate: Mean
    paired: Ratio
    logs: Floats
    verdict: Verdict | None
    permutation_p: float | None
    common: Common | None
    humps: Humps | None
    imbalance: Rank | None
    """Rank correlation of the candidate's relative load imbalance with the effect."""
    exact: Pooled | None
    """The ratio with placement classes under their exact weights."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two sides, metric by metric."""

    baseline: Side
    candidate: Side
    pairs: int
    findings: list[Finding]
    completion_p95: tuple[Quantile, Quantile] | None
    """Pooled over all pairs' groups, baseline first."""
    notes: list[str]


def contrast(baseline: Side, candidate: Side, metrics: Sequence[str], lines: Lines) -> Contrast:
    """Compare two sides in these metrics; ScenarioError where their pairs are not pairs."""
    _refuse_strangers(baseline, candidate)
    both = baseline.values.select("pair").join(candidate.values.select("pair"), on="pair").sort("pair")
    if both.is_empty():
        raise ScenarioError(f"no pair is in both {baseline.path} and {candidate.path}")
    for name in metrics:
        for side in (baseline, candidate):
            if name not in side.metrics:
                raise ScenarioError(f"{side.path} has no values of {name}; it has {', '.join(side.metrics)}")
    found = [_finding(baseline, candidate, both, name, lines) for name in metrics]
    return Contrast(
        baseline,
        candidate,
        both.height,
        found,
        _completions(baseline, candidate),
        _notes(baseline, candidate, both, found),
    )


def shared_metrics(baseline: Side, candidate: Side) -> list[str]:
    """Metrics that both sides have."""
    return [name for name in baseline.metrics if name in candidate.metrics]


def chosen_metrics(baseline: Side, candidate: Side, names: Sequence[str]) -> list[str]:
    """The metrics asked for, or the usual ones that both sides have."""
    for name in names:
        if name not in METRICS:
            raise ScenarioError(f"unknown metric {name!r}; {suggest(name, METRICS)}")
    if names:
        return list(dict.fromkeys(names))
    known = shared_metrics(baseline, candidate)
    if not known:
        raise ScenarioError(f"{baseline.path} and {candidate.path} have no metric in common")
    return [name for name in SHOWN if name in known] or known[:4]


def log_ratios(baseline: Side, candidate: Side, metric: str) -> pl.DataFrame:
    """``pair`` and ``log_ratio`` of the pairs that have one."""
    joined = baseline.values.select("pair", a=metric).join(candidate.values.select("pair", b=metric), on="pair")
    known = joined.filter((pl.col("a") > 0) & (pl.col("b") > 0)).sort("pair")
    return known.select("pair", log_ratio=(pl.col("b") / pl.col("a")).log())


def by_stratum(side: Side, logs: pl.DataFrame) -> tuple[list[Floats], list[float]] | None:
    """Log ratios by placement stratum and the exact shares; None without classes, or if a stratum has no pair."""
    if side.placed is None:
        return None
    strata = placement.strata(side.placed.keys, side.placed.engines)
    classed = logs.join(side.placed.classes, on="pair")
    parts = [classed.filter(pl.col("class").is_in(list(each.classes)))["log_ratio"].to_numpy() for each in strata]
    return (parts, [each.share for each in strata]) if all(part.size for part in parts) else None


def _refuse_strangers(baseline: Side, candidate: Side) -> None:
    a, b = baseline.manifest, candidate.manifest
    if a is None or b is None:
        return
    if a["seed"] != b["seed"]:
        raise ScenarioError(
            f"{baseline.path} ran with seed {a['seed']}, {candidate.path} with {b['seed']}: their pairs are not pairs"
        )


def _finding(baseline: Side, candidate: Side, both: pl.DataFrame, metric: str, lines: Lines) -> Finding:
    a, b = (_column(side, both, metric) for side in (baseline, candidate))
    alike = all(len(set(each.tolist())) == 1 and each.size > 1 for each in (a, b)) and _all_equal(baseline, candidate)
    better = METRICS[metric].better
    paired = _paired(baseline, candidate, both, a, b, metric, alike=alike)
    frame = log_ratios(baseline, candidate, metric)
    logs = frame["log_ratio"].to_numpy()
    separable = paired.lo is not None and better != "none"
    known = ~(np.isnan(a) | np.isnan(b))
    positive = bool(((a > 0) & (b > 0))[known].all())
    strata = by_stratum(candidate, frame)
    return Finding(
        metric=metric,
        baseline=stats.mean(a, deterministic=alike),
        candidate=stats.mean(b, deterministic=alike),
        paired=paired,
        logs=logs,
        verdict=verdict(logs, better, margin=lines.equal, harm=lines.harm, interest=lines.interest)
        if separable
        else None,
        permutation_p=permutation_p(logs) if paired.lo is not None else None,
        common=common(a[known], b[known]) if positive else None,
        humps=humps(logs) if paired.lo is not None else None,
        imbalance=_imbalance(baseline, candidate, metric, frame),
        exact=pooled(*strata) if strata is not None and paired.lo is not None else None,
    )


def _paired(
    baseline: Side, candidate: Side, both: pl.DataFrame, a: Floats, b: Floats, metric: str, *, alike: bool
) -> Ratio:
    blocked = next((each for each in (candidate, baseline) if each.is_blocked and each.placed is not None), None)
    if blocked is None or blocked.placed is None or alike:
        return stats.compare(a, b, METRICS[metric].better, deterministic=alike)
    return compare_blocked(a, b, METRICS[metric].better, *blocked.placed.strata(both["pair"]))


def _all_equal(*sides: Side) -> bool:
    return all(side.values.drop("pair").unique().height == 1 for side in sides)


def _column(side: Side, both: pl.DataFrame, metric: str) -> Floats:
    column = both.join(side.values.select("pair", metric), on="pair", how="left", maintain_order="left")[metric]
    return column.fill_null(float("nan")).to_numpy()


def _imbalance(baseline: Side, candidate: Side, metric: str, effects: pl.DataFrame) -> Rank | None:
    if metric == IMBALANCE or IMBALANCE not in shared_metrics(baseline, candidate):
        return None
    moved = log_ratios(baseline, candidate, IMBALANCE).rename({"log_ratio": "moved"})
    joined = moved.join(effects, on="pair")
    return spearman(joined["moved"].to_numpy(), joined["log_ratio"].to_numpy())


def _completions(baseline: Side, candidate: Side) -> tuple[Quantile, Quantile] | None:
    frames = baseline.completions, candidate.completions
    values = [frame["completion_s"].drop_nulls().to_numpy() for frame in frames if frame is not None]
    if len(values) < 2 or any(each.size < 2 for each in values):
        return None
    return quantile_interval(values[0], 0.95), quantile_interval(values[1], 0.95)


def _notes(baseline: Side, candidate: Side, both: pl.DataFrame, found: Sequence[Finding]) -> list[str]:
    notes = []
    for side in (baseline, candidate):
        if left := side.height - both.height:
            notes.append(f"{side.name}: {left} of {side.height} pairs have no counterpart and are left out")
    a, b = baseline.manifest, candidate.manifest
    if a is not None and b is not None and a["cell"]["workload"] != b["cell"]["workload"]:
        notes.append("the workloads differ: pairs share random streams, not requests")
    if a is not None and b is not None and a["hash"] == b["hash"]:
        notes.append("both sides are the same cell: every ratio is 1")
    elif baseline.decisions is not None and candidate.decisions is not None:
        alike = baseline.decisions.join(candidate.decisions, on="pair")
        if alike.height and (alike["decisions"] == alike["decisions_right"]).all():
            notes.append("no decision differs, but for the names of engines")
    if (a is None) != (b is None):
        notes.append("one side is simulated and the other measured: the ratio holds the simulator's error too")
    first = found[0]
    if first.paired.caution == "few":
        notes.append("fewer than 20 pairs: Student's t alone, a bootstrap would be too sure")
    if first.paired.caution == "skewed":
        notes.append(f"{first.metric}: skewed ratios, the interval is rough and the bootstrap refused")
    if first.common is not None and not first.common.has_worked and both.height > 2:
        notes.append(f"{first.metric}: the arms do not vary together, so pairing bought nothing")
    if first.humps is not None and first.humps.are_two:
        notes.append(
            f"{first.metric}: two humps, around {np.exp(first.humps.low):.3f} and {np.exp(first.humps.high):.3f} "
            f"({first.humps.share_high:.0%} in the upper one): the mean describes neither"
        )
    return notes
