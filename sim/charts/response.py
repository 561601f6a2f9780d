"""The response of a metric to a tuned parameter: measured points with intervals, the fitted curve, the optimum."""

import altair as alt
import polars as pl

from sim.charts._style import GOOD, NEUTRAL, PLAIN, WIDTH, headline, number_scale, require, styled


def response(
    points: pl.DataFrame,
    title: str,
    *,
    x: str,
    optimum: float,
    lo: float,
    hi: float,
    log_x: bool = False,
) -> alt.LayerChart:
    """Ratio to the baseline over one parameter; the green band is where the optimum lies, 95 %.

    ``points`` has columns value, pairs, ratio, lo, hi, fitted, fitted_lo, fitted_hi (lo and hi may be null), one row a
    measured point. With several parameters the others differ from point to point, and the curve is left out.
    """
    require(points, "value", "pairs", "ratio", "lo", "hi", "fitted", "fitted_lo", "fitted_hi")
    scale = number_scale(log=log_x)
    across = alt.X("value:Q", title=x, scale=scale)
    up = alt.Y("ratio:Q", title="ratio to baseline", scale=alt.Scale(zero=False))
    base = alt.Chart(points)
    where = alt.Chart(pl.DataFrame({"lo": [float(lo)], "hi": [float(hi)], "optimum": [float(optimum)]}))
    layers = [
        where.mark_rect(opacity=0.15, color=GOOD).encode(x=alt.X("lo:Q", scale=scale), x2="hi:Q"),
        where.mark_rule(color=GOOD, strokeWidth=2).encode(x=alt.X("optimum:Q", scale=scale)),
        alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(strokeDash=[5, 4], color=NEUTRAL).encode(y="one:Q"),
    ]
    if points["value"].is_unique().all():
        layers.append(base.mark_area(opacity=0.2, color=PLAIN).encode(x=across, y="fitted_lo:Q", y2="fitted_hi:Q"))
        layers.append(base.mark_line(color=PLAIN).encode(x=across, y="fitted:Q"))
    layers.append(base.mark_rule(color=NEUTRAL).encode(x=across, y="lo:Q", y2="hi:Q"))
    layers.append(
        base.mark_point(filled=True, opacity=1, color=NEUTRAL).encode(
            x=across, y=up, size=alt.Size("pairs:Q", legend=None, scale=alt.Scale(range=[30, 160])), tooltip=["pairs:Q"]
        )
    )
    subtitle = "dots: measured, 95 %, larger with more pairs; curve: fitted; green: optimum and where it may lie"
    chart: alt.LayerChart = styled(
        alt.layer(*layers).properties(width=WIDTH, height=300, title=headline(title, subtitle))
    )
    return chart
