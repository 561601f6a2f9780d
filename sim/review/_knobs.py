"""Something that may be otherwise: fields of a cell, the range they may lie in, and the settings at any point of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sim.scenario import Basis

Level = Any
"""A number within a range, a factor of the present values, or one of several values."""

_SCALED: Final = ("value", "low", "high", "median", "mean", "scale", "groups_per_s", "rate_scale")
"""Fields of distributions, and of arrivals, that multiply what is drawn."""


@dataclass(frozen=True, slots=True)
class Knob:
    """An assumption of the register, or a size of the workload and the fleet."""

    name: str
    value: str
    """As it stands, for reading."""
    basis: Basis = "guessed"
    who: str = ""
    """Who could measure it, or how."""
    gpu_hours: float | None = None
    """What measuring it takes."""
    fields: tuple[str, ...] = ()
    """Dotted paths into a cell; all are set together."""
    present: tuple[Any, ...] = ()
    """What the cell has there, for levels that are factors."""
    low: float | None = None
    high: float | None = None
    centre: float | None = None
    """The level at which the cell is as it stands; None where it says nothing of the field."""
    options: tuple[Any, ...] = ()
    """Other values, instead of a range."""
    is_factor: bool = False
    """Levels multiply the present values."""
    is_whole: bool = False
    work: float = 1.0
    """Requests at the high end over those at the centre."""
    fixed: str = ""
    """Why it is not varied."""
    says: str = ""
    id: str = ""

    @property
    def is_varied(self) -> bool:
        """It has a field and somewhere else to be."""
        return not self.fixed and bool(self.options or self.low is not None)

    @property
    def is_numeric(self) -> bool:
        """Its levels are numbers of a range."""
        return self.is_varied and not self.options

    @property
    def ends(self) -> tuple[Level, ...]:
        """Levels of the tornado; an end that is the centre itself is none."""
        if not self.is_varied:
            return ()
        if self.options:
            return self.options
        return tuple(each for each in (self.low, self.high) if each != self.centre)

    def at(self, share: float) -> Level:
        """The level at a point of 0..1: of the range, or of the values with the present one among them."""
        if self.options:
            every = (None, *self.options)
            return every[min(int(share * len(every)), len(every) - 1)]
        assert self.low is not None
        assert self.high is not None
        level = self.low + share * (self.high - self.low)
        return round(level) if self.is_whole else level

    def settings(self, level: Level) -> dict[str, Any]:
        """What is laid over the arms; nothing for the present value among others."""
        if level is None or level == self.centre:
            return {}
        if self.is_factor:
            return {field: scaled(value, level) for field, value in zip(self.fields, self.present, strict=True)}
        value = int(level) if self.is_whole else level
        return dict.fromkeys(self.fields, value)

    def shown(self, level: Level) -> str:
        """A level for reading."""
        if self.is_factor:
            return f"× {level:.3g}"
        if isinstance(level, bool) or not isinstance(level, int | float):
            return brief(level)
        return f"{level:,}" if isinstance(level, int) else f"{level:.4g}"

    @property
    def range(self) -> str:
        """What it may be, for reading."""
        if not self.is_varied:
            return "–"
        if self.options:
            return " or ".join(self.shown(each) for each in self.options)
        return f"{self.shown(self.low)} to {self.shown(self.high)}"


def scaled(value: Any, factor: float) -> Any:
    """A number, a distribution or a mapping of them with what is drawn multiplied; whole numbers stay whole."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return max(round(value * factor), min(value, 1))
    if isinstance(value, float):
        return float(f"{value * factor:.12g}")
    if isinstance(value, list):
        return [scaled(each, factor) for each in value]
    if value.get("kind") == "mixture":
        return {**value, "parts": [{**each, "value": scaled(each["value"], factor)} for each in value["parts"]]}
    if value.get("kind") == "binomial":
        return {**value, "trials": scaled(value["trials"], factor)}
    if value.get("kind") == "geometric":
        return {**value, "mean": max(value["mean"] * factor, float(value["least"]))}
    names = _SCALED if "kind" in value else tuple(value)
    return {key: scaled(each, factor) if key in names else each for key, each in value.items()}


def brief(value: Any) -> str:
    """A value of a scenario on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {brief(each)}" for key, each in value.items() if each is not None)
    if isinstance(value, list):
        return ", ".join(brief(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
