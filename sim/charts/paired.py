"""Ratios pair by pair: every pair as a dot, with the mean and its interval."""

from typing import Any, cast

import altair as alt
import polars as pl

from sim.charts._style import PALETTE, PLAIN, RATIO_AXIS, ROW, WIDTH

Chart = alt.VConcatChart
NO_CLASS = "no classes"


def paired_ratios(points: pl.DataFrame, means: pl.DataFrame, title: str) -> Chart:
    """Ratio to the baseline of every pair as a dot, with geometric mean, its 95 % interval and the line of no change.

    One panel a metric, on a logarithmic axis, so that a half and a double are equally far from 1. Dots are coloured by
    placement class where there are classes. ``points`` has columns title, candidate, pair, ratio, class; ``means`` has
    title, candidate, ratio, lo, hi.
    """
    colours = _colours(points)
    spread = points.with_columns(pl.col("class").fill_null(NO_CLASS), jitter=(pl.col("pair") * 0.618034) % 1)
    panels = [
        _panel(spread.filter(pl.col("title") == name), means.filter(pl.col("title") == name), name, colours)
        for name in points["title"].unique(maintain_order=True)
    ]
    header = alt.Title(
        title, subtitle=_legend_line(points), anchor="start", fontSize=15, subtitleColor="#555", offset=12
    )
    chart: Chart = alt.vconcat(*panels, spacing=18, title=header).resolve_scale(color="shared", x="independent")
    styled = chart.configure(
        view=alt.ViewConfig(stroke="#ddd"), axis=alt.AxisConfig(labelFontSize=12, titleFontSize=12, gridColor="#eee")
    )
    return cast(Chart, styled)


def _legend_line(points: pl.DataFrame) -> str:
    return f"dots: {points['pair'].n_unique()} pairs; black: geometric mean with 95 % interval; dashed: no change"


def _panel(points: pl.DataFrame, means: pl.DataFrame, title: str, colours: Any) -> alt.LayerChart | alt.FacetChart:
    candidates = points["candidate"].unique(maintain_order=True).to_list()
    y = alt.Y("candidate:N", title=None, sort=candidates, axis=alt.Axis(labelLimit=180, grid=True, tickBand="extent"))
    x = alt.X("ratio:Q", title="ratio to baseline", axis=RATIO_AXIS, scale=_scale(points, means))
    dots = (
        alt.Chart(points)
        .mark_circle(size=26, opacity=0.5)
        .encode(x=x, y=y, yOffset=alt.YOffset("jitter:Q", scale=alt.Scale(domain=[-0.25, 1.25])), color=colours)
    )
    one = alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(strokeDash=[5, 4], color="#333").encode(x="one:Q")
    bars = alt.Chart(means).mark_rule(strokeWidth=3, color="black").encode(x="lo:Q", x2="hi:Q", y=y)
    centre = (
        alt.Chart(means).mark_point(shape="diamond", size=90, filled=True, color="black", opacity=1).encode(x=x, y=y)
    )
    label = (
        alt.Chart(_labelled(means))
        .mark_text(align="left", fontSize=12)
        .encode(x=alt.value(WIDTH + 8), y=y, text="text:N")
    )
    layers = alt.layer(one, dots, bars, centre, label)
    return layers.properties(width=WIDTH, height=ROW * len(candidates), title=alt.Title(title, anchor="start"))


def _colours(points: pl.DataFrame) -> Any:
    classes = points["class"].drop_nulls().unique().sort().to_list()
    if not classes:
        return alt.value(PLAIN)
    names, colours = [*classes], [*PALETTE[: len(classes)]]
    if points["class"].has_nulls():
        names, colours = [*names, NO_CLASS], [*colours, "#999999"]
    return alt.Color("class:N", title="keys per engine", scale=alt.Scale(domain=names, range=colours))


def _scale(points: pl.DataFrame, means: pl.DataFrame) -> alt.Scale:
    ends = [points["ratio"].min(), points["ratio"].max(), means["lo"].min(), means["hi"].max(), 1.0]
    known = [float(end) for end in ends if isinstance(end, float)]
    return alt.Scale(type="log", domain=[min(known) * 0.97, max(known) * 1.03], nice=False)


def _labelled(means: pl.DataFrame) -> pl.DataFrame:
    texts = [
        f"{ratio:.3f}" if lo is None or hi is None else f"{ratio:.3f} [{lo:.3f}, {hi:.3f}]"
        for ratio, lo, hi in means.select("ratio", "lo", "hi").iter_rows()
    ]
    return means.with_columns(text=pl.Series(texts, dtype=pl.String))
