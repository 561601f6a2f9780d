"""Ratios pair by pair: every pair as a dot, with the mean and its interval."""

from typing import Any, cast

import altair as alt
import polars as pl

from sim.charts._style import NEUTRAL, OUTSIDE, PALETTE, PLAIN, RATIO_AXIS, ROW, WIDTH, headline, styled

Chart = alt.VConcatChart
NO_CLASS = "no classes"


def paired_ratios(points: pl.DataFrame, means: pl.DataFrame, title: str) -> Chart:
    """Ratio to the baseline of every pair as a dot, with geometric mean, its 95 % interval and the line of no change.

    One panel a metric, on a logarithmic axis, so that a half and a double are equally far from 1. Dots are coloured by
    placement class where there are classes. ``points`` has columns title, candidate, pair, ratio, class; ``means`` has
    title, candidate, ratio, lo, hi. Either may have ``outside``: what is outside the calibrated region is grey.
    """
    spread = points.with_columns(pl.col("class").fill_null(NO_CLASS), jitter=(pl.col("pair") * 0.618034) % 1)
    spread, means = (
        frame if "outside" in frame.columns else frame.with_columns(outside=pl.lit(value=False))
        for frame in (spread, means)
    )
    colours = _colours(points)
    panels = [
        _panel(spread.filter(pl.col("title") == name), means.filter(pl.col("title") == name), colours, f"dots_{rank}")
        for rank, name in enumerate(points["title"].unique(maintain_order=True))
    ]
    header = headline(title, _legend_line(spread))
    # To point at a pair shows it in every panel.
    pointed = {"type": "point", "fields": ["pair"], "on": "pointerover", "clear": "pointerout"}
    views = [f"dots_{rank}" for rank in range(len(panels))]
    hover = alt.TopLevelSelectionParameter(name="hover", select=pointed, views=views)
    chart = styled(alt.vconcat(*panels, spacing=18, title=header).resolve_scale(color="shared", x="independent"))
    chart.params = [hover]
    return cast(Chart, chart)


def _legend_line(points: pl.DataFrame) -> str:
    grey = "; grey: outside the calibrated region" if points["outside"].any() else ""
    return (
        f"dots: {points['pair'].n_unique()} pairs; diamonds: geometric mean with 95 % interval; dashed: no change{grey}"
    )


def _panel(points: pl.DataFrame, means: pl.DataFrame, colours: Any, view: str) -> alt.LayerChart | alt.FacetChart:
    candidates = points["candidate"].unique(maintain_order=True).to_list()
    title, labelled = str(points["title"][0]), _labelled(means)
    is_alone = len(candidates) == 1  # then the panel's title has room for what a row would say
    axis = alt.Axis(labels=not is_alone, ticks=not is_alone, labelLimit=180, grid=True, tickBand="extent")
    y = alt.Y("candidate:N", title=None, sort=candidates, axis=axis)
    x = alt.X("ratio:Q", title="ratio to baseline", axis=RATIO_AXIS, scale=_scale(points, means))
    offset = alt.YOffset("jitter:Q", scale=alt.Scale(domain=[-0.25, 1.25]))
    dots = (
        alt.Chart(points, name=view)
        .mark_circle(opacity=0.8)
        .encode(
            x=x,
            y=y,
            yOffset=offset,
            color=alt.condition("datum.outside", alt.value(OUTSIDE), colours),
            size=alt.SizeValue(26, condition={"param": "hover", "empty": False, "value": 160}),
            tooltip=["candidate", "pair", alt.Tooltip("ratio:Q", format=".4f"), "class", "outside"],
        )
    )
    one = alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(strokeDash=[5, 4], color=NEUTRAL).encode(x="one:Q")
    ink = alt.condition("datum.outside", alt.value(OUTSIDE), alt.value(NEUTRAL))
    told: list[Any] = ["candidate", *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("ratio", "lo", "hi"))]
    bars = alt.Chart(means).mark_rule(strokeWidth=3).encode(x="lo:Q", x2="hi:Q", y=y, color=ink, tooltip=told)
    centre = (
        alt.Chart(means)
        .mark_point(shape="diamond", size=90, filled=True, opacity=1)
        .encode(x=x, y=y, color=ink, tooltip=told)
    )
    label = (
        alt.Chart(labelled)
        .mark_text(align="left", color=NEUTRAL)
        .encode(x=alt.value(alt.expr("width + 8")), y=y, text="text:N")
    )
    layers = alt.layer(one, dots, bars, centre, *([] if is_alone else [label]))
    said = labelled["text"][0] if is_alone and labelled.height else ""
    return layers.properties(
        width=WIDTH, height=ROW * len(candidates), title=alt.Title(title, subtitle=said, anchor="start")
    )


def _colours(points: pl.DataFrame) -> Any:
    classes = points["class"].drop_nulls().unique().sort().to_list()
    if not classes:
        return alt.value(PLAIN)
    names, colours = [*classes], [*PALETTE[: len(classes)]]
    if points["class"].has_nulls():
        names, colours = [*names, NO_CLASS], [*colours, NEUTRAL]
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
