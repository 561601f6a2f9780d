"""What a ratio does when assumptions are otherwise: a bar for each, and a map of the two that matter most."""

from typing import Any, Final

import altair as alt
import polars as pl

from sim.charts._style import (
    BAD,
    GOOD,
    NEUTRAL,
    OUTSIDE,
    PAPER,
    PLAIN,
    RATIO_AXIS,
    TINT,
    UNSURE,
    WIDTH,
    headline,
    line_at,
    require,
    styled,
)

SAME, FLIPS, OPEN = "same decision", "decision flips", "undecided"
_COLOURS: Final = {SAME: PLAIN, FLIPS: BAD, OPEN: UNSURE}
DECISIONS: Final = {"RUN": GOOD, "DO NOT RUN": BAD, OPEN: UNSURE}
_BEYOND: Final = "; grey: outside the calibrated region"
_CUT: Final = "; cut at the edge where they reach far beyond the bars"
REACH: Final = 1.5
"""Factor beyond the bars up to which their intervals are shown: few pairs can make one very wide."""
_BAR: Final = 26
"""Height of one end, with room for its value."""


def tornado(bars: pl.DataFrame, title: str, *, centre: float, lines: list[float]) -> alt.LayerChart:
    """A bar an end of an assumption, from the ratio as things stand to the one there, with its 95 % interval.

    ``bars`` has columns assumption (widest first), value (the end, for reading), ratio, lo, hi (may be null) and
    outcome: ``same decision``, ``decision flips`` or ``undecided``; it may have ``outside``: what is outside the
    calibrated region is grey. ``lines`` are ratios to mark, 1 and the smallest effect of interest.
    """
    require(bars, "assumption", "value", "ratio", "lo", "hi", "outcome")
    names = bars["assumption"].unique(maintain_order=True).to_list()
    # Ends stand one below the other, so that two on the same side do not hide each other.
    drawn = _marked(bars).with_columns(centre=pl.lit(centre), place=pl.int_range(pl.len()).over("assumption"))
    most = int(drawn["place"].to_numpy().max()) + 1
    known = [*bars["ratio"].drop_nulls(), centre, *lines]
    least, farthest = min([*bars["lo"].drop_nulls(), *known]), max([*bars["hi"].drop_nulls(), *known])
    low, high = max(least, min(known) / REACH), min(farthest, max(known) * REACH)
    scale = alt.Scale(type="log", domain=[low * 0.99, high * 1.01], nice=False)
    y = alt.Y("assumption:N", title=None, sort=names, axis=alt.Axis(labelLimit=320, grid=True, tickBand="extent"))
    offset = alt.YOffset("place:O", sort=list(range(most)))
    colour = alt.Color(
        "outcome:N",
        title=None,
        scale=alt.Scale(domain=[*_COLOURS], range=[*_COLOURS.values()]),
        legend=alt.Legend(orient="top"),
    )
    base = alt.Chart(drawn)
    x = alt.X("ratio:Q", title="ratio to baseline", axis=RATIO_AXIS, scale=scale)
    told: list[Any] = [
        "assumption",
        "value",
        *(alt.Tooltip(f"{each}:Q", format=".4f") for each in ("ratio", "lo", "hi")),
    ]
    rods = base.mark_bar(height=12).encode(
        x=x, x2="centre:Q", y=y, yOffset=offset, color=_grey(colour), tooltip=[*told, "outcome", "outside"]
    )
    spans = base.mark_rule(strokeWidth=1.5, color=NEUTRAL, clip=True).encode(
        x=alt.X("lo:Q", scale=scale), x2="hi:Q", y=y, yOffset=offset
    )
    labels = base.mark_text(align="left").encode(
        x=alt.value(alt.expr("width + 8")), y=y, yOffset=offset, text="value:N"
    )
    rules = [line_at(each) for each in lines]
    subtitle = (
        "bars: from the ratio as things stand; thin: 95 %; dashed: no change, and the smallest effect of interest"
    )
    subtitle += _CUT if (low, high) != (least, farthest) else ""
    subtitle += _BEYOND if drawn["outside"].any() else ""
    layers = alt.layer(*rules, rods, spans, labels)
    height = _BAR * most * len(names)
    chart: alt.LayerChart = styled(layers.properties(width=WIDTH, height=height, title=headline(title, subtitle)))
    return chart


def decision_map(cells: pl.DataFrame, title: str, *, x: str, y: str) -> alt.LayerChart:
    """What is decided at each pair of values of two assumptions, with the ratio there; values in order of appearance.

    ``cells`` has columns x, y (for reading), ratio and decision: ``RUN``, ``DO NOT RUN`` or ``undecided``.
    """
    require(cells, "x", "y", "ratio", "decision")
    across: Any = alt.X(
        "x:N", title=x, sort=cells["x"].unique(maintain_order=True).to_list(), axis=alt.Axis(labelAngle=0)
    )
    up: Any = alt.Y("y:N", title=y, sort=cells["y"].unique(maintain_order=True).to_list()[::-1])
    colour = alt.Color(
        "decision:N",
        title=None,
        scale=alt.Scale(domain=[*DECISIONS], range=[*DECISIONS.values()]),
        legend=alt.Legend(orient="top"),
    )
    cells = _marked(cells)
    base = alt.Chart(cells).encode(x=across, y=up)
    told: list[Any] = ["x", "y", alt.Tooltip("ratio:Q", format=".4f"), "decision", "outside"]
    tiles = base.mark_rect(stroke=PAPER, opacity=TINT).encode(color=_grey(colour), tooltip=told)
    texts = base.mark_text(fontWeight="bold").encode(text=alt.Text("ratio:Q", format=".3f"))
    size = {"width": 130 * cells["x"].n_unique(), "height": 56 * cells["y"].n_unique()}
    subtitle = "number: candidate over baseline; undecided: the interval is too wide"
    subtitle += _BEYOND if cells["outside"].any() else ""
    chart: alt.LayerChart = styled(alt.layer(tiles, texts).properties(**size, title=headline(title, subtitle)))
    return chart


def _marked(table: pl.DataFrame) -> pl.DataFrame:
    """With ``outside``, whether it had such a column or not."""
    return table if "outside" in table.columns else table.with_columns(outside=pl.lit(value=False))


def _grey(colour: alt.Color) -> Any:
    return alt.condition("datum.outside", alt.value(OUTSIDE), colour)
