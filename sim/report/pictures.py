"""The charts of a result as files: PNG for documents, HTML that opens without a network."""

from pathlib import Path

import polars as pl

from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.report.result import Result, ratios


def save_charts(result: Result, folder: Path) -> list[Path]:
    """Write ``paired_ratios.png`` and ``.html`` into the folder; none where no candidate has a ratio."""
    points = ratio_points(result)
    if points.is_empty():
        return []
    from sim import charts  # brings altair, which a run that draws nothing can do without

    chart = charts.paired_ratios(
        points, ratio_means(result), f"{result.scenario}: ratio to {result.baseline}, pair by pair"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return charts.save(chart, folder / "paired_ratios")
    except OSError as error:
        raise ScenarioError(f"cannot write charts in {folder}: {error.strerror or error}") from error


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
