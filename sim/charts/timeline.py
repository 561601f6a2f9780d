"""What engines did over one run: parts of their time, requests running and waiting, KV blocks used and cached."""

from collections.abc import Sequence
from typing import Any, Final, cast

import altair as alt
import polars as pl

from sim.charts._style import BAD, PLAIN, WIDTH, headline, require, styled
from sim.charts.paired import Chart

COLOURS: Final = {
    "prefill": "#4c78a8",
    "reprefill": "#e45756",
    "decode": "#54a24b",
    "host": "#b279a2",
    "idle_queue": "#f58518",
    "idle_client": "#d8d8d8",
    "idle_tail": "#efefef",
    "down": "#333333",
}
"""One for each line of the ledger."""


def timeline(bins: pl.DataFrame, marks: pl.DataFrame, title: str) -> Chart:
    """Three panels an engine: share of each bin by line of the ledger, requests, and KV blocks; rules where it changes.

    ``bins`` has columns engine, start_s, end_s, a column a line (engine-seconds in the bin), running, waiting, kv_used
    and kv_cached (null where unknown); ``marks`` has at_s, engine (-1: every engine) and mark.
    """
    require(bins, "engine", "start_s", "end_s", *COLOURS, "running", "waiting", "kv_used", "kv_cached")
    panels = []
    engines = bins["engine"].unique(maintain_order=True).to_list()
    for engine in engines:
        own = bins.filter(pl.col("engine") == engine)
        here = marks.filter(pl.col("engine").is_in([engine, -1]))
        panels.append(_shares(own, here, f"engine {engine}"))
        panels.append(_counts(own, here, ("running", "waiting"), "requests"))
        across = "s from the first submission" if engine == engines[-1] else None
        panels.append(_counts(own, here, ("kv_used", "kv_cached"), "KV blocks", across))
    subtitle = "share of time by line of the ledger; simulated; KV is drawn where the engine is busy; rules: changes"
    header = headline(title, subtitle)
    chart = alt.vconcat(*panels, spacing=8, title=header).resolve_scale(x="shared", color="independent")
    return cast(Chart, styled(chart))


def _shares(own: pl.DataFrame, marks: pl.DataFrame, name: str) -> Any:
    used = [line for line in COLOURS if own[line].sum() > 0]
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
            y=alt.Y("low:Q", title=name, axis=alt.Axis(format="%", tickCount=2), scale=alt.Scale(domain=[0, 1])),
            y2="high:Q",
            color=alt.Color("line:N", title=None, scale=colours, legend=alt.Legend(orient="right")),
            tooltip=["line", "start_s", "end_s", "share"],
        )
    )
    return alt.layer(bars, _rules(marks)).properties(width=WIDTH, height=70)


def _counts(own: pl.DataFrame, marks: pl.DataFrame, names: Sequence[str], title: str, across: str | None = None) -> Any:
    long = own.unpivot(names, index="start_s", variable_name="what", value_name="value")
    lines = (
        alt.Chart(long)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("start_s:Q", title=across, scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=title, axis=alt.Axis(tickCount=3, format="~s")),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=[*names], range=[PLAIN, BAD])),
        )
    )
    return alt.layer(lines, _rules(marks)).properties(width=WIDTH, height=50)


def _rules(marks: pl.DataFrame) -> alt.Chart:
    rules: alt.Chart = (
        alt.Chart(marks).mark_rule(strokeDash=[3, 3], color="#777").encode(x="at_s:Q", tooltip=["mark", "at_s"])
    )
    return rules
