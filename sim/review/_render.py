"""A review as one HTML file that loads nothing, as Markdown for a pull request, as figures, and as tables to copy."""

import csv
import io
import re
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from sim import charts
from sim.files import write_whole, writing
from sim.review._figures import Figure
from sim.review._model import Review, Table

BRIEF = ("7.1", "8.2", "8.4", "17.1", "17.2", "17.6")
"""Tables that the Markdown has besides page one, folded, and those below them, as 17.2.1 of several cells."""
LIMIT = 60_000
"""Characters of the Markdown; a comment on GitHub may have 65,536."""
MOST_WARNINGS = 8
"""In the Markdown; the page has them all."""


def html(review: Review, drawn: dict[str, Figure]) -> str:
    """The page; all scripts and data are inside."""
    split = {name: charts.split(figure.chart) for name, figure in drawn.items()}
    shown = {
        name: {"title": title, "subtitle": subtitle, "says": drawn[name].says, "rows": drawn[name].data.height}
        for name, (_, title, subtitle) in split.items()
    }
    wanted = [name for part in review.parts for name in part.figures if name in drawn]
    body = _environment().get_template("review.html.j2").render(review=review, drawn=shown, place=charts.place)
    behind = {name: [drawn[name].table.columns, *drawn[name].table.rows()] for name in wanted}
    return charts.document(
        review.title,
        body,
        {name: split[name][0] for name in wanted},
        style=_text("review.css"),
        script=_text("review.js"),
        data={"behind": behind},
    )


def markdown(review: Review) -> str:
    """Page one and the warnings; folded, the tables that decide, as far as a comment has room, and the rule."""
    tables = [table for part in review.parts for table in part.tables]
    rule = next((part.fixed for part in review.parts if part.number == 12), "")
    brief = [each for each in tables if any(each.id == name or each.id.startswith(f"{name}.") for name in BRIEF)]
    template = _environment().get_template("review.md.j2")
    while True:
        text = template.render(review=review, tables=brief, rule=rule, most=MOST_WARNINGS)
        if len(text) <= LIMIT or not brief:
            return text
        brief.remove(max(brief, key=lambda each: len(each.rows)))


def write(review: Review, drawn: dict[str, Figure], folder: Path) -> list[Path]:
    """``review.html``, ``review.md``, ``figures/`` and ``tables/``; each file whole or not at all.

    Tables and figures that the page of an earlier review holds and this review does not go.
    """
    texts = {"review.html": html(review, drawn), "review.md": markdown(review)}
    texts |= {f"tables/{table.id}.csv": _csv(table) for part in review.parts for table in part.tables}
    texts |= {f"tables/{name}.csv": figure.table.write_csv() for name, figure in drawn.items()}
    with writing(f"a review in {folder}"):
        earlier = _named(folder / "review.html")
        for each in ("figures", "tables"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        written = [write_whole(folder / name, text) for name, text in texts.items()]
        for name, figure in drawn.items():
            written += charts.save(figure.chart, folder / "figures" / name, ("png", "svg"))
        for name in earlier - {path.stem for path in written}:
            for stale in (f"tables/{name}.csv", f"figures/{name}.png", f"figures/{name}.svg"):
                (folder / stale).unlink(missing_ok=True)
    return written


def _named(page: Path) -> set[str]:
    """Tables and figures that a page holds, which are files beside it; none where there is no page."""
    text = page.read_text("utf-8", errors="replace") if page.is_file() else ""
    return {*re.findall(r'<table id="t(\d[\d.]*)">', text), *re.findall(r'data-table="(\w+)"', text)}


def _csv(table: Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.head, *table.rows])
    return text.getvalue()


def _text(name: str) -> str:
    return (resources.files("sim.review") / "templates" / name).read_text("utf-8")


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
