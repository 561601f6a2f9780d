"""What a review checks of its own runs before it believes them.

conservation   offered = finished + failed + rejected + aborted + unfinished, in every pair of both arms
ledger         lines sum to engines x makespan in every pair (raises otherwise, see ``sim.report.ledger``)
determinism    replication 0 of each arm run once more gives the stored tables, value by value
one engine     both arms on a fleet of one engine give the same requests: routing has nothing to decide there
null controls  arms that the scenario marks as such decide like the arm that they equal
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from sim.log.frames import NAMES, Tables, read_logs
from sim.replication import replicate
from sim.scenario import Cell, Scenario

STATES: Final = ("finished", "failed", "rejected", "aborted", "unfinished")
MOST_ALONE: Final = 5_000
"""Requests that are run on one engine; more would take longer than the answer is worth."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it says, and whether it held; None where it does not apply."""

    name: str
    says: str
    held: bool | None


def verify(scenario: Scenario, names: tuple[str, str], tables: dict[str, Tables]) -> list[Check]:
    """Every check of the two arms."""
    cells = [scenario.arms[name] for name in names]
    return [
        *(_conserved(name, tables[name]) for name in names),
        *(Check("ledger", f"arm {name}: lines sum to engines x makespan in every pair", held=True) for name in names),
        *(_repeats(cell, tables[name]) for cell, name in zip(cells, names, strict=True)),
        _alone(cells, names, tables),
    ]


def _conserved(name: str, tables: Tables) -> Check:
    counts = dict(tables.requests["status"].cast(pl.String).value_counts().iter_rows())
    rows = tables.requests.height
    parts = ", ".join(f"{counts.get(each, 0):,} {each}" for each in STATES)
    held = sum(counts.get(each, 0) for each in STATES) == rows
    return Check("conservation", f"arm {name}: {rows:,} attempts = {parts}", held)


def _repeats(cell: Cell, stored: Tables) -> Check:
    again = read_logs([replicate(cell, 0)], [0])
    differ = [
        name for name in NAMES if not getattr(again, name).equals(getattr(stored, name).filter(pl.col("pair") == 0))
    ]
    says = f"arm {cell.arm}: replication 0, run again, gives the stored tables"
    return Check("determinism", says + (f"; {', '.join(differ)} differ" if differ else ""), not differ)


def _alone(cells: list[Cell], names: tuple[str, str], tables: dict[str, Tables]) -> Check:
    """On one engine no routing can differ, as long as no router refuses or holds."""
    says = "one engine: both arms give the same requests"
    sizes = [tables[name].requests.filter(pl.col("pair") == 0).height for name in names]
    if reason := next(filter(None, (_unfit(cell, tables[name]) for cell, name in zip(cells, names, strict=True))), ""):
        return Check("null control", f"{says}: not run, {reason}", held=None)
    if max(sizes) > MOST_ALONE:
        return Check("null control", f"{says}: not run, {max(sizes):,} requests are too many for one", held=None)
    alone = [read_logs([replicate(_of_one(cell), 0)], [0]).requests for cell in cells]
    return Check("null control", says, alone[0].equals(alone[1]))


def _unfit(cell: Cell, tables: Tables) -> str:
    fleet = cell.resolved["fleet"]
    if not isinstance(fleet["engines"], int) or fleet["changes"] or fleet["failures"]:
        return "the fleet is mixed or changes"
    if tables.decisions.select(((pl.col("engine") < 0) | (pl.col("waited_s") > 0)).any()).item():
        return f"the router of arm {cell.arm} refuses or holds requests"
    return ""


def _of_one(cell: Cell) -> Cell:
    fleet = {**cell.resolved["fleet"], "engines": 1}
    return Cell.from_resolved({**cell.resolved, "fleet": fleet}, cell.base, cell.arm)
