"""Where replications run: in this process, in worker processes of this machine, or (``_ray``) on a Ray cluster.

A pool takes tasks and gives them back done, in any order: results never depend on which pool it was. A worker process
that dies takes its tasks with it; they are dealt anew, and a task that saw several workers die counts as failed.

Each worker has a pipe of its own. In a ``ProcessPoolExecutor`` all of them write into one, so a worker that is killed
within a message leaves the reader waiting for the rest of it.
"""

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final, Protocol

from sim import interrupts
from sim.errors import ScenarioError
from sim.scenario import Cell
from sim.worker import Done, serve, simulate

MOST_DEATHS: Final = 5
"""Workers that may die while they run a task before it counts as failed."""
EXIT_S: Final = 5
"""How long a worker that has closed its pipe may take to say what it died of."""
UNSTARTED: Final = (
    "a worker process ended with the error above; a script that runs with several jobs needs "
    'if __name__ == "__main__": around its calls, as each worker imports it'
)
DIED: Final = "the worker process died, probably for want of memory: try fewer jobs"


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Some replications of one cell."""

    cell: Cell
    pairs: tuple[int, ...]


class Pool(Protocol):
    """Runs tasks."""

    workers: int

    @property
    def depth(self) -> int:
        """Tasks that it should hold, so that no worker waits for one."""

    def submit(self, task: Task) -> None:
        """Take a task."""

    def next(self) -> tuple[Task, Done]:
        """Wait for one of the tasks to be done."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Inline:
    """Runs a task when somebody waits for it."""

    workers = 1
    depth = 1

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        """Take a task."""
        self._tasks.append(task)

    def next(self) -> tuple[Task, Done]:
        """Run the oldest task."""
        task = self._tasks.popleft()
        return task, simulate(task.cell, task.pairs)


@dataclass(slots=True, eq=False)
class _Worker:
    """One process, its end of the pipe, and the tasks that it holds: it runs the first."""

    process: SpawnProcess
    pipe: "Connection[tuple[Cell, tuple[int, ...]], Done]"
    tasks: deque[Task] = field(default_factory=deque)


@dataclass(slots=True)
class Processes:
    """Worker processes of this machine, kept warm; use it within ``processes``."""

    workers: int
    _running: list[_Worker] = field(default_factory=list)
    _failed: list[tuple[Task, Done]] = field(default_factory=list)
    _deaths: dict[Task, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """One task for each worker to run, one to go on with."""
        return 2 * self.workers

    def submit(self, task: Task) -> None:
        """Take a task."""
        if len(self._running) < self.workers:
            self._start()
        worker = min(self._running, key=lambda worker: len(worker.tasks))
        worker.tasks.append(task)
        with suppress(OSError):  # a worker that has died is found where its results are waited for
            worker.pipe.send((task.cell, task.pairs))

    def next(self) -> tuple[Task, Done]:
        """Wait for one of the tasks to be done."""
        while not self._failed:
            pipes = {worker.pipe: worker for worker in self._running}
            worker = pipes[wait(list(pipes))[0]]  # type: ignore[index]
            try:
                done = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
            else:
                return worker.tasks.popleft(), done
        return self._failed.pop()

    def stop(self) -> None:
        """End the workers, whatever they are doing: they have nothing to leave in order."""
        with interrupts.deferred():
            _end(self._running)
            self._running.clear()

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        with interrupts.held():  # by the worker too, which else could be interrupted while it starts
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()  # so that the pipe ends with the worker
            self._running.append(_Worker(process, ours))

    def _bury(self, worker: _Worker) -> None:
        """Deal the tasks of a worker that died anew; ScenarioError where the next one would end like it."""
        self._running.remove(worker)
        worker.process.join(EXIT_S)
        _end([worker])
        if worker.process.exitcode == 1:
            raise ScenarioError(UNSTARTED)
        if worker.tasks:
            self._deaths[worker.tasks[0]] = deaths = self._deaths.get(worker.tasks[0], 0) + 1
            if deaths >= MOST_DEATHS:
                task = worker.tasks.popleft()
                self._failed.append((task, Done({}, dict.fromkeys(task.pairs, DIED), 0.0)))
        for task in worker.tasks:
            self.submit(task)


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.pipe.close()


@contextmanager
def processes(workers: int) -> Iterator[Processes]:
    """Worker processes that never outlive the block."""
    pool = Processes(workers)
    try:
        yield pool
    finally:
        pool.stop()
