"""The fleet: from its block in a scenario to the engines that can be run.

Engines are all alike (``engines: 4`` beside ``engine: {...}``), or of named types
(``engines: {old: {count: 4, engine: {...}}, new: {count: 2, engine: {...}}}``). Types are a mapping, so that an arm can
change one of them; a count of 0 leaves it out. Engines are numbered type after type, in order of the types' names.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from sim import foreign, registry
from sim.closed import Closed, Part, built, plain, refuse
from sim.cost import _models
from sim.cost._memory import profile_capacity, shape_capacity
from sim.cost._models import Shape
from sim.cost._profiles import Profile
from sim.engine.spec import EngineSpec, resolve
from sim.scenario._errors import PlacedError, placed
from sim.scenario._yaml import Place
from sim.specs import Change, FailuresSpec, NoiseSpec

MOST_ENGINES: Final = 100_000

TypeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9._-]*$", max_length=40)]
Engine: Any = built(EngineSpec, (("cost", registry.COST),))


class TypeModel(Closed):
    """Engines of a mixed fleet that are alike."""

    count: Annotated[int, Field(ge=0, le=MOST_ENGINES)] = Field(description="Number of engines of this type.")
    engine: Engine = Field(description="One of them.")


class Count:
    """A number of engines that are alike, or a mapping of types."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        adapter: TypeAdapter[Any] = _TYPES if isinstance(value, Mapping) else _NUMBER
        return adapter.validate_python(value, strict=True, context=info.context)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(_NUMBER.core_schema), handler(_TYPES.core_schema)]}


_NUMBER: Final[TypeAdapter[int]] = TypeAdapter(Annotated[int, Field(ge=1, le=MOST_ENGINES)])
_TYPES: Final[TypeAdapter[dict[str, TypeModel]]] = TypeAdapter(
    Annotated[dict[TypeName, TypeModel], Field(min_length=1)]
)


class FleetModel(Closed):
    """The engines: all alike, or of named types."""

    engines: Annotated[Any, Count()] = Field(
        description="Number of engines, all alike; or a mapping of type names to {count, engine}."
    )
    engine: Engine | None = Field(default=None, description="One engine, where all are alike.")
    noise: built(NoiseSpec) = Field(  # type: ignore[valid-type]
        default_factory=NoiseSpec, description="What no recording fixes, as standard deviations."
    )

    changes: list[built(Change)] = Field(  # type: ignore[valid-type]
        default_factory=list, description="What happens to the fleet at given times."
    )
    failures: built(FailuresSpec) | None = Field(  # type: ignore[valid-type]
        default=None, description="Failures of engines at random; absent: none."
    )
    noticed_after_s: Annotated[float, Field(ge=0, le=1e9)] | None = Field(
        default=None,
        description="Time after a failure until whoever manages the fleet takes the engine from the router's list, and "
        "after its return until it is put back. Absent: at once; where the router has `health` or `breaker`, it is "
        "left to these.",
    )

    @model_validator(mode="after")
    def _check_changes(self) -> "FleetModel":
        if self.noticed_after_s is not None and not self.failures and all(each.what != "fail" for each in self.changes):
            raise refuse("has no effect: no engine fails", "noticed_after_s")
        return self

    @model_validator(mode="after")
    def _check_engine(self) -> "FleetModel":
        if isinstance(self.engines, int):
            if self.engine is None:
                raise refuse("required key is missing", "engine")
            return self
        if self.engine is not None:
            raise refuse("has no effect where fleet.engines names types: each has its own engine", "engine")
        total = sum(each.count for each in self.engines.values())
        if not 1 <= total <= MOST_ENGINES:
            raise refuse(f"the counts must sum to 1 or more, at most {MOST_ENGINES:,}, not {total:,}", "engines")
        return self


