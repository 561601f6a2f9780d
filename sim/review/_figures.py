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
from sim.report.numbers import number
from sim.report.pictures import ratio_means, ratio_points
from sim.report.region import outside_by_pair
from sim.review._assumptions import regions
from sim.review._gather import Evidence
from sim.review._judge import MOST_OUTSIDE
from sim.review.sensitivity import Grid, Sensitivity

MOST_ENGINES = 4
"""Engines of a timeline in the page; ``windtunnel timeline`` has more of them, and a trace of all."""
MOST_BARS = 12
"""Assumptions in the tornado; table 9.1 has all."""
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
    if ev.sensitivity is not None and ev.sensitivity.bars and ev.primary.paired.ratio is not None:
        drawn["tornado"] = _tornado(ev, ev.sensitivity, ev.primary.paired.ratio)
    if ev.sensitivity is not None and ev.sensitivity.grid is not None:
        drawn["decision_map"] = _decision_map(ev, ev.sensitivity.grid)
    return drawn


def _tornado(ev: Evidence, found: Sensitivity, centre: float) -> Figure:
    rows = [
        {
            "assumption": f"{bar.knob.id} {bar.knob.name}",
            "value": end.value,
            "ratio": end.ratio.ratio,
            "lo": end.ratio.lo,
            "hi": end.ratio.hi,
            "decision": end.decision,
            "outside": _is_beyond(ev, end.outside),
            "outcome": charts.FLIPS if end.flips else charts.OPEN if end.decision == "undecided" else charts.SAME,
        }
        for bar in found.bars[:MOST_BARS]
        for end in bar.ends
        if end.ratio.ratio is not None
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None, schema_overrides={"lo": pl.Float64, "hi": pl.Float64})
    worth = 1 / (1 + ev.lines.interest) if ev.is_lower_better else 1 + ev.lines.interest
    more = f", the widest {MOST_BARS} of {len(found.bars)}" if len(found.bars) > MOST_BARS else ""
    title = f"{ev.primary.metric}, {ev.candidate} over {ev.baseline}, by assumption{more} (simulated)"
    says = "; ".join(f"{bar.knob.name} {end.value}: {end.ratio.ratio:.3f}" for bar, end in found.flips[:MOST_BARS])
    return Figure(
        charts.tornado(frame, title, centre=centre, lines=[1.0, worth]),
        frame,
        f"Ratio with each assumption at its ends, from {centre:.3f} as things stand. Decision flips: {says or 'none'}.",
    )


def _decision_map(ev: Evidence, grid: Grid) -> Figure:
    rows = [
        {
            "x": tile.levels[0],
            "y": tile.levels[1],
            "ratio": tile.ratio.ratio,
            "decision": tile.decision,
            "outside": _is_beyond(ev, tile.outside),
        }
        for tile in grid.tiles
        if tile.ratio.ratio is not None
    ]
    frame = pl.DataFrame(rows)
    one, other = grid.knobs
    title = f"{ev.candidate} over {ev.baseline}, the two widest assumptions together (simulated)"
    decided = frame.group_by("decision", maintain_order=True).len().rows()
    return Figure(
        charts.decision_map(frame, title, x=one.name, y=other.name),
        frame,
        f"Decision over {one.name} and {other.name}: {', '.join(f'{count} x {name}' for name, count in decided)}.",
    )


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
    changes = timeline.marks(tables, 0)
    shown = timeline.telling(bins, MOST_ENGINES, changes)
    count = bins["engine"].n_unique()
    own = bins.filter(pl.col("engine").is_in([*shown]))
    of = f", {len(shown)} of {count} engines" if count > len(shown) else ""
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


def _is_beyond(ev: Evidence, outside: float | None) -> bool:
    """Of a run elsewhere; of one that is as things stand where its own share is not known."""
    if outside is None:
        return any(_is_far(ev, arm) for arm in (ev.baseline, ev.candidate))
    return outside > MOST_OUTSIDE


def _is_far(ev: Evidence, arm: str) -> bool:
    return 1 - ev.coverage[arm].inside_share > MOST_OUTSIDE
