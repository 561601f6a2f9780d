"""The assumptions register: what a scenario takes for given, where each value comes from, and who could measure it.

measured     on the device, or recorded; the profile, the file or the scenario's author says how
documented   a default of the product or of the device, from its source or from docs/calibration.md
guessed      everything else: what a scenario states counts as guessed until its author says how it is known

Each entry names its fields and the range they may lie in, or why it cannot be varied. What the scenario says under
``assumptions`` takes the place of an entry of the same field. Ranges where nobody gives one:

    rate and host time      what devices differ by (docs/calibration.md)
    cost of a step          twice the mean absolute error of unseen steps (table 6.1), each phase by itself; 0.8 to 1.25
                            where none is known
    KV room                 10 % either way where computed, 20 % where stated
    lengths, delays, rates  0.8 to 1.25 of what is stated; caps the same; periods and delays of reports half to double
"""

import dataclasses
import re
import typing
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from sim import registry
from sim.calibration.record import read_calibration
from sim.cost._profiles import Profile
from sim.engine.spec import PRESETS, EngineSpec, resolve
from sim.errors import ScenarioError
from sim.report.region import Region
from sim.review._knobs import Knob, brief
from sim.review._model import Table
from sim.router.reads import SIGNALS, reads
from sim.scenario import Cell, EngineType, Scenario, kv_tokens, place_in, value_at
from sim.scenario._fleet import shape_of

HEAD: Final = ("id", "assumption", "value", "basis", "range", "field", "who could measure it", "GPU-hours")
RECORDED: Final = ("trace", "serving_run", "requests")
_RUN: Final = "one run of the real fleet"
_STEPS: Final = "step timings of one engine (windtunnel calibrate)"
_ARGUMENTS: Final = "the engine's start arguments"
_LOGS: Final = "lengths and times of a real job's log"
_ROUTERS: Final = "the router's configuration"
_JOBS: Final = "the job's configuration"
_PROFILE: Final = "a profile of the router"
_STATED: Final = (0.8, 1.25)
_HALF_OR_DOUBLE: Final = (0.5, 2.0)
_CALIBRATION_H: Final = 1.0
"""Hours of one engine that step timings take; a start of an engine and a run of the fleet take the next two."""
_START_H: Final = 0.1
_RUN_H: Final = 0.5


def profile_of(kind: EngineType, cell: Cell) -> Profile | None:
    """The cost profile of a type of engine; None for a cost model that has none."""
    load = getattr(kind.engine.cost, "load", None)
    profile = None if load is None else load(**kind.hardware, base=cell.base)
    return profile if isinstance(profile, Profile) else None


def step_errors(profile: Profile | None) -> dict[str, float]:
    """Mean absolute error of unseen steps by phase, as a share: what is on record, else what the profile states."""
    if profile is None:
        return {}
    stated = {phase: mean / 100 for phase, (mean, _) in (profile.error_percent or {}).items()}
    known = read_calibration().steps_of(profile.name)
    return stated | ({phase: each.mean for phase, each in known.phases.items()} if known else {})


def cost_knobs(kind: EngineType, cell: Cell) -> dict[str, float]:
    """Knobs of a cost model that its profile or device decides where the scenario does not; empty if it has none."""
    if not hasattr(kind.engine.cost, "slowdown"):
        return {}
    shown = kind.engine.cost.describe(**kind.hardware, base=cell.base, overlap=kind.engine.overlap)
    return {name: float(value) for name, value in re.findall(r"(slowdown|host0_ms|host1_ms) ([^\s,]+)", shown)}


def regions(cell: Cell) -> list[Region | None]:
    """The calibrated region of each engine by its number: of the beginning, type after type, then those that join."""
    numbered = [kind.name for kind in cell.fleet for _ in range(kind.count)]
    numbered += [name or "" for name in cell.membership.joining]
    profiles = {kind.name: profile_of(kind, cell) for kind in cell.fleet}
    known = {name: profile.region if profile else None for name, profile in profiles.items()}
    return [known[name] for name in numbered]


