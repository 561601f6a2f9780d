"""How evenly a good hash would spread the routing keys that a cell has over its fleet."""

from collections.abc import Iterator
from dataclasses import dataclass

from sim.occupancy import max_over_mean, quantile_over_mean
from sim.scenario._cell import Cell
from sim.scenario._rules import explicit_keys
from sim.workload._model import Workload


@dataclass(frozen=True, slots=True)
class Keys:
    """Routing keys of one kind over a fleet, placed by a good hash."""

    of: str
    """What has a key of its own."""
    keys: int
    engines: int
    per_engine: float
    max_over_mean: float
    """Expected, of the fullest engine."""
    max_over_mean_p95: float
    """95 % quantile of the same."""


def spread_of_keys(cell: Cell, workload: Workload, engines: int | None = None) -> Iterator[Keys]:
    """Of sessions and groups; few engines and many keys are spread evenly, few keys are not."""
    fleet = cell.engines if engines is None else engines
    if fleet < 2:
        return
    explicit = explicit_keys(cell, workload.keys)
    owners = range(workload.sessions) if workload.key_owner is None else workload.key_owner.tolist()
    numbers = {"session": len({key or owner for key, owner in zip(explicit, owners, strict=True)})}
    if workload.groups != numbers["session"]:
        numbers["group"] = workload.groups
    for of, keys in numbers.items():
        worst = quantile_over_mean(keys, fleet)
        yield Keys(of, keys, fleet, keys / fleet, max_over_mean(keys, fleet), worst)
