"""What engines did over one run: parts of their time, requests running and waiting, KV blocks used and cached."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import altair as alt
import polars as pl

from sim.charts._style import AFTER, BAD, GOOD, NEUTRAL, OUTSIDE, PLAIN, WAITS, WIDTH, headline, require, styled
from sim.charts.paired import Chart

COLOURS: Final = {
    "prefill": "#4c78a8",
    "reprefill": "#d64550",
    "decode": "#4a9440",
    "host": "#a0658f",
    "idle_queue": "#d9730d",
    "idle_client": WAITS,
    "idle_tail": AFTER,
    "down": "#8a6650",
}
"""One for each line of the ledger."""
WORDS: Final = {
    "prefill": "prefill",
    "reprefill": "prefill again",
    "decode": "decode",
    "host": "host, between steps",
    "idle_queue": "idle, queue elsewhere",
    "idle_client": "idle, no requests",
    "idle_tail": "idle, at the end",
    "down": "down",
    "kv_used": "in use",
    "kv_cached": "cached",
}
"""Of lines and counts, in a legend."""
MARKS: Final = {
    "fail": BAD,
    "restart": GOOD,
    "join": "#3a9189",
    "leave": "#a8860b",
    "stop": "#8a6650",
    "flush": "#d9730d",
    "weights updated": NEUTRAL,
    "weights updated, caches flushed": NEUTRAL,
}
"""What happens to engines, from outside."""
FAR = 0.2
"""Share of a bin's busy time outside the calibrated region from which on the bin is grey."""


def timeline(bins: pl.DataFrame, marks: pl.DataFrame, title: str, *, names: Mapping[int, str] = {}) -> Chart:
    """Three panels an engine: share of each bin by line of the ledger, requests, and KV blocks; rules where it changes.

    ``bins`` has columns engine, start_s, end_s, a column a line (engine-seconds in the bin), running, waiting, kv_used
    and kv_cached (null where unknown), and may have ``outside``, the share of busy time outside the calibrated region
    (null where nothing is busy); ``marks`` has at_s, engine (-1: every engine) and mark. ``names`` says what an
    engine is.
    """
    require(bins, "engine", "start_s", "end_s", *COLOURS, "running", "waiting", "kv_used", "kv_cached")
    if "outside" not in bins.columns:
        bins = bins.with_columns(outside=pl.lit(None, dtype=pl.Float64))
    used = [line for line in COLOURS if bins[line].sum() > 0]
    marks = marks.filter(pl.col("engine").is_in([-1, *bins["engine"].unique()]))
    kinds = [name for name in MARKS if name in marks["mark"].to_list()]
    panels = []
    engines = bins["engine"].unique(maintain_order=True).to_list()
    for engine in engines:
        own = bins.filter(pl.col("engine") == engine)
        here = marks.filter(pl.col("engine").is_in([engine, -1]))
        is_first, is_last = engine == engines[0], engine == engines[-1]
        across = "s from the first submission" if is_last else None
        role = f", {names[engine]}" if names.get(engine) else ""
        panels.append(_shares(own, here, f"engine {engine}{role}", used, kinds, has_legend=is_first))
        panels.append(_counts(own, here, ("running", "waiting"), "requests", kinds, has_legend=is_first))
        panels.append(_counts(own, here, ("kv_used", "kv_cached"), "KV blocks", kinds, across, has_legend=is_first))
    subtitle = "share of time by line of the ledger; simulated; KV is drawn where the engine is busy; rules: changes"
    subtitle += "; grey: outside the calibrated region" if (bins["outside"] > FAR).any() else ""
    header = headline(title, subtitle)
    chart = alt.vconcat(*panels, spacing=8, title=header).resolve_scale(x="shared", color="independent")
    return cast(Chart, styled(chart))


