"""Cells of a sweep: the effect in each, a metric over a swept field, and who wins where."""

from typing import Any

import altair as alt
import polars as pl

from sim.charts._style import (
    BAD,
    GOOD,
    NEUTRAL,
    PALETTE,
    PAPER,
    RATIO_AXIS,
    TINT,
    WIDTH,
    by_arm,
    headline,
    line_at,
    number_scale,
    require,
    styled,
)

HATCH = "M-1,0.2L-0.2,1M-1,-0.6L0.6,1M-0.6,-1L1,0.6M0.2,-1L1,-0.2"
"""Four strokes across a square of side 2."""
TIE = "not separable"


def ratio_by_cell(
    cells: pl.DataFrame, title: str, *, harm: float = 0.97, interest: float = 1.05, higher_is_better: bool = True
) -> alt.LayerChart:
    """Paired ratio with its interval, one row a cell and candidate, against the lines of harm and of interest.

    ``cells`` has columns cell, candidate, ratio, lo, hi (lo and hi may be null). Where lower is better, ``harm`` and
    ``interest`` are mirrored: 1 / harm and 1 / interest.
    """
    require(cells, "cell", "candidate", "ratio", "lo", "hi")
    lines = (harm, interest) if higher_is_better else (1 / harm, 1 / interest)
    names, candidates = (cells[each].unique(maintain_order=True).to_list() for each in ("cell", "candidate"))
    known = [value for name in ("ratio", "lo", "hi") for value in cells[name].drop_nulls()] + [*lines, 1.0]
    scale = alt.Scale(type="log", domain=[min(known) * 0.98, max(known) * 1.02], nice=False)
    y = alt.Y("cell:N", title=None, sort=names, axis=alt.Axis(labelLimit=260, grid=True, tickBand="extent"))
    offset = alt.YOffset("candidate:N", sort=candidates)
    colour = alt.Color(
        "candidate:N", title=None, scale=alt.Scale(domain=candidates, range=[*PALETTE[: len(candidates)]])
    )
    x = alt.X("ratio:Q", title="ratio to baseline", axis=RATIO_AXIS, scale=scale)
    base = alt.Chart(cells)
    bars = base.mark_rule(strokeWidth=3).encode(
        x=alt.X("lo:Q", scale=scale), x2="hi:Q", y=y, yOffset=offset, color=colour
    )
    dots = base.mark_point(shape="diamond", size=90, filled=True, opacity=1).encode(
        x=x, y=y, yOffset=offset, color=colour
    )
    harmed, wanted = line_at(lines[0], colour=BAD), line_at(lines[1], colour=GOOD)
    layers = alt.layer(line_at(1.0), harmed, wanted, bars, dots)
    subtitle = f"diamonds: geometric mean with 95 % interval; red: harm {lines[0]:.3g}; green: interest {lines[1]:.3g}"
    height = 22 * len(names) * max(1, len(candidates)) + 10
    chart: alt.LayerChart = styled(layers.properties(width=WIDTH, height=height, title=headline(title, subtitle)))
    return chart


def metric_by_load(points: pl.DataFrame, title: str, *, x: str, y: str, log_x: bool = False) -> alt.LayerChart:
    """A metric over a swept field, one line an arm, with its interval; measured points are hollow squares.

    ``points`` has columns load, arm, mean, lo, hi (may be null) and source (``simulated`` or ``measured``).
    """
    require(points, "load", "arm", "mean", "lo", "hi", "source")
    colour = by_arm(points["arm"].unique(maintain_order=True).to_list())
    across = alt.X("load:Q", title=x, scale=number_scale(log=log_x))
    up = alt.Y("mean:Q", title=y, scale=alt.Scale(zero=False))
    base = alt.Chart(points)
    simulated = base.transform_filter(alt.datum.source == "simulated")
    band = simulated.mark_area(opacity=0.2).encode(x=across, y=alt.Y("lo:Q", title=y), y2="hi:Q", color=colour)
    line = simulated.mark_line().encode(x=across, y=up, color=colour)
    dots = base.mark_point(size=50).encode(
        x=across,
        y=up,
        color=colour,
        shape=alt.Shape(
            "source:N", title=None, scale=alt.Scale(domain=["simulated", "measured"], range=["circle", "square"])
        ),
    )
    layers = alt.layer(band, line, dots).properties(width=WIDTH, height=300, title=headline(title, "bands: 95 %"))
    chart: alt.LayerChart = styled(layers)
    return chart


def winner_map(cells: pl.DataFrame, title: str, *, x: str, y: str) -> alt.LayerChart:
    """The winning arm of each cell over two swept fields, with its lead; hatched where the arms are not separable.

    ``cells`` has columns x, y, winner, ratio (winner over the next best) and separable (true or false).
    """
    require(cells, "x", "y", "winner", "ratio", "separable")
    arms = cells["winner"].unique(maintain_order=True).to_list()
    across: Any = alt.X("x:O", title=x, sort=cells["x"].unique().sort().to_list(), axis=alt.Axis(labelAngle=0))
    up: Any = alt.Y("y:O", title=y, sort=cells["y"].unique().sort(descending=True).to_list())
    side = 56
    base = alt.Chart(cells).encode(x=across, y=up)
    tiles = base.mark_rect(stroke=PAPER).encode(
        color=alt.Color("winner:N", title="winner", scale=alt.Scale(domain=arms, range=[*PALETTE[: len(arms)]])),
        opacity=alt.condition(alt.datum.separable, alt.value(TINT), alt.value(TINT / 2)),
    )
    hatched = base.transform_filter("!datum.separable").mark_point(
        shape=HATCH, size=0.72 * side**2, stroke=NEUTRAL, strokeWidth=1.2, opacity=0.8
    )
    lead = base.mark_text().encode(text=alt.Text("ratio:Q", format=".3f"))
    size = {"width": side * cells["x"].n_unique(), "height": side * cells["y"].n_unique()}
    subtitle = f"number: winner over the next best; hatched: {TIE}"
    chart: alt.LayerChart = styled(alt.layer(tiles, hatched, lead).properties(**size, title=headline(title, subtitle)))
    return chart
