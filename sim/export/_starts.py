"""How arms would be started, before anything is exported: for reviews."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sim.export._manifest import configured
from sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Start:
    """The files that start an arm."""

    arm: str
    product: str
    """Router and version; empty where no product that is known here has the policy."""
    files: Mapping[str, str]
    impossible: Sequence[str]
    """What no product can have as it was simulated, one line each."""


def starts(scenario: Scenario) -> dict[str, Start]:
    """Each arm as ``export`` would configure it."""
    arms, made = configured(scenario, None, ())
    return {
        arm["name"]: Start(
            arm["name"],
            f"{arm['product']['product']} {arm['product']['version']}" if arm["product"] else "",
            made[arm["name"]].files,
            arm["impossible"],
        )
        for arm in arms
    }


def changed_lines(one: Start, other: Start) -> Iterator[tuple[str, str, str]]:
    """File by file the lines that differ between two arms, comments left out; a file that one has not has no lines."""
    for name in sorted({*one.files, *other.files}):
        before, after = (_lines(each.files.get(name, "")) for each in (one, other))
        steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        for what, a, b, c, d in steps:
            if what != "equal":
                yield name, " ".join(before[a:b]), " ".join(after[c:d])


def _lines(text: str) -> list[str]:
    stripped = (line.strip(" \\,") for line in text.splitlines())
    plain = (line[1:-1] if line[:1] == line[-1:] == '"' else line for line in stripped)
    return [line for line in plain if line and not line.startswith("#")]
