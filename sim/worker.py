"""What a worker process of a sweep runs: replications, made into tables.

Apart from ``sim.sweep`` so that a worker that starts loads neither statistics nor reports.
"""

import signal
from collections.abc import Sequence

from sim import interrupts
from sim.foreign import explained
from sim.log.frames import Tables, read_logs
from sim.log.record import Log
from sim.replication import replicate
from sim.scenario import Cell


def simulate(cell: Cell, pairs: Sequence[int]) -> Tables:
    """The tables of some replications of one cell; ScenarioError for what the scenario's own code or numbers break."""
    with explained(cell.arm):
        return read_logs([_interruptible(cell, pair) for pair in pairs], pairs)


def _interruptible(cell: Cell, pair: int) -> Log:
    log = replicate(cell, pair)
    interrupts.check()
    return log


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which stops its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
