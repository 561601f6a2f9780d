"""What a workload holds: the distribution function of each of its quantities."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import altair as alt
import polars as pl

from sim.charts._style import FONT, PLAIN, WIDTH, styled
from sim.charts.paired import Chart

MOST_POINTS: Final = 500


def shapes(quantities: Mapping[str, Sequence[float]], title: str) -> Chart:
    """Share of values up to each one, one panel a quantity, on a logarithmic axis.

    Values of 0 have no place on it: a curve starts at their share. What does not vary is one point.
    """
    panels = []
    for name, values in quantities.items():
        points = cumulative(values)
        varies = points["value"].n_unique() > 1
        x = alt.X(
            "value:Q",
            title=name,
            scale=alt.Scale(type="log", nice=False) if varies else alt.Scale(),
            axis=alt.Axis(labelExpr="format(datum.value, '.3~s')", labelOverlap="greedy"),
        )
        y = alt.Y("share:Q", title="share up to it", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
        line = alt.Chart(points).mark_line(interpolate="step-after", color=PLAIN, point=not varies).encode(x=x, y=y)
        panels.append(line.properties(width=WIDTH, height=110))
    chart = alt.vconcat(*panels, spacing=18, title=alt.Title(title, anchor="start", fontSize=FONT + 2, offset=12))
    return cast(Chart, styled(chart))


def cumulative(values: Sequence[float]) -> pl.DataFrame:
    """Points of a distribution function above 0, at most about ``MOST_POINTS`` of them, the last one its end."""
    counted = (
        pl.DataFrame({"value": pl.Series(values, dtype=pl.Float64)})
        .group_by("value")
        .len()
        .sort("value")
        .select("value", share=pl.col("len").cum_sum() / pl.col("len").sum())
    )
    above = counted.filter(pl.col("value") > 0)
    if above.is_empty():
        return counted
    return above.gather_every(max(1, above.height // MOST_POINTS)).vstack(above.tail(1)).unique(maintain_order=True)