@dataclass(frozen=True, slots=True)
class Membership:
    """How the fleet changes during a run."""

    changes: tuple[Change, ...] = ()
    failures: FailuresSpec | None = None
    noticed_after_s: float | None = None

    @property
    def is_fixed(self) -> bool:
        """The same engines serve from the beginning to the end."""
        return not self.changes and self.failures is None

    @property
    def joining(self) -> list[str | None]:
        """Type of each engine that joins, in the order of their numbers, which is that of their times."""
        in_time = sorted(self.changes, key=lambda each: each.at_s)
        return [each.type for each in in_time if each.what == "join" for _ in range(each.count)]


@dataclass(frozen=True, slots=True)
class EngineType:
    """Engines of a fleet that are alike."""

    name: str
    """Empty where the whole fleet is alike."""
    count: int
    engine: EngineSpec

    @property
    def place(self) -> Place:
        """Where a scenario describes the engine."""
        return ("fleet", "engines", self.name, "engine") if self.name else ("fleet", "engine")

    @property
    def hardware(self) -> dict[str, Any]:
        """What cost models ask for."""
        return {"device": self.engine.device, "model": self.engine.model, "tp": self.engine.tp}

    @property
    def label(self) -> str:
        """One of these engines, for messages."""
        return f"an engine of type {self.name}" if self.name else "an engine"


def shape_of(kind: EngineType, base: Path) -> tuple[Path, Shape] | None:
    """The description of the model that runs, and its file: the one that the cost model names, else a shipped one."""
    named = getattr(kind.engine.cost, "shape", None)
    if named is None and kind.engine.model not in _models.names():
        return None
    path = _models.locate(named or kind.engine.model, base)
    return path, _models.load(path)


def memory_files(kind: EngineType, base: Path) -> list[Path]:
    """The model description that the capacity is computed from, where the cost model does not say enough."""
    described = None if kind.engine.kv_tokens is not None or _known(_profile(kind, base)) else shape_of(kind, base)
    return [described[0]] if described else []


def _profile(kind: EngineType, base: Path) -> Profile | None:
    """What the cost model knows of weights and KV; a user's own need not know any."""
    load = getattr(kind.engine.cost, "load", None)
    profile: Profile | None = load(**kind.hardware, base=base) if load else None
    return profile


def _known(profile: Profile | None) -> bool:
    return profile is not None and profile.weight_gib_per_gpu is not None and bool(profile.kv_bytes_per_token_per_gpu)


def kv_tokens(kind: EngineType, base: Path) -> int:
    """KV capacity of one engine in tokens: as given, else by the memory of its device and the weights of its model.

    Weights and KV bytes are those of the cost profile, else of the model's description.
    """
    engine = kind.engine
    with placed(*kind.place):
        if engine.kv_tokens is not None:
            return engine.kv_tokens
        assert engine.memory_share is not None
        assert engine.other_gib is not None
        room = {"memory_share": engine.memory_share, "other_gib": engine.other_gib}
        profile, described = _profile(kind, base), shape_of(kind, base)
        if described and not _known(profile):
            return shape_capacity(described[1], engine.device, engine.tp, kv_bits=engine.kv_bits, **room)
        if profile is None:
            raise PlacedError((*kind.place, "kv_tokens"), "is needed: this cost model knows no device memory")
        if engine.kv_bits is not None and profile.kv_bytes_per_token_per_gpu:
            usual = described[1].kv_bits if described else 16
            bytes_per_token = profile.kv_bytes_per_token_per_gpu * engine.kv_bits / usual
            profile = replace(profile, kv_bytes_per_token_per_gpu=bytes_per_token)
        return profile_capacity(profile, engine.device, **room)


