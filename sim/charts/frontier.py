"""What a policy trades: prefix hits against balance."""

import altair as alt
import polars as pl

from sim.charts._style import NEUTRAL, PLAIN, WIDTH, headline, require, styled

MOST_NAMES = 12
"""Points that are all named; of more only those that no other beats are, and the others when pointed at."""


def frontier(points: pl.DataFrame, title: str) -> alt.LayerChart:
    """One point a policy, prefix hits to the right and imbalance up; a line joins those that no other beats in both.

    ``points`` has columns arm, hit_rate (share), imbalance (largest over mean), on_frontier (see ``pareto``).
    """
    require(points, "arm", "hit_rate", "imbalance", "on_frontier")
    x = alt.X("hit_rate:Q", title="prefix hit rate", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False, padding=30))
    y = alt.Y("imbalance:Q", title="load, largest over mean", scale=alt.Scale(zero=False, padding=20))
    base = alt.Chart(points).encode(x=x, y=y)
    line = base.transform_filter("datum.on_frontier").mark_line(color=NEUTRAL, strokeDash=[5, 4], opacity=0.6)
    dots = base.mark_circle(size=90, color=PLAIN).encode(
        opacity=alt.condition(alt.datum.on_frontier, alt.value(1.0), alt.value(0.4)),
        tooltip=["arm:N", "hit_rate:Q", "imbalance:Q"],
    )
    named = base if points.height <= MOST_NAMES else base.transform_filter("datum.on_frontier")
    names = named.mark_text(align="left", dx=8, dy=-6).encode(text="arm:N")
    subtitle = "right and low is better; dashed: policies that no other beats in both"
    sized = alt.layer(line, dots, names).properties(width=WIDTH, height=340, title=headline(title, subtitle))
    chart: alt.LayerChart = styled(sized)
    return chart


def pareto(points: pl.DataFrame) -> pl.DataFrame:
    """The points with ``on_frontier``: no other has as many hits and as little imbalance, and more or less."""
    rows = points.select("hit_rate", "imbalance").rows()
    kept = [not any(h >= hit and i <= load and (h > hit or i < load) for h, i in rows) for hit, load in rows]
    return points.with_columns(on_frontier=pl.Series(kept, dtype=pl.Boolean))
