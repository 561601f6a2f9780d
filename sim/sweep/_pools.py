"""Where replications run: in this process, in worker processes of this machine, or (``_ray``) on a Ray cluster.

A pool takes tasks and gives them back done, in any order: results never depend on which pool it was. A worker process
that dies takes its tasks with it; they are dealt anew, and a task that saw several workers die counts as failed.
"""

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from sim import interrupts
from sim.scenario import Cell
from sim.worker import Done, ignore_interrupts, simulate

MOST_DEATHS: Final = 5
"""Workers that may die while they hold a task before it counts as failed."""
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


@dataclass(slots=True)
class Processes:
    """Worker processes of this machine, kept warm; use it within ``processes``."""

    workers: int
    _executor: ProcessPoolExecutor | None = None
    _futures: dict["Future[Done]", Task] = field(default_factory=dict)
    _done: list[tuple[Task, Done]] = field(default_factory=list)
    _deaths: dict[Task, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """One task for each worker to run, one to go on with."""
        return 2 * self.workers

    def submit(self, task: Task) -> None:
        """Take a task."""
        with interrupts.held():  # by the workers too, which else could be interrupted while they start
            try:
                self._futures[self._running().submit(simulate, task.cell, task.pairs)] = task
            except BrokenProcessPool:
                self._bury([task])

    def next(self) -> tuple[Task, Done]:
        """Wait for one of the tasks to be done."""
        while not self._done:
            finished, _ = wait(self._futures, return_when=FIRST_COMPLETED)
            lost = []
            for future in finished:
                task = self._futures.pop(future)
                try:
                    self._done.append((task, future.result()))
                except BrokenProcessPool:
                    lost.append(task)
            if lost:
                self._bury(lost)
        return self._done.pop()

    def stop(self) -> None:
        """End the workers, whatever they are doing."""
        if self._executor is not None:
            workers = list((self._executor._processes or {}).values())
            self._executor.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join()
        self._executor = None

    def _running(self) -> ProcessPoolExecutor:
        if self._executor is None:
            spawn = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self.workers, mp_context=spawn, initializer=ignore_interrupts)
        return self._executor

    def _bury(self, lost: list[Task]) -> None:
        """A worker died, and with it the pool: start another, and deal what was under way anew."""
        lost += self._futures.values()
        self._futures.clear()
        self.stop()
        for task in lost:
            self._deaths[task] = deaths = self._deaths.get(task, 0) + 1
            if deaths < MOST_DEATHS:
                self.submit(task)
            else:
                self._done.append((task, Done({}, dict.fromkeys(task.pairs, DIED), 0.0)))


@contextmanager
def processes(workers: int) -> Iterator[Processes]:
    """Worker processes that never outlive the block."""
    pool = Processes(workers)
    try:
        yield pool
    finally:
        pool.stop()
