"""The tables behind charts, made of sides and results."""

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from sim.files import writing
from sim.metrics import METRICS
from sim.report.contrast import Contrast
from sim.report.result import Result
from sim.report.sides import Side
from sim.stats.shape import quantile_interval

HITS, BALANCE = "prefix_hit_rate", "load_tokens_max_over_mean"


def slope_table(baseline: Side, candidate: Side, metric: str) -> pl.DataFrame:
    """``pair``, ``arm``, ``value`` of the pairs that both sides have; equal names are told apart."""
    names = arm_names(baseline, candidate)
    parts = [
        side.values.select("pair", pl.lit(name).alias("arm"), pl.col(metric).alias("value")).drop_nulls()
        for name, side in zip(names, (baseline, candidate), strict=True)
    ]
    both = parts[0].select("pair").join(parts[1].select("pair"), on="pair")
    return pl.concat([part.join(both, on="pair", how="semi").sort("pair") for part in parts])


MOST_POINTS: Final = 1_000
"""Points of a curve that are drawn, first and last among them: more cannot be told apart."""


def completion_tables(baseline: Side, candidate: Side) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """``arm``, ``completion_s``, ``share`` of all finished groups, and the 95th percentiles with their intervals."""
    curves, marks = [], []
    for name, side in zip(arm_names(baseline, candidate), (baseline, candidate), strict=True):
        if side.completions is None:
            return None
        times = side.completions["completion_s"].drop_nulls().sort()
        if len(times) < 2:
            return None
        curve = pl.DataFrame({"completion_s": times}).select(
            pl.lit(name).alias("arm"), "completion_s", share=pl.int_range(1, pl.len() + 1) / pl.len()
        )
        if len(times) > MOST_POINTS:
            curve = curve[np.linspace(0, len(times) - 1, MOST_POINTS).round().astype(int).tolist()]
        curves.append(curve)
        found = quantile_interval(times.to_numpy(), 0.95)
        marks.append({"arm": name, "value": found.value, "lo": found.lo, "hi": found.hi})
    types = {"arm": pl.String, "value": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}
    return pl.concat(curves), pl.DataFrame(marks, schema=types)


def frontier_table(result: Result) -> pl.DataFrame:
    """``arm``, ``hit_rate``, ``imbalance``: means of the arms of a result over their replications."""
    rows = [
        {"arm": name, "hit_rate": arm.values[HITS].mean(), "imbalance": arm.values[BALANCE].mean()}
        for name, arm in result.arms.items()
    ]
    types = {"arm": pl.String, "hit_rate": pl.Float64, "imbalance": pl.Float64}
    return pl.DataFrame(rows, schema=types).drop_nulls()


def arm_names(baseline: Side, candidate: Side) -> tuple[str, str]:
    """Names to draw; measured sides say so, and two of one name become A and B of it."""
    a, b = (f"{side.name} (measured)" if side.is_measured else side.name for side in (baseline, candidate))
    return (a, b) if a != b else (f"{a} A", f"{b} B")


def save_contrast(found: Contrast, folder: Path) -> list[Path]:
    """Write the slope chart of each metric and the group completions as PNG, SVG and HTML."""
    from sim import charts  # brings altair, which a comparison in text can do without

    title = f"{found.candidate.name} over {found.baseline.name}"
    drawn = {}
    for finding in found.findings:
        table = slope_table(found.baseline, found.candidate, finding.metric)
        if table.is_empty():
            continue
        unit = METRICS[finding.metric].unit
        label = finding.metric if unit == "1" else f"{finding.metric} ({unit})"
        drawn[f"slopes_{finding.metric}"] = charts.slopes(table, title, y=label)
    tables = completion_tables(found.baseline, found.candidate)
    if tables is not None:
        drawn["group_completion"] = charts.completion_cdf(*tables, title)
    with writing(f"charts in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        return [
            path for name, chart in drawn.items() for path in charts.save(chart, folder / name, ("png", "svg", "html"))
        ]
