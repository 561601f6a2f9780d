"""What kind of world a case has, in a few words, so that a review can say which cases resemble its own.

Presets, devices and models are those of the engines, policies the kinds of the routing policies. A shape says whether
sessions share prompts, have one turn or many, and come all at once or over time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from sim.rng import Streams
from sim.scenario import Cell
from sim.workload._describe import describe

SHARED: Final = 0.05
"""Share of a first prompt, on average, from which sessions are said to share it."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Each in the order of its names, every name once."""

    presets: tuple[str, ...]
    devices: tuple[str, ...]
    models: tuple[str, ...]
    policies: tuple[str, ...]
    shapes: tuple[str, ...]

    def shared(self, other: "Traits") -> list[str]:
        """Traits of which the two have a value in common."""
        names = [each.name for each in fields(self)]
        return [name for name in names if set(getattr(self, name)) & set(getattr(other, name))]


def traits_of(cells: Iterable[Cell]) -> Traits:
    """Of some arms; each workload is generated once, for its shape."""
    cells = list(cells)
    engines = [kind.engine for cell in cells for kind in cell.fleet]
    worlds = {repr(cell.resolved["workload"]): cell for cell in cells}
    return Traits(
        presets=_names(str(each.preset) for each in engines),
        devices=_names(str(each.device) for each in engines),
        models=_names(str(each.model) for each in engines),
        policies=_names(str(cell.resolved["router"]["policy"]["kind"]) for cell in cells),
        shapes=_names(_shape(cell) for cell in worlds.values()),
    )


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values) - {"None"}))


def _shape(cell: Cell) -> str:
    workload = cell.workload.generate(Streams(cell.seed), cell.base)
    own = describe(workload)
    first, shared = (own.quantities[name].mean() for name in ("first prompt, tokens", "shared part of it, tokens"))
    prompts = "shared prompts" if shared > SHARED * first else "prompts of their own"
    turns = "many turns" if own.totals["requests"] > own.totals["sessions"] else "one turn"
    return f"{prompts}, {turns}, {'over time' if own.last_arrival_s > 0 else 'all at once'}"
