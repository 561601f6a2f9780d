"""What a scenario takes for given: fields, how their values are known, and what else they may be."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from sim import registry
from sim.errors import ScenarioError
from sim.scenario import _merge
from sim.scenario._yaml import Document, Origin, Place

Basis = Literal["measured", "documented", "guessed"]
ARMS: Final = "arms"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One entry of a scenario's ``assumptions``."""

    field: str
    """Dotted path into a cell; ``arms.NAME.`` before it for one arm alone."""
    range: tuple[float, float] | None
    values: tuple[Any, ...]
    basis: Basis
    who: str | None
    gpu_hours: float | None
    says: str | None
    origin: Origin
    """Where it is written."""

    @property
    def ends(self) -> tuple[Any, ...]:
        """What the field may be at the outside: both ends, or each other value."""
        return self.range or self.values

    @property
    def document(self) -> dict[str, Any]:
        """As a file could say it."""
        said = {
            "field": self.field,
            "range": list(self.range) if self.range else None,
            "values": list(self.values) or None,
            "basis": self.basis,
            "who": self.who,
            "gpu_hours": self.gpu_hours,
            "says": self.says,
        }
        return {key: value for key, value in said.items() if value is not None}


def place_in(field: str, arm: str) -> Place | None:
    """Where a field stands in the cell of an arm; None where it is a field of another arm alone."""
    parts = _merge.place_of(field)
    if parts[0] != ARMS:
        return parts
    return parts[2:] if str(parts[1]) == arm else None


def check_field(field: str, arms: list[str], blocks: tuple[str, ...], at: Origin) -> None:
    """Refuse a path that begins nowhere; the rest of it is checked as an arm's override is."""
    parts = _merge.place_of(field)
    known: list[str] = [*blocks, ARMS]
    if parts[0] == ARMS and len(parts) > 2:
        if str(parts[1]) not in arms:
            raise ScenarioError(f"{at}: no arm is named {str(parts[1])!r}; {registry.suggest(parts[1], arms)}")
        parts, known = parts[2:], list(blocks)
    if parts[0] not in blocks or len(parts) < 2 or "" in parts:
        raise ScenarioError(
            f"{at}: {field!r} is no field of a cell; paths begin with a block, as fleet.engines does: "
            f"{registry.suggest(str(parts[0]), known)}"
        )


def check_place(resolved: dict[str, Any], place: Place, at: Origin) -> None:
    """Refuse a path that a cell does not have."""
    part: Any = resolved
    for key in place:
        if not isinstance(part, dict) or key not in part:
            hint = registry.suggest(str(key), part) if isinstance(part, dict) else "it has no parts"
            raise ScenarioError(f"{at}: {'.'.join(map(str, place))}: a cell has no {str(key)!r} there; {hint}")
        part = part[key]


def lay(document: Document, resolved: dict[str, Any], place: Place, value: Any, at: Origin) -> Document:
    """A cell's document with one value laid over it; components that it leaves to their defaults get their kind."""
    for length in range(1, len(place)):
        above = place[:length]
        kind = value_at(resolved, (*above, "kind"))
        if kind is not None and value_at(document.data, (*above, "kind")) is None and _is_open(document.data, above):
            document = _merge.lay(document, (*above, "kind"), kind, at.file, at.line)
    return _merge.lay(document, place, value, at.file, at.line)


def _is_open(data: Any, place: Place) -> bool:
    """Whether a mapping can be laid there: nothing is, or a mapping."""
    return isinstance(value_at(data, place), dict | None)


def value_at(data: Any, place: Place) -> Any:
    """What plain data hold at a place; None where there is nothing."""
    for part in place:
        if not isinstance(data, dict) or part not in data:
            return None
        data = data[part]
    return data
