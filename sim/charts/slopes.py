"""Pair by pair between two or more arms: each pair is one line."""

import altair as alt
import polars as pl

from sim.charts._style import NEUTRAL, PLAIN, headline, require, styled


def slopes(values: pl.DataFrame, title: str, *, y: str) -> alt.LayerChart:
    """One line a pair from arm to arm, and the medians in black: shows whether a mean holds for most pairs.

    ``values`` has columns pair, arm, value; arms stand in order of first appearance.
    """
    require(values, "pair", "arm", "value")
    arms = values["arm"].unique(maintain_order=True).to_list()
    x = alt.X("arm:N", title=None, sort=arms, axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.4))
    up = alt.Y("value:Q", title=y, scale=alt.Scale(zero=False))
    base = alt.Chart(values)
    lines = base.mark_line(color=PLAIN, opacity=0.35).encode(x=x, y=up, detail="pair:N")
    ends = base.mark_circle(color=PLAIN, opacity=0.5, size=22).encode(x=x, y=up)
    middle = base.mark_line(color=NEUTRAL, strokeWidth=3, point={"color": NEUTRAL, "size": 70}).encode(
        x=x, y=alt.Y("median(value):Q", title=y)
    )
    layers = alt.layer(lines, ends, middle)
    subtitle = f"{values['pair'].n_unique()} pairs; black: medians"
    sized = layers.properties(width=max(220, 130 * len(arms)), height=320, title=headline(title, subtitle))
    chart: alt.LayerChart = styled(sized)
    return chart
