"""How far predicted steps are from measured ones."""

from collections.abc import Sequence
from typing import cast

import altair as alt
import polars as pl

from sim.charts._style import FONT, NEUTRAL, PLAIN, WIDTH, styled
from sim.charts.paired import Chart


def residuals(phase: Sequence[str], ms: Sequence[float], error: Sequence[float], title: str) -> Chart:
    """Error of each predicted step against its measured time, one panel a kind of step, with the line of no error.

    By step: its kind, its measured time, and predicted over measured less one.
    """
    points = pl.DataFrame({"phase": phase, "ms": ms, "error": error})
    panels = []
    for kind in points["phase"].unique(maintain_order=True):
        own = points.filter(pl.col("phase") == kind)
        dots = (
            alt.Chart(own)
            .mark_circle(size=16, opacity=0.35, color=PLAIN)
            .encode(
                x=alt.X("ms:Q", title="measured, ms", scale=alt.Scale(type="log", nice=False)),
                y=alt.Y("error:Q", title="predicted over measured", axis=alt.Axis(format="+.0%")),
            )
        )
        zero = alt.Chart(pl.DataFrame({"zero": [0.0]})).mark_rule(strokeDash=[5, 4], color=NEUTRAL).encode(y="zero:Q")
        panels.append(
            alt.layer(dots, zero).properties(width=WIDTH, height=180, title=alt.Title(f"{kind} steps", anchor="start"))
        )
    chart = alt.vconcat(*panels, spacing=18, title=alt.Title(title, anchor="start", fontSize=FONT + 2, offset=12))
    return cast(Chart, styled(chart))
