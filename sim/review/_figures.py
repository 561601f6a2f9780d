"""The figures of a review: a chart, the table behind it, and what it shows in words for who cannot see it.

What is predicted outside the calibrated region is grey: a pair or an arm with more than 20 % of its busy time outside,
and the same share of a bin of a timeline.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from sim import charts
from sim.report import timeline
from sim.report.chart_tables import completion_tables
from sim.report.pictures import ratio_means, ratio_points
from sim.report.region import outside_by_pair
from sim.report.table import number
from sim.review._gather import Evidence, regions
from sim.review._judge import MOST_OUTSIDE

MOST_ENGINES = 4
"""Engines of a timeline in the page; ``windtunnel timeline`` has more of them, and a trace of all."""
DIGITS = 6
"""Of a number in the table behind a figure."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, and what else a reader needs of it."""

    chart: Any
    data: pl.DataFrame
    """Every number that is drawn."""
    says: str
    """What there is to see, in words."""

    @property
    def table(self) -> pl.DataFrame:
        """The data as they are shown and copied."""
        numbers = pl.selectors.float().round_sig_figs(DIGITS)
        return self.data.with_columns(numbers)


def figures(ev: Evidence) -> dict[str, Figure]:
    """By name; those that have nothing to draw are absent."""
    drawn: dict[str, Figure] = {}
    if (paired := _paired(ev)) is not None:
        drawn["paired_ratios"] = paired
    if (completed := _completion(ev)) is not None:
        drawn["group_completion"] = completed
    for which, name in (("baseline", ev.baseline), ("candidate", ev.candidate)):
        drawn[f"timeline_{which}"] = _timeline(ev, name)
    return drawn


def _paired(ev: Evidence) -> Figure | None:
    points = ratio_points(ev.result)
    if points.is_empty():
        return None
    points, means = (f.filter(f["candidate"] == ev.candidate) for f in (points, ratio_means(ev.result)))
    if means.is_empty():
        return None
    far = pl.concat([_outside(ev, arm) for arm in (ev.baseline, ev.candidate)]).group_by("pair").agg(pl.max("outside"))
    points = points.join(far, on="pair", how="left", maintain_order="left")
    points = points.with_columns(outside=pl.col("outside").fill_null(0.0) > MOST_OUTSIDE)
    means = means.with_columns(outside=pl.lit(any(_is_far(ev, arm) for arm in (ev.baseline, ev.candidate))))
    title = f"{ev.candidate} over {ev.baseline}, pair by pair (simulated)"
    says = "; ".join(f"{row['title']} {row['ratio']:.3f}" for row in means.iter_rows(named=True))
    data = points.drop("title").with_columns(points["title"].alias("metric"))
    order = ["metric", *(name for name in data.columns if name != "metric")]
    return Figure(
        charts.paired_ratios(points, means, title),
        data.select(order),
        f"Ratio of {ev.candidate} over {ev.baseline} by pair; geometric means: {says}.",
    )


def _completion(ev: Evidence) -> Figure | None:
    completed = completion_tables(ev.found.baseline, ev.found.candidate)
    if completed is None:
        return None
    curve, p95 = completed
    far = [arm for arm in (ev.baseline, ev.candidate) if _is_far(ev, arm)]
    chart = charts.completion_cdf(curve, p95, "Group completion (simulated)", outside=far)
    says = "; ".join(f"{row['arm']} {number(row['value'])} s" for row in p95.iter_rows(named=True))
    return Figure(chart, curve, f"Share of groups complete by a time, by arm; 95th percentiles: {says}.")


def _timeline(ev: Evidence, arm: str) -> Figure:
    tables = ev.tables[arm]
    bins = timeline.binned(tables, 0, regions=regions(ev.cell(arm)))
    shown = timeline.telling(bins, MOST_ENGINES)
    count = bins["engine"].n_unique()
    own = bins.filter(pl.col("engine").is_in([*shown]))
    of = f", {len(shown)} of {count} engines" if count > len(shown) else ""
    changes = timeline.marks(tables, 0)
    says = "; ".join(_engine(own, engine, role) for engine, role in shown.items())
    marked = ", ".join(f"{row['mark']} at {number(row['at_s'])} s" for row in changes.head(8).iter_rows(named=True))
    return Figure(
        charts.timeline(own, changes, f"Arm {arm}, pair 0{of} (simulated)", names=shown),
        own,
        f"What engines of arm {arm} did over time. {says}. Changes: {marked or 'none'}.",
    )


def _engine(bins: pl.DataFrame, engine: int, role: str) -> str:
    own = bins.filter(pl.col("engine") == engine)
    spent = {name: float(own[name].to_numpy().sum()) for name in charts.COLOURS}
    total = sum(spent.values())
    parts = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in spent.items() if seconds >= 0.005 * total)
    return f"engine {engine}{f' ({role})' if role else ''}: {parts}"


def _outside(ev: Evidence, arm: str) -> pl.DataFrame:
    return outside_by_pair(ev.tables[arm].engines, regions(ev.cell(arm)))


def _is_far(ev: Evidence, arm: str) -> bool:
    return 1 - ev.coverage[arm].inside_share > MOST_OUTSIDE
