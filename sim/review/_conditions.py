"""Sizes of the job and of the fleet: known to whoever runs it, and other in the next job. Where does the answer turn?

Whole numbers from a fraction to a multiple of what they are; more only where few requests make that cheap.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from sim.review._assumptions import RECORDED, cell_part
from sim.review._knobs import Knob, brief
from sim.scenario import Cell, kv_tokens

SMALL: Final = 2_000
"""Requests of a replication up to which four times as many are asked for."""
_KV_LEAST: Final = 0.25


def conditions(cell: Cell, change: str, requests: int, policy_engines: int) -> list[Knob]:
    """Sizes of a cell that both arms share; ``policy_engines``: fewest engines that both policies accept."""
    most = 4 if requests <= SMALL else 2
    found = [*_counts(cell, most), *_lengths(cell), *_load(cell), *_fleet(cell, policy_engines)]
    kept = [each for each in found if each.ends and not any(_overlaps(field, change) for field in each.fields)]
    return [replace(each, id=f"C{number}") for number, each in enumerate(kept, 1)]


def _overlaps(field: str, change: str) -> bool:
    return f"{field}.".startswith(f"{change}.") or f"{change}.".startswith(f"{field}.")


def _whole(name: str, field: str, value: int, low: float, high: float, least: int = 1, work: float = 1.0) -> Knob:
    ends = max(round(value * low), least), max(round(value * high), least)
    return Knob(
        name,
        f"{value:,}",
        fields=(field,),
        low=min(ends[0], value),
        high=max(ends[1], value),
        centre=value,
        is_whole=True,
        work=work,
    )


def _counts(cell: Cell, most: int) -> Iterator[Knob]:
    workload = cell.resolved["workload"]
    if workload["kind"] in RECORDED or workload["kind"] == "sessions":
        return
    if (groups := workload.get("groups")) is not None and cell.training is None:
        yield _whole("groups", "workload.groups", groups, 0.25, most, work=most)
    if (samples := workload.get("samples_per_group")) is not None:
        yield _whole("samples a group", "workload.samples_per_group", samples, 0.5, 2, work=2)
    if (sessions := workload.get("sessions")) is not None:
        yield _whole("sessions", "workload.sessions", sessions, 0.5, 2, work=2)
    turns = workload.get("turns")
    if isinstance(turns, int):
        yield _whole("turns of a session", "workload.turns", turns, 0.5, 4 if turns == 1 else 2, work=max(2, most))
    elif turns is not None:
        yield _factor("turns of a session", "workload.turns", turns, 0.5, 2, work=2)


def _factor(name: str, field: str, value: Any, low: float, high: float, work: float = 1.0) -> Knob:
    return Knob(
        name,
        brief(value),
        fields=(field,),
        present=(value,),
        low=low,
        high=high,
        centre=1.0,
        is_factor=True,
        work=work,
    )


def _lengths(cell: Cell) -> Iterator[Knob]:
    prompt = cell.resolved["workload"].get("prompt") or {}
    for key, what in (("group_tokens", "tokens that a group shares"), ("task_tokens", "tokens of a task")):
        if prompt.get(key):
            yield _factor(what, f"workload.prompt.{key}", prompt[key], 0.25, 2)


def _load(cell: Cell) -> Iterator[Knob]:
    workload, client = cell.resolved["workload"], cell.resolved["client"]
    arrivals = workload.get("arrivals") or {}
    for key in ("groups_per_s", "rate_scale"):
        if arrivals.get(key):
            yield _factor("rate of arrivals", f"workload.arrivals.{key}", arrivals[key], 0.5, 2)
    if workload.get("rate_scale"):
        yield _factor("rate of arrivals", "workload.rate_scale", workload["rate_scale"], 0.5, 2)
    for key in ("max_sessions_in_flight", "max_sessions_per_engine", "max_groups_in_flight"):
        if client.get(key) is not None:
            yield _whole(key.replace("_", " "), f"client.{key}", client[key], 0.5, 2)


def _fleet(cell: Cell, least: int) -> Iterator[Knob]:
    engines = cell.resolved["fleet"]["engines"]
    if isinstance(engines, int) and not cell.resolved["fleet"]["changes"]:
        yield _whole("engines", "fleet.engines", engines, 0.5, 2, least=max(least, 1))
    for kind in cell.fleet:
        here = ".".join(str(part) for part in kind.place)
        if "kv_tokens" in cell_part(cell, kind):
            room = kv_tokens(kind, cell.base)
            of = f" of {kind.name}" if kind.name else ""
            yield _whole(f"KV tokens of an engine{of}", f"{here}.kv_tokens", room, _KV_LEAST, 1)
