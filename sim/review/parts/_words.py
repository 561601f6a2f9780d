"""How values and arms are written in every part."""

import json
from typing import Any

from sim.report.table import number
from sim.review._gather import Evidence


def short(value: Any) -> str:
    """A value of a scenario on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def share(value: float | None) -> str:
    """A share for reading."""
    return "–" if value is None else f"{value:.1%}"


def value(found: float, lo: float | None = None, hi: float | None = None) -> str:
    """A number, with its interval where it has one of more than a point."""
    between = "" if lo is None or hi is None or lo == hi else f" [{number(lo)}, {number(hi)}]"
    return f"{number(found)}{between}"


def arms(ev: Evidence) -> tuple[str, str]:
    """Baseline and candidate."""
    return ev.baseline, ev.candidate