def _shares(
    own: pl.DataFrame, marks: pl.DataFrame, name: str, used: Sequence[str], kinds: Sequence[str], *, has_legend: bool
) -> Any:
    total = pl.sum_horizontal(used)
    above = [pl.sum_horizontal(pl.lit(0.0), *used[:rank]) / total for rank in range(len(used) + 1)]
    long = pl.concat(
        [
            own.select(
                "start_s", "end_s", line=pl.lit(line), low=above[rank], high=above[rank + 1], share=pl.col(line) / total
            ).filter(pl.col("share") > 0)
            for rank, line in enumerate(used)
        ]
    )
    colours = alt.Scale(domain=used, range=[COLOURS[line] for line in used])
    bars = (
        alt.Chart(long)
        .mark_rect()
        .encode(
            x=alt.X("start_s:Q", title=None, axis=alt.Axis(labels=False), scale=alt.Scale(nice=False)),
            x2="end_s:Q",
            y=alt.Y("low:Q", title="time", axis=alt.Axis(format="%", tickCount=2), scale=alt.Scale(domain=[0, 1])),
            y2="high:Q",
            color=alt.Color("line:N", title=None, scale=colours, legend=_legend(is_shown=has_legend)),
            tooltip=[
                "line",
                *(alt.Tooltip(f"{each}:Q", format=".4g") for each in ("start_s", "end_s")),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    layers = alt.layer(bars, *_shade(own, 0.75), *_rules(marks, kinds, has_legend=has_legend))
    title = alt.Title(name, anchor="start")
    return layers.resolve_scale(color="independent").properties(width=WIDTH, height=70, title=title)


def _counts(
    own: pl.DataFrame,
    marks: pl.DataFrame,
    names: Sequence[str],
    title: str,
    kinds: Sequence[str],
    across: str | None = None,
    *,
    has_legend: bool,
) -> Any:
    long = own.unpivot(names, index="start_s", variable_name="what", value_name="value")
    axis = alt.Axis(labels=across is not None)
    x = alt.X("start_s:Q", title=across, axis=axis, scale=alt.Scale(nice=False))
    inks = alt.Scale(domain=[*names], range=[PLAIN, BAD])
    lines = (
        alt.Chart(long)
        .mark_line(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("value:Q", title=title, axis=alt.Axis(tickCount=3, format="~s")),
            color=alt.Color("what:N", title=None, scale=inks, legend=_legend(is_shown=has_legend)),
        )
    )
    told = [alt.Tooltip(f"{each}:Q", format=".4g") for each in ("start_s", "end_s", *names)]
    over = alt.Chart(own).mark_rect(opacity=0).encode(x=x, x2="end_s:Q", tooltip=told)  # a place to point at
    layers = alt.layer(*_shade(own, 0.25), lines, over, *_rules(marks, kinds, has_legend=False))
    return layers.resolve_scale(color="independent").properties(width=WIDTH, height=66)


def _shade(own: pl.DataFrame, opacity: float) -> list[alt.Chart]:
    """Grey over the bins that are outside the calibrated region."""
    far = own.filter(pl.col("outside") > FAR)
    if far.is_empty():
        return []
    told = [alt.Tooltip("outside:Q", format=".1%", title="outside the calibrated region")]
    x = alt.X("start_s:Q", scale=alt.Scale(nice=False))
    shade = alt.Chart(far).mark_rect(color=OUTSIDE, opacity=opacity).encode(x=x, x2="end_s:Q", tooltip=told)
    return [shade]


def _legend(*, is_shown: bool) -> alt.Legend | None:
    return (
        alt.Legend(labelExpr=f"{json.dumps(WORDS)}[datum.label] || datum.label", labelLimit=240) if is_shown else None
    )


def _rules(marks: pl.DataFrame, kinds: Sequence[str], *, has_legend: bool) -> list[alt.Chart]:
    if marks.is_empty():
        return []
    told = ["mark", "engine", alt.Tooltip("at_s:Q", format=".4g")]
    inks = alt.Scale(domain=[*kinds], range=[MARKS[name] for name in kinds])
    colour = alt.Color("mark:N", title=None, scale=inks, legend=_legend(is_shown=has_legend))
    rules = alt.Chart(marks).mark_rule(strokeDash=[5, 3], strokeWidth=2)
    return [rules.encode(x="at_s:Q", color=colour, tooltip=told)]
