"""What a worker process of a sweep runs: replications, made into bytes.

Apart from ``sim.sweep`` so that a worker that starts loads neither tables nor statistics nor reports.
"""

import signal
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue

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


def serve(pipe: "Connection[Done, tuple[Cell, tuple[int, ...]]]") -> None:
    """What a worker process does: run what comes through the pipe, in its order, until the parent is gone.

    Ctrl-C is the parent's, which stops its workers. Tasks are read while another runs, so the parent never waits to
    be rid of one while its worker waits to be rid of a result.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tasks: SimpleQueue[tuple[Cell, tuple[int, ...]] | None] = SimpleQueue()
    threading.Thread(target=_read, args=(pipe, tasks), daemon=True).start()
    with suppress(OSError):
        while (task := tasks.get()) is not None:
            pipe.send(simulate(*task))


def _read(
    pipe: "Connection[Done, tuple[Cell, tuple[int, ...]]]", tasks: "SimpleQueue[tuple[Cell, tuple[int, ...]] | None]"
) -> None:
    try:
        while True:
            tasks.put(pipe.recv())
    except (EOFError, OSError):
        pass
    finally:
        tasks.put(None)
