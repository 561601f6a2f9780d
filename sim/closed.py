"""Closed, typed validation of plain dataclasses: each becomes a pydantic model that refuses unknown keys.

Policies, workloads, engines and cost models stay plain dataclasses; the model is made from their fields. Values are
strict (no text for a number, no bool for an integer) and finite. Ranges follow the unit in a field's name, as words in
this project do: ``_tokens``, ``_blocks``, ``_s``, ``_ms`` and ``_gib`` are not negative, ``_share`` lies in 0..1, no
time is longer than 1e9 seconds (nanoseconds must fit an int64); a field's ``metadata`` (``min``, ``max``) says more.
What else a class refuses, it refuses at construction with a ValueError, which is reported at its place.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from sim import registry
from sim.errors import ScenarioError

Range = tuple[float | None, float | None]

UNITS: dict[str, Range] = {
    "_tokens": (0, None),
    "_blocks": (0, None),
    "_s": (0, 1e9),
    "_ms": (0, 1e12),
    "_gib": (0, None),
    "_share": (0, 1),
}


_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def refuse(message: str, *place: str | int) -> ValidationError:
    """An error with a message of our own at a place below the value being validated."""
    error = PydanticCustomError("refused", "{message}", {"message": message})
    return ValidationError.from_exception_data("scenario", [InitErrorDetails(type=error, loc=place, input=None)])


class Closed(BaseModel):
    """Base of all models: unknown keys fail and name the nearest known one."""

    model_config = _STRICT | ConfigDict(extra="forbid", protected_namespaces=(), arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise PydanticCustomError("refused", "must be a mapping of {known}", {"known": ", ".join(cls.model_fields)})
        for key in value:
            if key not in cls.model_fields:
                known = registry.suggest(key, cls.model_fields) if cls.model_fields else "nothing can be set here"
                raise refuse(f"unknown key; {known}", key)
        return value


def _range(field: "dataclasses.Field[Any]") -> Range:
    named = next((UNITS[unit] for unit in UNITS if field.name.endswith(unit)), (None, None))
    return field.metadata.get("min", named[0]), field.metadata.get("max", named[1])


Places = tuple[tuple[str, registry.Family], ...]
"""Fields of a dataclass that hold a component of a family."""


@cache
def model(cls: type, places: Places = ()) -> type[Closed]:
    """The closed model of a dataclass; a class without fields takes none."""
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception as error:  # noqa: BLE001 - the class may be a user's, and fail in any way
        raise ScenarioError(f"{cls.__name__}: types cannot be read: {registry.first_line(error)}") from None
    docs = registry.field_docs(cls)
    families = dict(places)
    members = {
        each.name: _member(each, hints[each.name], docs.get(each.name), families.get(each.name))
        for each in registry.fields(cls)
    }
    doc = registry.summary(cls)
    return create_model(cls.__name__, __base__=Closed, __module__=cls.__module__, __doc__=doc, **members)  # type: ignore[call-overload,no-any-return]


def _member(
    field: "dataclasses.Field[Any]", hint: Any, doc: str | None, family: registry.Family | None
) -> tuple[Any, Any]:
    annotation = Component(family).annotation | None if family else accept(hint, _range(field))
    if registry.default(field) is dataclasses.MISSING:
        return annotation, Field(description=doc)

    def make_default() -> Any:
        value = registry.default(field)
        # A class may write 60 for a float; it is the same value as the 60.0 that a file gives.
        return float(value) if hint is float else value

    extra = {"default": plain(make_default())}
    return annotation, Field(default_factory=make_default, description=doc, json_schema_extra=extra)


@cache
def built(cls: type, places: Places = ()) -> Any:
    """A type that validates a mapping by the class's model and gives an instance of the class."""

    def build(value: Closed) -> Any:
        try:
            return cls(**{name: getattr(value, name) for name in type(value).model_fields})
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 - a user's class may fail in any way
            raise _at_field(cls, error) from None

    return Annotated[model(cls, places), AfterValidator(build)]


def _at_field(cls: type, error: BaseException) -> ValidationError:
    """Place what a constructor refused at the field that its message opens with, if it does."""
    text = registry.first_line(error) or type(error).__name__
    if not isinstance(error, ValueError | ScenarioError):
        return refuse(f"{cls.__name__} raised {type(error).__name__}: {text}")
    opening = re.match(r"[`\w.]*?(\w+)`?(:? )(.*)", text)
    if opening is None or opening[1] not in {field.name for field in registry.fields(cls)}:
        return refuse(text)
    # The place is shown before the message, so a message need not repeat the name that it opens with.
    stands_alone = opening[2] == ": " or opening[3].startswith(_VERBS)
    return refuse(opening[3] if stands_alone else text, opening[1])


_VERBS = ("must ", "cannot ", "is ", "needs ", "maps ")


