"""Time taken by one run: CPU and wall, of the simulation alone and with its log written to disk.

CPU seconds are those of all threads of the process, and of processes that it started and that have ended. Repetitions
of different works take turns, with the cost of a bare SimPy timeout measured in between: on a machine that others use
too, their ratio says more than either.
"""

import resource
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import simpy

from policies import _hashes
from sim.log import frames, store
from sim.replication import replicate
from sim.scenario import Cell

T = TypeVar("T")
TIMEOUTS = 200_000


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds that something took."""

    cpu: float
    wall: float

    def __add__(self, other: "Span") -> "Span":
        return Span(self.cpu + other.cpu, self.wall + other.wall)

    def __sub__(self, other: "Span") -> "Span":
        return Span(self.cpu - other.cpu, self.wall - other.wall)

    def __truediv__(self, count: float) -> "Span":
        return Span(self.cpu / count, self.wall / count)


@dataclass(frozen=True, slots=True)
class Run:
    """One replication."""

    requests: int
    simulated: Span
    """The replication, its log in memory."""
    written: Span
    """The same, with the log made into tables and these written to disk."""


def now() -> Span:
    """The clocks as they stand."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Span(time.process_time() + ended.ru_utime + ended.ru_stime, time.perf_counter())


def span(work: Callable[[], object]) -> Span:
    """What some work takes."""
    start = now()
    work()
    return now() - start


def run(cell: Cell) -> Run:
    """Run replication 0 of a cell and write its log. Keys are hashed anew, as those of another replication would be."""
    for kept in vars(_hashes).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()
    start = now()
    log = replicate(cell, 0)
    simulated = now() - start
    with tempfile.TemporaryDirectory() as folder:
        start = now()
        tables = frames.read_logs([log], [0])
        store.write(Path(folder) / "result", tables, {})
        written = simulated + (now() - start)
    return Run(tables.requests.height, simulated, written)


def timeout() -> Span:
    """A process that yields one timeout after the other: what SimPy itself costs, for each of them."""
    env = simpy.Environment()

    def process() -> Generator[simpy.Event, None, None]:
        for _ in range(TIMEOUTS):
            yield env.timeout(1)

    env.process(process())
    return span(env.run) / TIMEOUTS


def take_turns(works: Mapping[str, Callable[[], T]], repeat: int) -> tuple[dict[str, list[T]], list[Span]]:
    """Results of each work, ``repeat`` times, and as many costs of a bare timeout."""
    results: dict[str, list[T]] = {name: [] for name in works}
    bare = []
    for _ in range(repeat):
        bare.append(timeout())
        for name, work in works.items():
            results[name].append(work())
    return results, bare


def typical(spans: list[Span]) -> Span:
    """Median of each clock."""
    return Span(median(each.cpu for each in spans), median(each.wall for each in spans))


def best(spans: list[Span]) -> Span:
    """Least of each clock."""
    return Span(min(each.cpu for each in spans), min(each.wall for each in spans))
