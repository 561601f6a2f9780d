"""What a worker process of a sweep runs: replications, made into bytes.

Apart from ``sim.sweep`` so that a worker that starts loads neither tables nor statistics nor reports.
"""

import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from sim import interrupts
from sim.errors import ScenarioError
from sim.foreign import explained
from sim.log.packed import pack
from sim.replication import replicate
from sim.scenario import Cell


@dataclass(frozen=True, slots=True)
class Done:
    """What became of the pairs of one task."""

    logs: dict[int, bytes]
    """Packed logs of those that ran to their end."""
    failures: dict[int, str]
    """What ended the others: one line of a scenario's own error, or the traceback of a fault of the program."""
    seconds: float
    """Time that the task took, for the size of the next one; it enters no result."""


def packed(cell: Cell, pair: int) -> bytes:
    """The packed log of one replication; ScenarioError for what the scenario's own code or numbers break."""
    with explained(cell.arm):
        return pack(replicate(cell, pair))


def simulate(cell: Cell, pairs: Sequence[int]) -> Done:
    """Run some replications of one cell; one that raises does not keep the others from running."""
    start = time.perf_counter()
    logs: dict[int, bytes] = {}
    failures: dict[int, str] = {}
    for pair in pairs:
        try:
            logs[pair] = packed(cell, pair)
        except ScenarioError as error:
            failures[pair] = str(error)
        except Exception:  # noqa: BLE001 - whatever it is, it is told with its pair, and the others run
            failures[pair] = traceback.format_exc()
        interrupts.check()
    return Done(logs, failures, time.perf_counter() - start)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which stops its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
