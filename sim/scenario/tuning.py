"""An arm whose numbers are to be tuned: ranges as the command line says them, and the cell of any point within."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sim import registry
from sim.errors import ScenarioError
from sim.scenario import _merge
from sim.scenario._cell import Cell
from sim.scenario._load import BLOCKS, Scenario, _arm, _cell, assemble, open_document
from sim.scenario._yaml import Document
from sim.stats.tuning import Parameter, Point

SAYS: Final = "must be path=low..high, as in router.policy.cache_threshold=0.1..0.9"


@dataclass(frozen=True, slots=True)
class Tuning:
    """A scenario, one of its arms, and the parameters of it that are tuned."""

    scenario: Scenario
    arm: str
    space: tuple[Parameter, ...]
    start: Point
    """The arm's own values, inside the ranges or not."""
    document: Document

    def cell(self, point: Point, seed: int | None = None) -> Cell:
        """The arm with other values."""
        document = self.document
        for parameter, value in zip(self.space, point, strict=True):
            document = _lay(document, self.arm, parameter.name, int(value) if parameter.is_integer else value)
        return _cell(_arm(document, self.arm), self.arm, self.scenario.seed if seed is None else seed, self._base)

    def name(self, point: Point) -> str:
        """A point in words."""
        parts = zip(self.space, point, strict=True)
        return ", ".join(f"{each.name.rpartition('.')[2]}={value:g}" for each, value in parts)

    def reseeded(self, seed: int) -> "Tuning":
        """The same under another seed."""
        return replace(self, scenario=self.scenario.select(seed=seed))

    @property
    def _base(self) -> Path:
        return self.scenario.path.resolve().parent


def load_tuning(
    path_or_name: str | Path, parameters: Sequence[str], *, arm: str | None = None, overrides: Sequence[str] = ()
) -> Tuning:
    """The tuning of a file's arm; each parameter is said as ``path=low..high``, with ``:log`` behind it if so.

    ScenarioError, one line, for whatever a user did wrong.
    """
    document, path = open_document(path_or_name, overrides)
    scenario = assemble(document, path)
    name = _which(scenario, arm)
    if not parameters:
        raise ScenarioError(f"nothing to tune: name a number with --param, which {SAYS}")
    space = tuple(_parameter(each, scenario.arms[name]) for each in parameters)
    for index, each in enumerate(space):
        if each.name in [other.name for other in space[:index]]:
            raise ScenarioError(f"--param {each.name}: named twice")
    start = tuple(float(_present(scenario.arms[name], each.name)) for each in space)
    made = Tuning(scenario, name, space, start, document)
    for corner in (tuple(each.low for each in space), tuple(each.high for each in space)):
        made.cell(corner)  # a range that the scenario refuses is refused before anything runs
    return made


def _which(scenario: Scenario, arm: str | None) -> str:
    if arm is not None:
        if arm not in scenario.arms:
            raise ScenarioError(f"--arm {arm}: no such arm; {registry.suggest(arm, scenario.arms)}")
        return arm
    others = [name for name in scenario.arms if name != scenario.baseline] or [scenario.baseline]
    if len(others) > 1:
        raise ScenarioError(f"several arms could be tuned: name one with --arm: {', '.join(scenario.arms)}")
    return others[0]


def _parameter(word: str, cell: Cell) -> Parameter:
    dotted, equals, text = word.partition("=")
    name, (span, colon, scale) = dotted.strip(), text.strip().partition(":")
    low_text, dots, high_text = span.partition("..")
    if not name or not equals or not dots or (colon and scale != "log"):
        raise ScenarioError(f"--param {word}: {SAYS}; a logarithmic range ends in :log")
    try:
        low, high = float(low_text), float(high_text)
    except ValueError:
        raise ScenarioError(f"--param {word}: {SAYS}") from None
    if not -1e300 < low < high < 1e300:
        raise ScenarioError(f"--param {word}: the low end must be below the high end, both finite")
    if colon and low <= 0:
        raise ScenarioError(f"--param {word}: a logarithmic range needs ends above 0")
    present = _present(cell, name)
    is_integer = isinstance(present, int)
    if is_integer and not (low.is_integer() and high.is_integer()):
        raise ScenarioError(f"--param {word}: {name} is a whole number, {present} here: so must the ends be")
    if is_integer:
        low, high = int(low), int(high)
    return Parameter(name, low, high, is_integer=is_integer, is_log=bool(colon))


def _present(cell: Cell, name: str) -> Any:
    """The value that an arm has now."""
    part: Any = cell.resolved
    for depth, key in enumerate(_merge.place_of(name)):
        known = [each for each in part if depth or each in BLOCKS] if isinstance(part, dict) else []
        is_there = key in known if isinstance(part, dict) else _is_index(part, key)
        if not is_there:
            hint = registry.suggest(str(key), known) if known else "it has no parts"
            raise ScenarioError(f"--param {name}: arm {cell.arm} has no {key!r} there; {hint}")
        part = part[key]
    if part is None:
        where = f"arms.{cell.arm}.{name}" if cell.arm else name
        raise ScenarioError(f"--param {name}: it is null here; give it a value to begin with, as in --set {where}=1")
    if isinstance(part, bool) or not isinstance(part, int | float):
        raise ScenarioError(f"--param {name}: only a number can be tuned, this is {part!r}")
    return part


def _is_index(part: Any, key: int | str) -> bool:
    return isinstance(part, list) and isinstance(key, int) and key < len(part)


def _lay(document: Document, arm: str, name: str, value: float) -> Document:
    place = _merge.place_of(name)
    inside = ("arms", arm, *place) if "arms" in document.data else place
    return _merge.lay(document, inside, value, f"--param {name}")
