"""Part 1: what is asked, and what counts as an answer."""

import re

from sim.report.rule import percent
from sim.review._gather import Evidence
from sim.review._model import Part, Table


def question(ev: Evidence) -> Part:
    """1: what is asked, and what counts as an answer."""
    lines = ev.lines
    rows = [
        ("decides", ev.primary.metric),
        ("smallest effect worth having", percent(lines.interest)),
        ("harm", f"-{percent(lines.harm)}"),
        ("counts as equal", f"within {lines.equal:.0%}"),
    ]
    return Part(1, "Question and decision", _comment(ev), [Table("1.1", "What counts", ("line", "value"), rows)])


def asked(ev: Evidence) -> str:
    """The first sentence of the scenario's comment; empty where it has none."""
    first = next(iter(_comment(ev)), "")
    found = re.match(r".*?[.?!](?=\s|$)", first)
    return found.group() if found else first and f"{first}."


def _comment(ev: Evidence) -> list[str]:
    """The comment that a scenario's file opens with: the question it asks."""
    lines: list[str] = []
    for line in ev.scenario.path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    paragraphs = "\n".join(lines).split("\n\n")
    return [" ".join(each.split()) for each in paragraphs if each.strip()]
