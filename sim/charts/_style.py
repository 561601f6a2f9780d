"""What all charts share: sizes, colours, axes of ratios, the line of no change."""

from typing import Any

import altair as alt
import polars as pl

WIDTH = 560
ROW = 44
"""Height of one candidate."""
PLAIN = "#4c78a8"
PALETTE = ("#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#b279a2", "#9d755d", "#eeca3b") * 3
BAD, GOOD, NEUTRAL = "#e45756", "#54a24b", "#333"
# A logarithmic axis leaves out labels after the first few of a decade unless each is written by an expression.
RATIO_AXIS = alt.Axis(labelExpr="format(datum.value, '.3~g')", labelOverlap="greedy")


def headline(text: str, subtitle: str) -> alt.Title:
    """Title at the left, with a line below that says how to read the marks."""
    return alt.Title(text, subtitle=subtitle, subtitleColor="#555", anchor="start", fontSize=15, offset=12)


def line_at(value: float, *, colour: str = NEUTRAL) -> alt.Chart:
    """A dashed rule from top to bottom."""
    data = pl.DataFrame({"at": [float(value)]})
    rule: alt.Chart = alt.Chart(data).mark_rule(strokeDash=[5, 4], color=colour).encode(x="at:Q")
    return rule


def styled(chart: Any) -> Any:
    """The look of all charts."""
    return chart.configure(
        view=alt.ViewConfig(stroke="#ddd"), axis=alt.AxisConfig(labelFontSize=12, titleFontSize=12, gridColor="#eee")
    )


def by_arm(arms: list[str]) -> alt.Color:
    """Colours of arms in their order."""
    scale = alt.Scale(domain=arms, range=[*PALETTE[: len(arms)]])
    return alt.Color("arm:N", title=None, scale=scale, legend=alt.Legend(orient="top", labelLimit=240))


def require(table: pl.DataFrame, *columns: str) -> None:
    """Refuse a table that lacks a column, by name, before altair draws something else from it."""
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ValueError(f"the table has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    if table.is_empty():
        raise ValueError("the table has no rows: there is nothing to draw")
