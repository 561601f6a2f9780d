"""What all charts share: sizes, colours, axes of ratios, the line of no change.

Marks that carry meaning stand out by 3 : 1 at least from white paper and from ``DARK``'s ground. Inks that cannot do
both have a second colour there, which pages put in their place by a style sheet: the chart itself stays one.
"""

from typing import Any, Final

import altair as alt
import polars as pl

WIDTH = 560
ROW = 44
"""Height of one candidate."""
FONT = 14
"""Of everything that is read, in pixels."""
PLAIN = "#4c78a8"
PALETTE = ("#4c78a8", "#d9730d", "#4a9440", "#d64550", "#a0658f", "#3a9189", "#8a6650", "#a8860b") * 3
BAD, GOOD, NEUTRAL = "#d64550", "#4a9440", "#333333"
UNSURE = "#a8860b"
"""What its interval leaves open."""
OUTSIDE = "#8a8f98"
"""What is predicted outside the region that the cost model was fitted in."""
PAPER, FAINT, FRAME, GRID = "#ffffff", "#555555", "#dddddd", "#eeeeee"
WAITS, AFTER = "#d8d8d8", "#efefef"
"""Time that nobody uses: it recedes into the ground."""
TINT: Final = 0.5
"""Opacity of tiles that are written on, so that their ink and the text on them both stand out."""
DARK: Final = {
    PAPER: "#16181c",
    NEUTRAL: "#d9dce1",
    FAINT: "#aab0b8",
    FRAME: "#4a4f57",
    GRID: "#2b2f36",
    WAITS: "#50565f",
    AFTER: "#31363d",
}
"""What inks become on a dark ground."""
# A logarithmic axis leaves out labels after the first few of a decade unless each is written by an expression.
RATIO_AXIS = alt.Axis(labelExpr="format(datum.value, '.3~g')", labelOverlap="greedy", labelSeparation=4)


def headline(text: str, subtitle: str) -> alt.Title:
    """Title at the left, with a line below that says how to read the marks."""
    return alt.Title(text, subtitle=subtitle, anchor="start", fontSize=FONT + 2, offset=12)


def line_at(value: float, *, colour: str = NEUTRAL) -> alt.Chart:
    """A dashed rule from top to bottom."""
    data = pl.DataFrame({"at": [float(value)]})
    rule: alt.Chart = alt.Chart(data).mark_rule(strokeDash=[5, 4], color=colour).encode(x="at:Q")
    return rule


def styled(chart: Any) -> Any:
    """The look of all charts."""
    lettering: Any = {"labelFontSize": FONT, "titleFontSize": FONT, "labelColor": NEUTRAL, "titleColor": NEUTRAL}
    return chart.configure(
        background=PAPER,
        view=alt.ViewConfig(stroke=FRAME),
        axis=alt.AxisConfig(gridColor=GRID, **lettering),
        legend=alt.LegendConfig(**lettering),
        title=alt.TitleConfig(color=NEUTRAL, subtitleColor=FAINT, fontSize=FONT, subtitleFontSize=FONT),
        text=alt.MarkConfig(color=NEUTRAL, fontSize=FONT),
    )


def number_scale(*, log: bool) -> alt.Scale:
    """Of a swept or tuned field, from its least to its most."""
    return alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=False)


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