def register(knobs: list[Knob]) -> Table:
    """The table of the register; knobs as ``assumptions`` gives them."""
    rows = [
        (
            each.id,
            each.name + (f": {each.says}" if each.says else ""),
            each.value,
            each.basis,
            each.range if each.is_varied else f"not varied: {each.fixed}",
            ", ".join(each.fields) or "–",
            each.who or "–",
            "–" if each.gpu_hours is None else f"{each.gpu_hours:g}",
        )
        for each in knobs
    ]
    note = "What the scenario states itself counts as guessed until its author says how it is known (`assumptions`)."
    return Table("4.1", "Assumptions", HEAD, rows, note)


def assumptions(scenario: Scenario, candidate: str, change: str) -> list[Knob]:
    """Everything that both arms take for given; the field in which they differ is what is asked, and no assumption."""
    cell = scenario.arms[scenario.baseline]
    stated = [_stated(scenario, index, candidate) for index in range(len(scenario.assumptions))]
    own = [field for each in stated for field in each.fields]
    derived = [
        each
        for each in (*_engines(cell), *_around(scenario, candidate), *_workload(cell), *_noise(scenario))
        if not any(_is_part(field, other) for field in each.fields for other in own)
    ]
    kept = [_held(each, change) for each in (*stated, *derived)]
    return [replace(each, id=f"A{number}") for number, each in enumerate(kept, 1)]


def _held(knob: Knob, change: str) -> Knob:
    if knob.is_varied and any(_is_asked(field, change) for field in knob.fields):
        return replace(knob, fixed="the arms differ in it")
    return knob


def _is_asked(field: str, change: str) -> bool:
    """Whether a field is, or holds, the one that the arms differ in; one arm's own field below it is no such thing."""
    if not field.startswith("arms."):
        return _is_part(field, change)
    own = field.split(".", 2)[2]
    return f"{change}.".startswith(f"{own}.")


def _is_part(one: str, other: str) -> bool:
    """Whether one path is the other, or part of it."""
    shorter, longer = sorted((one.split("."), other.split(".")), key=len)
    return longer[: len(shorter)] == shorter


def _stated(scenario: Scenario, index: int, candidate: str) -> Knob:
    """An entry of the scenario's own; ScenarioError where it makes the arms the same."""
    each = scenario.assumptions[index]
    arm = next((a for a in (scenario.baseline, candidate) if place_in(each.field, a)), None)
    place = place_in(each.field, arm) if arm else None
    present = value_at(scenario.arms[arm].resolved, place) if arm and place else None
    is_number = isinstance(present, int | float) and not isinstance(present, bool)
    for end in each.ends if arm else ():
        there = scenario.varied({each.field: end}, each.origin)
        if there.arms[scenario.baseline].hash == there.arms[candidate].hash:
            raise ScenarioError(
                f"{each.origin}: with {each.field} set in both, {scenario.baseline} and {candidate} are the same: "
                "what the arms differ in is what is asked, not what is taken for given"
            )
    return Knob(
        name=each.field,
        value=brief(present),
        basis=each.basis,
        who=each.who or "",
        gpu_hours=each.gpu_hours,
        fields=(each.field,),
        low=each.range[0] if each.range else None,
        high=each.range[1] if each.range else None,
        centre=present if is_number and each.range else None,
        options=tuple(value for value in each.values if value != present),
        is_whole=bool(each.range)
        and all(isinstance(end, int) for end in each.ends)
        and (present is None or isinstance(present, int)),
        fixed=("" if each.ends else "no range is given") if arm else "a field of neither arm",
        says=each.says or "",
    )


def _number(
    name: str, value: float, field: str, ends: tuple[float, float], who: str, hours: float = 0.0, fixed: str = ""
) -> Knob:
    """A guessed number, and the range it may lie in."""
    return Knob(name, f"{value:g}", "guessed", who, hours, (field,), (), *ends, value, fixed=fixed)


