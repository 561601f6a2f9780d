"""The charts of a sweep: effects by cell; a metric over one varied field; who wins over two; hits against balance."""

from pathlib import Path
from typing import Any

import polars as pl

from sim.files import writing
from sim.metrics import METRICS
from sim.report.chart_tables import frontier_table
from sim.sweep._sweep import SweepResult, winner


def save_sweep_charts(found: SweepResult, metric: str, folder: Path, *, stem: str) -> list[Path]:
    """Write them as PNG and HTML; the map of winners where two fields vary, the curves where one number does."""
    from sim import charts  # brings altair

    name = f"{found.sweep.scenario.name}: {metric}"
    better = METRICS[metric].better
    drawn: dict[str, Any] = {}
    cells = cell_table(found, metric)
    if not cells.is_empty():
        drawn["ratios"] = charts.ratio_by_cell(cells, name, higher_is_better=better != "lower")
    curves = curve_table(found, metric)
    if not curves.is_empty():
        drawn["curves"] = charts.metric_by_load(curves, name, x=found.sweep.paths[0], y=metric)
    winners = winner_table(found, metric)
    if not winners.is_empty():
        across, up = found.sweep.paths
        drawn["winners"] = charts.winner_map(winners, name, x=across, y=up)
    traded = frontier_cells(found)
    if not traded.is_empty():
        title = f"{found.sweep.scenario.name}: hits against balance (simulated)"
        drawn["frontier"] = charts.frontier(charts.pareto(traded), title)
    with writing(f"charts in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        return [path for kind, chart in drawn.items() for path in charts.save(chart, folder / f"{stem}_{kind}")]


def cell_table(found: SweepResult, metric: str) -> pl.DataFrame:
    """``cell``, ``candidate``, ``ratio``, ``lo``, ``hi`` of the variants that have a ratio."""
    rows = [
        (variant, each.candidate, each.paired.ratio, each.paired.lo, each.paired.hi)
        for variant, result in found.results.items()
        for each in result.comparisons
        if each.metric == metric and each.paired.ratio is not None
    ]
    numbers = dict.fromkeys(("ratio", "lo", "hi"), pl.Float64)
    return pl.DataFrame(rows, schema={"cell": pl.String, "candidate": pl.String, **numbers}, orient="row")


def curve_table(found: SweepResult, metric: str) -> pl.DataFrame:
    """``load``, ``arm``, ``mean``, ``lo``, ``hi``, ``source``, where a single field varies and holds numbers."""
    rows: list[tuple[Any, ...]] = []
    for variant in found.sweep.variants:
        values = list(variant.settings.values())
        if len(found.sweep.paths) != 1 or len(values) != 1 or not _is_number(values[0]):
            rows = []
            break
        result = found.results.get(variant.name)
        for arm, means in result.means.items() if result else ():
            mean = means[metric]
            if mean.mean is not None:
                rows.append((float(values[0]), arm, mean.mean, mean.lo, mean.hi, "simulated"))
    numbers = dict.fromkeys(("mean", "lo", "hi"), pl.Float64)
    types = {"load": pl.Float64, "arm": pl.String, **numbers, "source": pl.String}
    return pl.DataFrame(rows, schema=types, orient="row").sort("load", maintain_order=True)


def winner_table(found: SweepResult, metric: str) -> pl.DataFrame:
    """``x``, ``y``, ``winner``, ``ratio`` and ``separable``, where two fields vary and every variant sets both.

    Nobody wins a metric of which neither more nor less is better.
    """
    rows: list[dict[str, Any]] = []
    for variant in found.sweep.variants:
        if (
            METRICS[metric].better == "none"
            or len(found.sweep.paths) != 2
            or set(variant.settings) != set(found.sweep.paths)
        ):
            rows = []
            break
        result = found.results.get(variant.name)
        if result is not None and len(result.arms) > 1:
            best = winner(result, metric)
            x, y = (variant.settings[path] for path in found.sweep.paths)
            rows.append(
                {"x": x, "y": y, "winner": best.arm, "ratio": best.ratio_to_next, "separable": best.is_separable}
            )
    plain = all(_is_number(row[axis]) or isinstance(row[axis], str) for row in rows for axis in ("x", "y"))
    alike = all(len({isinstance(row[axis], str) for row in rows}) == 1 for axis in ("x", "y")) if rows else False
    return pl.DataFrame(rows if plain and alike else [], schema=None if plain and alike else ["x", "y"])


def frontier_cells(found: SweepResult) -> pl.DataFrame:
    """``arm`` (with its variant), ``hit_rate`` and ``imbalance`` of every arm; empty where nothing is hit anywhere."""
    named = pl.col("arm")
    tables = [
        frontier_table(result).with_columns(pl.format("{}: {}", pl.lit(variant), named).alias("arm"))
        for variant, result in found.results.items()
    ]
    every = pl.concat(tables) if tables else pl.DataFrame()
    return every if not every.is_empty() and every["hit_rate"].max() else every.clear()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
