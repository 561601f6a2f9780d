"""A review as one HTML file that loads nothing, as Markdown for a pull request, and its figures as PNG and SVG."""

import json
import os
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from sim import charts
from sim.errors import ScenarioError
from sim.report import timeline
from sim.report.chart_tables import completion_tables
from sim.report.pictures import ratio_means, ratio_points
from sim.review._gather import Evidence
from sim.review._model import Review

MOST_ENGINES = 4
"""Engines of a timeline in the page; ``windtunnel timeline`` has all of them."""
BRIEF = ("2.1", "7.1", "8.1", "8.2")
"""Tables that the Markdown has besides page one."""


def figures(ev: Evidence) -> dict[str, Any]:
    """The charts of a review by name; those that have nothing to draw are absent."""
    drawn: dict[str, Any] = {}
    points = ratio_points(ev.result)
    if not points.is_empty():
        points, means = (f.filter(f["candidate"] == ev.candidate) for f in (points, ratio_means(ev.result)))
        if not means.is_empty():
            title = f"{ev.candidate} over {ev.baseline}, pair by pair (simulated)"
            drawn["paired_ratios"] = charts.paired_ratios(points, means, title)
    completed = completion_tables(ev.found.baseline, ev.found.candidate)
    if completed is not None:
        drawn["group_completion"] = charts.completion_cdf(*completed, "Group completion (simulated)")
    for which, name in (("baseline", ev.baseline), ("candidate", ev.candidate)):
        tables = ev.tables[name]
        bins = timeline.binned(tables, 0)
        engines = bins["engine"].unique().sort()
        shown = bins.filter(bins["engine"].is_in(engines.head(MOST_ENGINES).implode()))
        of = f", {MOST_ENGINES} of {len(engines)} engines" if len(engines) > MOST_ENGINES else ""
        drawn[f"timeline_{which}"] = charts.timeline(shown, timeline.marks(tables, 0), f"Arm {name}, pair 0{of}")
    return drawn


def html(review: Review, drawn: dict[str, Any]) -> str:
    """The page; all scripts and data are inside."""
    specs = {name: chart.to_dict(validate=False) for name, chart in drawn.items()}
    # Inside a script element no "<" may open a tag; JSON has another way to write it.
    data = json.dumps(specs, separators=(",", ":")).replace("<", "\\u003c")
    return (
        _environment()
        .get_template("review.html.j2")
        .render(
            review=review,
            drawn=set(drawn),
            specs=data,
            scripts=charts.scripts(),
        )
    )


def markdown(review: Review) -> str:
    """Page one, the tables that decide, the rule and the warnings."""
    tables = {table.id: table for part in review.parts for table in part.tables}
    rule = next(part.fixed for part in review.parts if part.number == 12)
    brief = [tables[name] for name in BRIEF if name in tables]
    return _environment().get_template("review.md.j2").render(review=review, tables=brief, rule=rule)


def write(review: Review, drawn: dict[str, Any], folder: Path) -> list[Path]:
    """``review.html``, ``review.md`` and ``figures/``; each file whole or not at all."""
    texts = {"review.html": html(review, drawn), "review.md": markdown(review)}
    written = []
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            draft = folder / f".{name}-{os.getpid()}"
            draft.write_text(text, encoding="utf-8")
            written.append(draft.replace(folder / name))
        for name, chart in drawn.items():
            written += charts.save(chart, folder / "figures" / name, ("png", "svg"))
    except OSError as error:
        raise ScenarioError(f"cannot write a review in {folder}: {error.strerror or error}") from None
    return written


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("sim.review"),
        autoescape=select_autoescape(("html.j2",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["cell"] = _cell
    return found


def _cell(text: str) -> str:
    """Text of a Markdown table: a bar would end its cell, a break its row."""
    return " ".join(text.replace("|", "\\|").split())