def _factor(
    name: str,
    shown: str,
    fields: dict[str, Any],
    ends: tuple[float, float],
    who: str,
    hours: float = 0.0,
    fixed: str = "",
    work: float = 1.0,
) -> Knob:
    """Guessed values by their fields, all multiplied by one factor of a range."""
    at, present = tuple(fields), tuple(fields.values())
    return Knob(name, shown, "guessed", who, hours, at, present, *ends, 1.0, is_factor=True, work=work, fixed=fixed)


def _engines(cell: Cell) -> Iterator[Knob]:
    for kind in cell.fleet:
        here = ".".join(str(part) for part in kind.place)
        engine, hours = kind.engine, float(kind.engine.tp)
        yield from _step_cost(kind, cell, here)
        stated = cell_part(cell, kind).get("kv_tokens") is not None
        room = kv_tokens(kind, cell.base)
        yield Knob(
            f"{_of(kind)}KV room",
            f"{room:,} tokens",
            "guessed" if stated else "documented",
            "the engine's log at its start",
            hours * _START_H,
            (f"{here}.kv_tokens",),
            (room,),
            *((0.8, 1.2) if stated else (0.9, 1.1)),
            1.0,
            is_factor=True,
        )
        others = [name for name in ("at_schedule", "after_prefill") if name != engine.visibility]
        yield Knob(
            f"{_of(kind)}siblings see a prefix",
            str(engine.visibility),
            _basis(kind, "visibility"),
            _RUN,
            _gpus(cell) * _RUN_H,
            (f"{here}.visibility",),
            options=tuple(others),
        )
        changed = _overridden(kind, cell)
        for name, default in changed.items():
            yield Knob(
                f"{_of(kind)}{name}",
                brief(getattr(engine, name)),
                "guessed",
                _ARGUMENTS,
                0.0,
                (f"{here}.{name}",),
                options=() if default is None else (default,),
                fixed="the product has no default of it" if default is None else "",
            )
        yield Knob(
            f"{_of(kind)}scheduler of {engine.preset}",
            "its defaults" + (f", but {', '.join(changed)}" if changed else ""),
            "documented",
            _ARGUMENTS,
            0.0,
            fixed="several fields: name one under assumptions",
        )


def _step_cost(kind: EngineType, cell: Cell, here: str) -> Iterator[Knob]:
    """The profile's error by phase, and the knobs that no table of operators has in it."""
    own: dict[str, Any] = cell_part(cell, kind)["cost"]
    profile, hours = profile_of(kind, cell), float(kind.engine.tp) * _CALIBRATION_H
    errors = step_errors(profile)
    basis: Any = "measured" if profile and profile.status == "measured" else "guessed"
    if "prefill_factor" not in own:
        names = [name for name in ("step_ms", "prefill_ms_per_token", "per_sequence_ms") if own.get(name)]
        for name in names:
            fields = {f"{here}.cost.{name}": own[name]}
            yield _factor(f"{_of(kind)}cost of a step, {name}", f"{own[name]:g}", fields, _STATED, _STEPS, hours)
        if not names:
            fixed = "a cost model of your own: name its fields under assumptions"
            yield Knob(f"{_of(kind)}cost of a step", str(own["kind"]), "guessed", _STEPS, hours, fixed=fixed)
        return
    assert profile is not None
    for phase, field in (("prefill", "prefill_factor"), ("decode", "decode_factor")):
        off = 2 * errors[phase] if phase in errors else None
        ends = _STATED if off is None else (max(1 - off, 0.1), 1 + off)
        said = "error not stated" if off is None else f"±{100 * errors[phase]:.1f} % mean error"
        name = f"{_of(kind)}cost of {phase}"
        value = f"profile {profile.name}, {said}"
        present = (own[field],)
        yield Knob(name, value, basis, _STEPS, hours, (f"{here}.cost.{field}",), present, *ends, 1.0, is_factor=True)
    knobs = (("slowdown", "steady rate over burst rate", 1.0, 1.45), ("host0_ms", "host time of a step, ms", 0.5, 2.5))
    resolved = cost_knobs(kind, cell)
    for field, what, low, high in knobs:
        given = own[field] is not None
        present_value = resolved[field]
        yield Knob(
            f"{_of(kind)}{what}",
            f"{present_value:g}",
            "guessed" if given else "documented",
            _STEPS,
            hours,
            (f"{here}.cost.{field}",),
            (),
            min(low, present_value),
            max(high, present_value),
            present_value,
        )


