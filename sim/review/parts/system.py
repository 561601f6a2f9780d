"""Part 2: everything that is fixed, and the one field that is not."""

from collections.abc import Sequence
from typing import Any

from sim.review._gather import Evidence
from sim.review._model import Part, Table
from sim.review.parts._words import arms, short
from sim.scenario import dump


def system(ev: Evidence) -> Part:
    """2: everything that is fixed, and the one field that is not."""
    path, one, other = ev.change
    diff = Table("2.1", "The difference between the arms", ("field", *arms(ev)), [(path, short(one), short(other))])
    parameters: dict[str, dict[str, str]] = {}
    for arm in arms(ev):
        router = ev.cell(arm).resolved["router"]
        for key, value in _flat({"policy": router["policy"]} | {k: v for k, v in router.items() if k != "policy"}):
            parameters.setdefault(key, {})[arm] = value
    rows = [(key, *(values.get(arm, "–") for arm in arms(ev))) for key, values in parameters.items()]
    fleet = [
        (
            kind.name or "all",
            str(kind.count),
            f"{kind.engine.device}, {kind.engine.model}, tp {kind.engine.tp}",
            str(kind.engine.preset),
        )
        for kind in ev.cell(ev.baseline).fleet
    ]
    return Part(
        2,
        "System under test",
        ["Arms differ in exactly one field; everything else below holds for both."],
        [
            diff,
            Table("2.2", "Fleet", ("type", "engines", "hardware and model", "scheduler"), fleet),
            Table("2.3", "Router and policy, every parameter", ("parameter", *arms(ev)), rows),
        ],
        fixed=dump(ev.cell(ev.baseline).resolved),
    )


def _flat(value: Any, path: str = "") -> Sequence[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [row for key, each in value.items() for row in _flat(each, f"{path}.{key}" if path else str(key))]
    return [(path, short(value))]
