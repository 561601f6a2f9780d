"""How long groups take: the whole distribution, with an honest 95th percentile."""

from collections.abc import Collection
from typing import Any

import altair as alt
import polars as pl

from sim.charts._style import OUTSIDE, PALETTE, WIDTH, headline, require, styled


def completion_cdf(
    curve: pl.DataFrame, p95: pl.DataFrame, title: str, *, outside: Collection[str] = ()
) -> alt.LayerChart:
    """Share of groups complete by a time, one step curve an arm, and the interval of each 95th percentile.

    ``curve`` has columns arm, completion_s, share; ``p95`` has arm, value, lo, hi (hi is null where too few groups make
    the slowest one no limit: the bar then ends at the slowest group with an arrow's head). Arms in ``outside`` are
    grey: they are predicted outside the calibrated region.
    """
    require(curve, "arm", "completion_s", "share")
    require(p95, "arm", "value", "lo", "hi")
    arms = curve["arm"].unique(maintain_order=True).to_list()
    legend = alt.Legend(orient="top", labelLimit=240)
    inks = [OUTSIDE if arm in outside else ink for arm, ink in zip(arms, PALETTE, strict=False)]
    colour = alt.Color("arm:N", title=None, scale=alt.Scale(domain=arms, range=inks), legend=legend)
    # Two grey curves are told apart by their strokes, as are any two in print.
    strokes = [[1, 0] if rank == 0 else [8, 3 * rank] for rank in range(len(arms))]
    dash = alt.StrokeDash("arm:N", title=None, scale=alt.Scale(domain=arms, range=strokes), legend=legend)
    x = alt.X("completion_s:Q", title="group completion, s", scale=alt.Scale(zero=False))
    y = alt.Y("share:Q", title="share of groups", axis=alt.Axis(format="%"))
    told: list[Any] = ["arm", alt.Tooltip("completion_s:Q", format=".4g"), alt.Tooltip("share:Q", format=".1%")]
    lines = alt.Chart(curve).encode(x=x, y=y, color=colour)
    steps = lines.mark_line(interpolate="step-after").encode(strokeDash=dash)
    points = lines.mark_circle(size=40, opacity=0).encode(tooltip=told)  # a place to point at
    slowest = curve.group_by("arm").agg(slowest=pl.col("completion_s").max())
    bars = p95.join(slowest, on="arm", maintain_order="left").with_columns(
        end=pl.col("hi").fill_null(pl.col("slowest")), is_open=pl.col("hi").is_null()
    )
    told_p95: list[Any] = ["arm", *(alt.Tooltip(f"{name}:Q", format=".4g") for name in ("value", "lo", "hi"))]
    base = alt.Chart(bars).encode(y=alt.datum(0.95), color=colour, tooltip=told_p95)
    rules = base.mark_rule(strokeWidth=4, opacity=0.6).encode(x=alt.X("lo:Q", title="group completion, s"), x2="end:Q")
    marks = base.mark_point(shape="diamond", filled=True, size=80, opacity=1).encode(x="value:Q")
    layers: list[Any] = [steps, points, rules, marks]
    if bars["is_open"].any():
        heads = base.transform_filter("datum.is_open").mark_point(shape="triangle-right", filled=True, size=90)
        layers.append(heads.encode(x="end:Q"))
    subtitle = "diamonds: 95th percentile with its 95 % interval by order statistics"
    subtitle += "; grey: outside the calibrated region" if set(arms) & set(outside) else ""
    sized = alt.layer(*layers).properties(width=WIDTH, height=300, title=headline(title, subtitle))
    chart: alt.LayerChart = styled(sized)
    return chart
