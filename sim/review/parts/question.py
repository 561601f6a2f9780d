"""Part 1: what is asked, and what counts as an answer."""

from sim.review._gather import Evidence
from sim.review._model import Part, Table


def question(ev: Evidence) -> Part:
    """1: what is asked, and what counts as an answer."""
    asked = _comment(ev)
    lines = ev.lines
    rows = [
        ("decides", ev.primary.metric),
        ("smallest effect worth having", f"{lines.interest:.0%}"),
        ("harm", f"{-lines.harm:.0%}"),
        ("counts as equal", f"within {lines.equal:.0%}"),
    ]
    return Part(1, "Question and decision", asked, [Table("1.1", "What counts", ("line", "value"), rows)])


def _comment(ev: Evidence) -> list[str]:
    """The comment that a scenario's file opens with: the question it asks."""
    lines: list[str] = []
    for line in ev.scenario.path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    paragraphs = "\n".join(lines).split("\n\n")
    return [" ".join(each.split()) for each in paragraphs if each.strip()]
