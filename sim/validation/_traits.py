"""What kind of world a case has, in a few words, so that a review can say which cases resemble its own.

    presets, devices, models   of the engines
    policies                   kinds of the routing policies
    shapes                     siblings or single sessions, one turn or many, all at once or over time
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from sim.rng import Streams
from sim.scenario import Cell


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
    totals = workload.summary()
    who = "groups of siblings" if totals["sessions"] > totals["groups"] else "single sessions"
    turns = "many turns" if totals["requests"] > totals["sessions"] else "one turn"
    when = "over time" if (workload.arrival_s > 0).any() else "all at once"
    return f"{who}, {turns}, {when}"
