"""How values and arms are written in every part."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sim import registry
from sim.report.numbers import number
from sim.review._gather import Evidence

FAMILIES: Final = {"policy": registry.POLICY, "cost": registry.COST, "workload": registry.WORKLOAD}
"""Components by the name of their field."""


def short(value: Any) -> str:
    """A value of a scenario on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def share(value: float | None) -> str:
    """A share for reading."""
    return "–" if value is None else f"{value:.1%}"


def probability(p: float) -> str:
    """A probability for reading."""
    return "below 0.1%" if p < 0.001 else f"{p:.1%}"


def value(found: float, lo: float | None = None, hi: float | None = None) -> str:
    """A number, with its interval where it has one of more than a point."""
    between = "" if lo is None or hi is None or lo == hi else f" [{number(lo)}, {number(hi)}]"
    return f"{number(found)}{between}"


def words(each: Sequence[str]) -> str:
    """Things in a sentence: a, b and c."""
    return " and ".join(filter(None, (", ".join(each[:-1]), each[-1]))) if each else ""


def changed(path: str, one: Any, other: Any, ev: Evidence) -> str:
    """What a field is in each arm; of components their kind, and parameters that are not defaults."""
    session = "sample" if "samples_per_group" in ev.cell(ev.baseline).resolved["workload"] else "session"
    per = {"session": f" (a key per {session})", "group": " (a key per group)", "request": " (a key per request)"}
    glosses = [per.get(each, "") if path == "client.key_scope" else "" for each in (one, other)]
    return f"{_said(path, one)}{glosses[0]} in {ev.baseline}, {_said(path, other)}{glosses[1]} in {ev.candidate}"


def turned(path: str, one: Any, other: Any) -> str:
    """A field from one value to another, as ``changed`` says values."""
    return f"{path} {_said(path, one)} -> {_said(path, other)}"


def _said(path: str, value: Any) -> str:
    if not isinstance(value, dict) or "kind" not in value:
        return short(value)
    family = FAMILIES.get(path.rsplit(".", 1)[-1])
    usual = {}
    if family is not None and not registry.is_file(value["kind"]):
        cls = registry.find(family, value["kind"], Path())
        usual = {each.name: registry.default(each) for each in registry.fields(cls)}
    own = [f"{name} {short(each)}" for name, each in value.items() if name != "kind" and each != usual.get(name)]
    return f"{value['kind']}{f' with {words(own)}' if own else ''}"


def arms(ev: Evidence) -> tuple[str, str]:
    """Baseline and candidate."""
    return ev.baseline, ev.candidate
