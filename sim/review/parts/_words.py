"""How values and arms are written in every part."""

import json
from typing import Any

from sim.review._gather import Evidence


def short(value: Any) -> str:
    """A value of a scenario on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def share(value: float | None) -> str:
    """A share for reading."""
    return "–" if value is None else f"{value:.1%}"


def arms(ev: Evidence) -> tuple[str, str]:
    """Baseline and candidate."""
    return ev.baseline, ev.candidate