def accept(hint: Any, limits: Range = (None, None)) -> Any:
    """The annotation that validates a field's type: dataclasses become closed models, numbers get their range."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return built(hint)
    if hint in (int, float):
        return Annotated[hint, Field(ge=limits[0], le=limits[1])]
    if origin is Annotated:
        return Annotated[(accept(args[0], limits), *args[1:])]
    if origin in (Union, types.UnionType):
        return _union(args, limits)
    if origin is tuple:
        inner = tuple(each if each is ... else accept(each, limits) for each in args)
        return Annotated[tuple[inner], BeforeValidator(_to_tuple)]  # type: ignore[valid-type]
    if origin is dict and args[0] is int:
        # JSON has no integer keys: a resolved scenario that went through it says "7".
        return Annotated[dict[int, accept(args[1], limits)], BeforeValidator(_to_int_keys)]  # type: ignore[misc]
    if origin in (list, dict):
        return origin[tuple(accept(each, limits) for each in args)]
    return list[accept(args[0], limits)] if _is_sequence(origin) else hint  # type: ignore[misc]


def _is_sequence(origin: Any) -> bool:
    return isinstance(origin, type) and origin.__module__ == "collections.abc" and origin.__name__ == "Sequence"


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _to_int_keys(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {int(key) if isinstance(key, str) and key.isdecimal() else key: each for key, each in value.items()}


def _kind_of(cls: Any) -> str | None:
    """The value of a ``kind: Literal[...]`` field, by which alternatives tell themselves apart."""
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return None
    hint = typing.get_type_hints(cls).get("kind")
    return str(typing.get_args(hint)[0]) if typing.get_origin(hint) is Literal else None


def _union(args: tuple[Any, ...], limits: Range) -> Any:
    kinds = {kind: each for each in args if (kind := _kind_of(each))}
    others = [accept(each, limits) for each in args if not _kind_of(each)]
    if not kinds:
        return Union[tuple(others)]  # noqa: UP007 - made at run time
    return OneOf(kinds, Union[tuple(others)] if others else None).annotation  # noqa: UP007


class OneOf:
    """Alternatives told apart by ``kind``, beside plain values (a number, null) where the type allows them."""

    def __init__(self, kinds: Mapping[str, type], other: Any) -> None:
        self._kinds = kinds
        self._plain = TypeAdapter(other, config=_STRICT) if other is not None else None

    @property
    def annotation(self) -> Any:
        """A type for a field."""
        return Annotated[Any, self]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        options = [handler(_adapter(built(each)).core_schema) for each in self._kinds.values()]
        if self._plain is not None:
            options.append(handler(self._plain.core_schema))
        return {"anyOf": options}

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Mapping):
            return _adapter(built(self._choose(value))).validate_python(value, context=info.context)
        known = ", ".join(self._kinds)
        if self._plain is None:
            raise refuse(f"must be a mapping with a kind ({known})")
        try:
            return self._plain.validate_python(value, context=info.context)
        except ValidationError as error:
            if all(each["type"].endswith("_type") for each in error.errors()):
                raise refuse(f"must be a plain value or a mapping with a kind ({known}), not {value!r}") from None
            raise

    def _choose(self, value: Mapping[str, Any]) -> type:
        if "kind" not in value:
            raise refuse(f"required key is missing; known: {', '.join(self._kinds)}", "kind")
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in self._kinds:
            raise refuse(f"unknown kind {kind!r}; {registry.suggest(kind, self._kinds)}", "kind")
        return self._kinds[kind]


@cache
def _adapter_of(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _adapter_of(annotation)
    except TypeError:
        return TypeAdapter(annotation)


@dataclass(frozen=True, slots=True)
class Part:
    """A component that a scenario names: its kind as written, and an instance that holds its parameters."""

    kind: str
    value: Any

    @property
    def resolved(self) -> dict[str, Any]:
        """The component as a scenario could write it, every parameter named."""
        return {"kind": self.kind, **plain(self.value)}

    @property
    def parameters(self) -> dict[str, Any]:
        """What the class is constructed with."""
        return {field.name: getattr(self.value, field.name) for field in registry.fields(type(self.value))}


class Component:
    """A place that takes ``{kind, ...parameters}`` of one family; the kind may be a user's own file."""

    def __init__(self, family: registry.Family) -> None:
        self._family = family

    @property
    def annotation(self) -> Any:
        """A type for a field; values become ``Part``."""
        return Annotated[Any, self]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def _validate(self, value: Any, info: ValidationInfo) -> Part:
        if not isinstance(value, Mapping):
            raise refuse(f"must be a mapping with the kind of a {self._family.noun}")
        kind = value.get("kind")
        if "kind" not in value:
            raise refuse("required key is missing", "kind")
        if not isinstance(kind, str):
            raise refuse(f"must be the name of a {self._family.noun}, not {kind!r}", "kind")
        base: Path = (info.context or {}).get("base", Path())
        try:
            cls = registry.find(self._family, kind, base)
            own = {name: each for name, each in value.items() if name != "kind"}
            return Part(kind, _adapter(built(cls)).validate_python(own, context=info.context))
        except ScenarioError as error:
            raise refuse(str(error), "kind") from None

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        options = [self._option(kind, cls, handler) for kind, cls in registry.scan(self._family).items()]
        own = {
            "type": "object",
            "description": f"A {self._family.noun} of your own: {{kind: ./file.py:Class, ...parameters}}.",
            "properties": {"kind": {"type": "string", "pattern": r"\.py(:\w+)?$"}},
            "required": ["kind"],
        }
        return {"oneOf": [*options, own]}

    def _option(self, kind: str, cls: type, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        option = dict(handler.resolve_ref_schema(handler(_adapter(built(cls)).core_schema)))
        option["title"] = kind
        option["properties"] = {"kind": {"const": kind}, **option.get("properties", {})}
        option["required"] = ["kind", *option.get("required", [])]
        return option


def plain(value: Any) -> Any:
    """A value as YAML and JSON know it: dataclasses become mappings of their public fields."""
    if isinstance(value, Part):
        return value.resolved
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in registry.fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
