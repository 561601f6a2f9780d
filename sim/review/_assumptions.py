"""The assumptions register: what a scenario takes for given, where each value comes from, and who could measure it.

measured     on the device, or recorded; the profile or the file says how
documented   a default of the product or of the device, from its source or from docs/calibration.md
guessed      everything else: what a scenario states counts as guessed, as a file cannot say how its author knew
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from sim.cost._profiles import Profile
from sim.engine.spec import PRESETS, EngineSpec, resolve
from sim.review._model import Table
from sim.scenario import Cell, EngineType, kv_tokens
from sim.scenario._fleet import shape_of

HEAD: Final = ("id", "assumption", "value", "basis", "range", "who could measure it")
RECORDED: Final = ("trace", "serving_run", "requests")
_RUN: Final = "one run of the real fleet"
_STEPS: Final = "step timings of one engine (windtunnel calibrate)"


def profile_of(kind: EngineType, cell: Cell) -> Profile | None:
    """The cost profile of a type of engine; None for a cost model that has none."""
    load = getattr(kind.engine.cost, "load", None)
    profile = None if load is None else load(**kind.hardware, base=cell.base)
    return profile if isinstance(profile, Profile) else None


def register(cell: Cell, real_run_noise: float) -> Table:
    """Of the baseline's cell: the arms differ in one field alone."""
    found = [*_engines(cell), *_around(cell), *_workload(cell), *_noise(cell, real_run_noise)]
    rows = [(f"A{number}", *row) for number, row in enumerate(found, 1)]
    note = "What the scenario states itself counts as guessed until its author says how it is known."
    return Table("4.1", "Assumptions", HEAD, rows, note)


def _engines(cell: Cell) -> Iterator[tuple[str, ...]]:
    for kind in cell.fleet:
        yield _step_cost(kind, cell)
        engine = kind.engine
        cost = cell_part(cell, kind).get("cost", {})
        for key, what in (("slowdown", "steady rate over burst rate"), ("host0_ms", "host time of a step")):
            if key in cost:
                value, given = cost[key], cost[key] is not None
                shown = f"{value:g}" if given else "default of the device"
                between = {"slowdown": "1.0 to 1.45", "host0_ms": "0.5 to 2.5"}[key]
                yield (f"{kind.label}: {what}", shown, "guessed" if given else "documented", between, _STEPS)
        room = f"{kv_tokens(kind, cell.base):,} tokens"
        stated = cell_part(cell, kind).get("kv_tokens") is not None
        yield (
            f"{kind.label}: KV room",
            room,
            "guessed" if stated else "documented",
            "–",
            "the engine's log at its start",
        )
        yield (f"{kind.label}: siblings see a prefix", str(engine.visibility), _basis(kind, "visibility"), "–", _RUN)
        changed = [f"{name}={getattr(engine, name)}" for name in _overridden(kind, cell)]
        yield (
            f"{kind.label}: scheduler of {engine.preset}",
            "its defaults" + (f", but {', '.join(changed)}" if changed else ""),
            "guessed" if changed else "documented",
            "–",
            "the engine's start arguments",
        )


def cell_part(cell: Cell, kind: EngineType) -> dict[str, Any]:
    """What the resolved cell says of one type of engine."""
    part: Any = cell.resolved
    for key in kind.place:
        part = part[key]
    return dict(part)


def _step_cost(kind: EngineType, cell: Cell) -> tuple[str, ...]:
    profile = profile_of(kind, cell)
    if profile is None:
        own = str(cell_part(cell, kind)["cost"]["kind"])
        return (f"{kind.label}: cost of a step", own, "guessed", "not stated", _STEPS)
    errors = profile.error_percent or {}
    spread = ", ".join(f"{phase} ±{mean:g} %" for phase, (mean, _) in errors.items()) or "not stated"
    basis = "measured" if profile.status == "measured" else "guessed"
    return (f"{kind.label}: cost of a step", f"profile {profile.name}", basis, spread, _STEPS)


def _overridden(kind: EngineType, cell: Cell) -> list[str]:
    """Fields of the engine that are not what the class, its preset, its device and its model say."""
    own = kind.engine
    described = shape_of(kind, cell.base)
    plain = resolve(
        EngineSpec(preset=own.preset, device=own.device, model=own.model, tp=own.tp, cost=own.cost),
        described[1] if described else None,
    )
    skipped = ("cost", "device", "model", "tp", "preset", "visibility", "kv_tokens", "memory_share", "other_gib")
    return [
        each.name
        for each in dataclasses.fields(EngineSpec)
        if each.name not in skipped and getattr(kind.engine, each.name) != getattr(plain, each.name)
    ]


def _basis(kind: EngineType, name: str) -> str:
    known = PRESETS[kind.engine.preset].get(name)
    return "documented" if known == getattr(kind.engine, name) else "guessed"


def _around(cell: Cell) -> Iterator[tuple[str, ...]]:
    router = cell.resolved["router"]
    yield ("network", "none: a message takes no time", "guessed", "0 to 2 ms", "ping between router and engines")
    yield ("router: time on the way", f"{router['overhead_s']:g} s", "guessed", "0 to 5 ms", "the router's own metrics")
    if router.get("decision"):
        yield ("router: cost of a decision", _short(router["decision"]), "guessed", "–", "a profile of the router")
    if router.get("telemetry"):
        yield ("router: age of reports", _short(router["telemetry"]), "guessed", "–", "the router's configuration")
    client = cell.resolved["client"]
    caps = {key: value for key, value in client.items() if "in_flight" in key or key == "max_sessions_per_engine"}
    shown = _short({key: value for key, value in caps.items() if value is not None}) or "no cap"
    yield ("client: sessions under way", shown, "guessed", "–", "the job's configuration")


def _workload(cell: Cell) -> Iterator[tuple[str, ...]]:
    workload = cell.resolved["workload"]
    if workload["kind"] in RECORDED:
        names = ", ".join(path.name for path in cell.workload.files(cell.base)) or workload["kind"]
        yield ("workload", f"recorded: {names}", "measured", "–", "–")
        return
    for key in ("prompt", "turns", "output_tokens", "observation_tokens", "tool_delay_s", "arrivals"):
        if workload.get(key) is not None:
            yield (f"workload: {key}", _short(workload[key]), "guessed", "–", "lengths and times of a real job's log")


def _noise(cell: Cell, real_run_noise: float) -> Iterator[tuple[str, ...]]:
    noise = cell.noise
    shown = f"speed {noise.engine_speed_sigma:g}, step {noise.step_sigma:g}"
    yield ("engines: noise of speed and of steps", shown, "guessed", "0 to 0.05", "the same run repeated")
    published = real_run_noise == 0.018
    basis, said = ("measured", " (a rollout step's wall time, NeMo-RL 3663)") if published else ("guessed", "")
    yield ("one real run: noise", f"{real_run_noise:.1%}{said}", basis, "1.8 % to 15 %", "the same run repeated")


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(each)}" for key, each in value.items() if each is not None)
    return f"{value:g}" if isinstance(value, float) else str(value)