def settle(model: FleetModel, base: Path) -> tuple[tuple[EngineType, ...], dict[str, Any]]:
    """The types of engines that a fleet has, and the fleet as plain data with every default named."""
    others = {
        "noise": plain(model.noise),
        "changes": [plain(each) for each in model.changes],
        "failures": None if model.failures is None else plain(model.failures),
        "noticed_after_s": model.noticed_after_s,
    }
    if isinstance(model.engines, int):
        kind, engine = _settle("", model.engines, model.engine, base)
        return (kind,), {"engines": model.engines, "engine": engine, **others}
    kinds: list[EngineType] = []
    types: dict[str, Any] = {}
    for name, each in sorted(model.engines.items()):
        kind, engine = _settle(name, each.count, each.engine, base)
        types[name] = {"count": each.count, "engine": engine}
        if each.count:
            kinds.append(kind)
    return tuple(kinds), {"engines": types, "engine": None, **others}


def membership(model: FleetModel, kinds: Sequence[EngineType]) -> Membership:
    """How the fleet changes; PlacedError for a change of an engine that there is not."""
    found = Membership(tuple(model.changes), model.failures, model.noticed_after_s)
    engines = sum(kind.count for kind in kinds) + len(found.joining)
    names = [kind.name for kind in kinds]
    for number, each in enumerate(found.changes):
        place: Place = ("fleet", "changes", number)
        if each.engine is not None and each.engine >= engines:
            raise PlacedError((*place, "engine"), f"there is no engine {each.engine}: they are 0 to {engines - 1}")
        if each.what == "join" and (each.type or "") not in names:
            known = f"types are {', '.join(names)}" if names != [""] else "all engines of this fleet are alike"
            raise PlacedError((*place, "type"), f"no such type; {known}")
    _refuse_idle_changes(found, engines - len(found.joining))
    return found


def _refuse_idle_changes(fleet: Membership, beginning: int) -> None:
    """PlacedError for a change of an engine that is not there by then: it would change nothing."""
    in_time = sorted(enumerate(fleet.changes), key=lambda each: each[1].at_s)
    joins = [each.at_s for _, each in in_time if each.what == "join" for _ in range(each.count)]
    left_at: dict[int, float] = {}
    gone_at: dict[int, float] = {}
    back_at: dict[int, float] = {}
    for number, each in in_time:
        if each.engine is None:
            continue
        engine, place = each.engine, ("fleet", "changes", number, "engine")
        if engine >= beginning and each.at_s < joins[engine - beginning]:
            raise PlacedError(place, f"engine {engine} joins at {joins[engine - beginning]:g} s, so there is none yet")
        if each.what == "leave" and engine in left_at:
            raise PlacedError(place, f"engine {engine} leaves at {left_at[engine]:g} s already")
        if each.at_s >= gone_at.get(engine, math.inf):
            raise PlacedError(place, f"engine {engine} is gone since {gone_at[engine]:g} s")
        if each.what == "leave":
            left_at[engine] = each.at_s
            gone_at[engine] = math.inf if each.drain_s is None else each.at_s + each.drain_s
        elif each.at_s < back_at.get(engine, -math.inf) and fleet.failures is None:
            raise PlacedError(place, f"engine {engine} is still down at {each.at_s:g} s")
        elif each.what == "fail":
            back_at[engine] = math.inf if each.restart_after_s is None else each.at_s + each.restart_after_s


def _settle(name: str, count: int, spec: Any, base: Path) -> tuple[EngineType, dict[str, Any]]:
    """One type with its defaults; what does not go together is refused at the field that the message opens with."""
    cost = spec.cost or Part("form_d", registry.find(registry.COST, "form_d", Path())())
    kind = EngineType(name, count, replace(spec, cost=cost.value))
    with placed(*kind.place, "model"):
        described = shape_of(kind, base)
    try:
        engine = resolve(kind.engine, described[1] if described else None)
    except ValueError as error:
        field, _, message = str(error).partition(" ")
        raise PlacedError((*kind.place, field.rstrip(":")), message) from None
    shown = {**plain(engine), "cost": cost.resolved}
    return replace(kind, engine=replace(engine, cost=foreign.guard(cost.value))), shown
