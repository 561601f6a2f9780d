"""What a review checks of its own runs before it believes them.

conservation   offered = finished + failed + rejected + aborted + unfinished, in every pair of both arms
ledger         lines sum to engines x makespan in every pair (raises otherwise, see ``sim.report.ledger``)
determinism    replication 0 of each arm run once more gives the stored tables, value by value
null controls  see ``_controls.py``
"""

import hashlib
from typing import Final

import polars as pl

from sim.log.frames import NAMES, Tables, read_logs
from sim.replication import replicate
from sim.review._controls import controls
from sim.review._model import Check
from sim.scenario import Cell, Scenario

STATES: Final = ("finished", "failed", "rejected", "aborted", "unfinished")


def verify(scenario: Scenario, names: tuple[str, str], tables: dict[str, Tables]) -> list[Check]:
    """Every check of the two arms."""
    cells = scenario.arms[names[0]], scenario.arms[names[1]]
    return [
        *(_conserved(name, tables[name]) for name in names),
        *(Check("ledger", f"arm {name}: lines sum to engines x makespan in every pair", held=True) for name in names),
        *(_repeats(cell, tables[name]) for cell, name in zip(cells, names, strict=True)),
        *controls(cells, names, tables),
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
    says = f"arm {cell.arm}: replication 0, run again, gives the stored tables (requests {digest(again.requests)})"
    return Check("determinism", says + (f"; {', '.join(differ)} differ" if differ else ""), not differ)


def digest(requests: pl.DataFrame) -> str:
    """Of every integer of a table of requests: what another machine must find for the same replication."""
    found = hashlib.sha256()
    for name in sorted(requests.columns):
        if requests[name].dtype == pl.Int64:
            found.update(name.encode() + requests[name].to_numpy().astype("<i8").tobytes())
    return found.hexdigest()[:16]
