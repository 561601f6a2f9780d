"""How long groups take: the whole distribution, with an honest 95th percentile."""

import altair as alt
import polars as pl

from sim.charts._style import WIDTH, by_arm, headline, require, styled


def completion_cdf(curve: pl.DataFrame, p95: pl.DataFrame, title: str) -> alt.LayerChart:
    """Share of groups complete by a time, one step curve an arm, and the interval of each 95th percentile.

    ``curve`` has columns arm, completion_s, share; ``p95`` has arm, value, lo, hi (hi is null where too few groups make
    the slowest one no limit: the bar then ends at the slowest group with an arrow's head).
    """
    require(curve, "arm", "completion_s", "share")
    require(p95, "arm", "value", "lo", "hi")
    colour = by_arm(curve["arm"].unique(maintain_order=True).to_list())
    x = alt.X("completion_s:Q", title="group completion, s", scale=alt.Scale(zero=False))
    steps = (
        alt.Chart(curve)
        .mark_line(interpolate="step-after")
        .encode(x=x, y=alt.Y("share:Q", title="share of groups", axis=alt.Axis(format="%")), color=colour)
    )
    slowest = curve.group_by("arm").agg(slowest=pl.col("completion_s").max())
    bars = p95.join(slowest, on="arm", maintain_order="left").with_columns(
        end=pl.col("hi").fill_null(pl.col("slowest")), is_open=pl.col("hi").is_null()
    )
    base = alt.Chart(bars).encode(y=alt.datum(0.95), color=colour)
    rules = base.mark_rule(strokeWidth=4, opacity=0.6).encode(x=alt.X("lo:Q", title="group completion, s"), x2="end:Q")
    marks = base.mark_point(shape="diamond", filled=True, size=80, opacity=1).encode(x="value:Q")
    heads = (
        base.transform_filter("datum.is_open")
        .mark_point(shape="triangle-right", filled=True, size=90)
        .encode(x="end:Q")
    )
    subtitle = "diamonds: 95th percentile with its 95 % interval by order statistics"
    sized = alt.layer(steps, rules, marks, heads).properties(width=WIDTH, height=300, title=headline(title, subtitle))
    chart: alt.LayerChart = styled(sized)
    return chart
