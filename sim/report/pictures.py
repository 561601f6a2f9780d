"""The charts of a result as files: PNG for documents, HTML that opens without a network."""

import hashlib
from pathlib import Path
from typing import Any

import polars as pl

from sim.files import writing
from sim.metrics import METRICS
from sim.report.chart_tables import frontier_table
from sim.report.result import Result, ratios


def save_charts(result: Result, folder: Path, *, is_variant: bool = False) -> list[Path]:
    """Write ``paired_ratios.png`` and ``.html`` into the folder, and ``frontier`` of three arms or more.

    None where no candidate has a ratio, no frontier where nothing is hit. Those of a variant, a run with anything
    changed on the command line, have names of their own, which say by a digest what was compared: they overwrite
    neither the scenario's own charts nor those of another variant.
    """
    points = ratio_points(result)
    if points.is_empty():
        return []
    from sim import charts  # brings altair, which a run that draws nothing can do without

    candidates = points["candidate"].unique().to_list()
    above = candidates[0] if len(candidates) == 1 else "ratio"
    title = f"{result.scenario}: {above} over {result.baseline}, pair by pair (simulated)"
    drawn: dict[str, Any] = {"paired_ratios": charts.paired_ratios(points, ratio_means(result), title)}
    policies = frontier_table(result)
    if policies.height > 2 and policies["hit_rate"].max():
        drawn["frontier"] = charts.frontier(
            charts.pareto(policies), f"{result.scenario}: hits against balance (simulated)"
        )
    end = f"-{digest(result)}" if is_variant else ""
    with writing(f"charts in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        return [path for name, chart in drawn.items() for path in charts.save(chart, folder / f"{name}{end}")]


def digest(result: Result) -> str:
    """Eight digits that tell what was compared: cells, baseline, metrics and pairs."""
    arms = [(name, arm.hash, arm.values.height) for name, arm in result.arms.items()]
    return hashlib.sha256(repr((arms, result.baseline, result.metrics)).encode()).hexdigest()[:8]


def ratio_points(result: Result) -> pl.DataFrame:
    """One row a pair, candidate and metric: ``title``, ``candidate``, ``pair``, ``ratio``, ``class``."""
    base = result.arms[result.baseline]
    frames = []
    for comparison in result.comparisons:
        arm = result.arms[comparison.candidate]
        frame = ratios(base, arm, comparison.metric).select(
            pl.lit(_title(comparison.metric)).alias("title"), pl.lit(arm.name).alias("candidate"), "pair", "ratio"
        )
        if arm.placed is None:
            frames.append(frame.with_columns(pl.lit(None, dtype=pl.String).alias("class")))
        else:
            frames.append(frame.join(arm.placed.classes, on="pair", how="left", maintain_order="left"))
    return pl.concat(frames) if frames else pl.DataFrame()


def ratio_means(result: Result) -> pl.DataFrame:
    """One row a candidate and metric: ``title``, ``candidate``, ``ratio``, ``lo``, ``hi``."""
    rows = [
        {
            "title": _title(comparison.metric),
            "candidate": comparison.candidate,
            "ratio": comparison.paired.ratio,
            "lo": comparison.paired.lo,
            "hi": comparison.paired.hi,
        }
        for comparison in result.comparisons
    ]
    types = {"title": pl.String, "candidate": pl.String, "ratio": pl.Float64, "lo": pl.Float64, "hi": pl.Float64}
    return pl.DataFrame(rows, schema=types).drop_nulls("ratio")


def _title(metric: str) -> str:
    better = METRICS[metric].better
    return metric if better == "none" else f"{metric} ({better} is better)"