def _of(kind: EngineType) -> str:
    """What a name begins with where a fleet has several types."""
    return f"{kind.name}: " if kind.name else ""


def cell_part(cell: Cell, kind: EngineType) -> dict[str, Any]:
    """What the resolved cell says of one type of engine."""
    part: Any = cell.resolved
    for key in kind.place:
        part = part[key]
    return dict(part)


def _overridden(kind: EngineType, cell: Cell) -> dict[str, Any]:
    """Fields of the engine that are not what the class, its preset, its device and its model say, and what these do."""
    own = kind.engine
    described = shape_of(kind, cell.base)
    plain = resolve(
        EngineSpec(preset=own.preset, device=own.device, model=own.model, tp=own.tp, cost=own.cost),
        described[1] if described else None,
    )
    skipped = ("cost", "device", "model", "tp", "preset", "visibility", "kv_tokens", "memory_share", "other_gib")
    return {
        each.name: getattr(plain, each.name)
        for each in dataclasses.fields(EngineSpec)
        if each.name not in skipped and getattr(kind.engine, each.name) != getattr(plain, each.name)
    }


def _basis(kind: EngineType, name: str) -> Any:
    known = PRESETS[kind.engine.preset].get(name)
    return "documented" if known == getattr(kind.engine, name) else "guessed"


def _gpus(cell: Cell) -> float:
    return float(sum(kind.count * kind.engine.tp for kind in cell.fleet))


_NETWORK: Final = Knob(
    "network",
    "none: a message takes no time",
    who="ping between router and engines",
    gpu_hours=0.0,
    fixed="not modelled; the router's time on the way stands for it",
)


def _around(scenario: Scenario, candidate: str) -> Iterator[Knob]:
    """What lies between the job and its engines: the network, the router, the caps of the client."""
    cell = scenario.arms[scenario.baseline]
    router = cell.resolved["router"]
    yield _NETWORK
    way = router["overhead_s"]
    ends = 0.0, max(0.005, 2 * way)
    yield _number("router: time on the way, s", way, "router.overhead_s", ends, "the router's own metrics")
    yield from _decisions(router.get("decision") or {})
    yield from _reports(router.get("telemetry") or {}, _two(scenario, candidate))
    yield from _ties(scenario, candidate)
    yield from _caps(cell.resolved["client"])


def _decisions(decision: dict[str, Any]) -> Iterator[Knob]:
    """What a choice costs the router, where the scenario says that it costs anything."""
    if decision:
        fields = {f"router.decision.{key}": value for key, value in decision.items() if key.endswith("_s") and value}
        fixed = "" if fields else "it takes no time"
        yield _factor("router: cost of a decision", brief(decision), fields, _HALF_OR_DOUBLE, _PROFILE, fixed=fixed)


def _reports(telemetry: dict[str, Any], cells: list[Cell]) -> Iterator[Knob]:
    """How often engines report to the router, and how old a report is when it arrives."""
    if not telemetry:
        return
    fixed = "" if any(reads(each.router.make_policy()) & {*SIGNALS} for each in cells) else "no policy reads reports"
    least = {"period_s": max(map(_jitter, cells)), "delay_s": 0.0}
    for key, what in (("period_s", "time between reports, s"), ("delay_s", "age of reports at arrival, s")):
        value = telemetry[key]
        low, high = (value / 2, value * 2) if value else (0.0, telemetry["period_s"] / 10)
        ends = max(low, least[key]), high
        yield _number(f"router: {what}", value, f"router.telemetry.{key}", ends, _ROUTERS, fixed=fixed)


_CAPS: Final = ("max_sessions_in_flight", "max_sessions_per_engine", "max_groups_in_flight")


def _caps(client: dict[str, Any]) -> Iterator[Knob]:
    """How many sessions or groups the client keeps under way."""
    caps = {key: client[key] for key in client if key in _CAPS and client[key] is not None}
    for key, value in caps.items():
        yield _factor(f"client: {key}", str(value), {f"client.{key}": value}, _STATED, _JOBS)
    if not caps:
        fixed = "without a cap there is no number to vary: name one under assumptions"
        yield Knob("client: sessions under way", "no cap", "guessed", _JOBS, 0.0, fixed=fixed)


def _two(scenario: Scenario, candidate: str) -> list[Cell]:
    return [scenario.arms[scenario.baseline], scenario.arms[candidate]]


def _jitter(cell: Cell) -> float:
    """Reports may not overtake each other: their period is no shorter than this."""
    telemetry = cell.resolved["router"].get("telemetry") or {}
    return float(telemetry.get("jitter_s") or 0.0)


def _ties(scenario: Scenario, candidate: str) -> Iterator[Knob]:
    """A policy that leaves its rule for ties open: which one the product has may not be known."""
    for cell in _two(scenario, candidate):
        policy = cell.router.policy
        for each in registry.parameters(type(policy)):
            if each.name not in ("tie", "ties"):
                continue
            value = cell.router.parameters.get(each.name, each.default)
            others = tuple(option for option in typing.get_args(each.annotation) if option != value)
            documented = value == each.default
            yield Knob(
                f"arm {cell.arm}: rule for ties",
                str(value),
                "documented" if documented else "guessed",
                "the router's source",
                0.0,
                (f"arms.{cell.arm}.router.policy.{each.name}",),
                options=others,
            )


def _workload(cell: Cell) -> Iterator[Knob]:
    workload = cell.resolved["workload"]
    files = [path.name for path in cell.workload.files(cell.base)]
    if workload["kind"] in RECORDED or workload["kind"] == "sessions":
        shown = f"recorded: {', '.join(files) or workload['kind']}"
        yield Knob("workload", shown, "measured", fixed="it was recorded")
        return
    for key in ("prompt", "turns", "output_tokens", "observation_tokens", "tool_delay_s", "arrivals"):
        value = workload.get(key)
        if value is None:
            continue
        fixed = ""
        if value == 0:
            fixed = "there is none"
        elif key == "turns" and value == 1:
            fixed = "a session has one turn"
        elif key == "arrivals" and not any(each in value for each in ("groups_per_s", "rate_scale")):
            fixed = "it has no rate"
        work = 1.25 if key == "turns" else 1.0
        fields = {f"workload.{key}": value}
        yield _factor(f"workload: {key}", brief(value), fields, _STATED, _LOGS, fixed=fixed, work=work)


def _noise(scenario: Scenario) -> Iterator[Knob]:
    noise = scenario.arms[scenario.baseline].noise
    who, hours = "the same run repeated", _gpus(scenario.arms[scenario.baseline]) * _RUN_H
    for name, what in (("engine_speed_sigma", "speed of engines"), ("step_sigma", "times of steps")):
        value = getattr(noise, name)
        ends = 0.0, max(0.05, 2 * value)
        yield _number(f"noise of the {what}", value, f"fleet.noise.{name}", ends, who, hours)
    published = scenario.real_run_noise == 0.018
    shown = f"{scenario.real_run_noise:.1%}" + (" (a rollout step's wall time, NeMo-RL 3663)" if published else "")
    yield Knob(
        "one real run: noise",
        shown,
        "measured" if published else "guessed",
        who,
        fixed="it moves the number of real pairs (part 11), no simulated ratio; 1.8 % to 15 % are published",
    )
