"""Has the replications of many cells run, stores each as it is done, and the whole of a cell when its last is there.

A cell that is stored already, made by the same code, is not run again, and one that was left half-way goes on where it
stopped. Tasks are sized to take a moment each, so little is lost when all is killed; their sizes and order enter no
result: a cell's tables are put together in the order of its pairs.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from sim import interrupts
from sim.errors import LawError, ScenarioError
from sim.foreign import explained
from sim.log import frames, store
from sim.log.packed import unpack
from sim.log.record import Log
from sim.scenario import Cell
from sim.sweep._pools import Inline, Pool, Task, cores, processes
from sim.sweep._stored import values_of
from sim.worker import Done

MOMENT_S: Final = 0.3
"""Time that one task should take."""
MOST_IN_TASK: Final = 256
WORTH_S: Final = 1.5
"""Time that a second process must save before it is started: loading one takes about half of that."""
HOPELESS: Final = 3
"""Failures without a success after which a cell is given up."""

Finished = Callable[["Run"], Sequence["Run"]]
"""Told of a cell whose wanted pairs are all stored; answers which cells want more."""


@dataclass(slots=True, eq=False)
class Run:
    """One cell under way."""

    cell: Cell
    folder: Path
    wanted: int
    """Pairs 0 to this are wanted."""
    stored: int = 0
    """Pairs 0 to this are in the stored result."""
    tabled: int = 0
    """Of them, those whose tables an earlier command stored; the others are in the journal too."""
    journal: set[int] = field(default_factory=set)
    """Pairs beyond them that are done and stored one by one."""
    dealt: int = 0
    """Pairs 0 to this were dealt out."""
    in_flight: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    is_lost: bool = False
    """None of its replications ran to an end."""
    seconds: float = 0.0
    ran: int = 0

    def remaining(self) -> int:
        """Pairs that are still to be dealt."""
        return max(self.wanted - self.dealt, 0)

    def take(self, count: int) -> tuple[int, ...]:
        """The next pairs to run, at most this many."""
        pairs: list[int] = []
        while len(pairs) < count and self.dealt < self.wanted:
            if self.dealt >= max(self.stored, self.tabled) and self.dealt not in self.journal:
                pairs.append(self.dealt)
            self.dealt += 1
        return tuple(pairs)

    @property
    def is_complete(self) -> bool:
        """Everything wanted has ended, well or not."""
        return self.dealt >= self.wanted and not self.in_flight

    @property
    def is_settled(self) -> bool:
        """And what there is of it is stored."""
        return self.is_complete and (self.stored >= self.wanted or self.is_lost)


class Collector:
    """Runs cells below one folder or several, which it holds for itself; use it as a context."""

    def __init__(
        self,
        folders: Iterable[Path],
        *,
        jobs: int | None,
        keep_tables: bool = True,
        fresh: bool = False,
        manifest: Callable[[Run], dict[str, Any]],
        told: Callable[[int, int], None] | None = None,
        pool: Pool | None = None,
        until: float | None = None,
    ) -> None:
        """``jobs`` None: as many workers as there are cores, once they are worth their start.

        No task begins after ``until``, a time of the monotonic clock.
        """
        self.folders = dict.fromkeys(folders)
        self.jobs = jobs
        self.keep_tables = keep_tables
        self.fresh = fresh
        self.manifest = manifest
        self.told = told
        self.pool: Pool = pool or Inline()
        self.is_given = pool is not None
        self.until = until
        self.runs: dict[Path, Run] = {}
        """By the place of the result."""
        self.done = 0
        self._under_way: dict[Task, Run] = {}
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for folder in self.folders:
                store.prepare(folder)
                opened.enter_context(store.locked(folder))
            self.stack = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    @property
    def is_over(self) -> bool:
        """The time that was given is over."""
        return self.until is not None and time.monotonic() > self.until

    def want(self, cell: Cell, pairs: int, folder: Path) -> Run:
        """Ask for pairs 0 to this of a cell, below one of the folders; what is there already is found."""
        run = self.runs.get(folder / cell.hash)
        if run is None:
            run = self.runs[folder / cell.hash] = Run(cell, folder / cell.hash, 0)
            if self.fresh:
                store.Journal(run.folder).discard()
            else:
                measured, run.tabled = _stored(run.folder, self.manifest(run))
                if run.tabled or not self.keep_tables:
                    run.stored = measured if run.tabled or measured >= pairs else 0
                run.journal = {pair for pair, _ in _journal(run.folder) if pair >= run.tabled}
        if pairs > run.stored > run.tabled and not run.journal.issuperset(range(run.tabled, run.stored)):
            run.stored = run.dealt = 0  # of these pairs only measures are left, which cannot be added to
        if pairs > run.wanted:
            there = {*range(max(run.stored, run.tabled)), *run.journal}
            self.done += sum(run.wanted <= pair < pairs for pair in there)
        run.wanted = max(run.wanted, pairs)
        return run

    def collect(self, finished: Finished) -> None:
        """Run what is wanted until nothing is."""
        waiting = list(self.runs.values())
        self._say()
        while waiting or self._under_way:
            while len(self._under_way) < self.pool.depth and (task := self._next(waiting)) is not None:
                self.pool.submit(task)
            if self._under_way:
                self._take(*self.pool.next())
                interrupts.check()
                self._grow(waiting)
            for run in [run for run in waiting if run.is_complete]:
                waiting.remove(run)
                self._finish(run)
                waiting += [each for each in finished(run) if each not in waiting]
            self._say()

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _next(self, waiting: list[Run]) -> Task | None:
        """The next task, of the first cell that has one; none is begun once the time is over."""
        if self.is_over:
            for run in waiting:
                run.wanted = min(run.wanted, run.dealt)
        for run in waiting:
            if run.remaining() and (pairs := run.take(self._size(run))):
                run.in_flight += 1
                task = Task(run.cell, pairs)
                self._under_way[task] = run
                return task
        return None

    def _size(self, run: Run) -> int:
        if not run.ran:
            return 1
        size = min(int(MOMENT_S * run.ran / max(run.seconds, 1e-9)), MOST_IN_TASK)
        return max(min(size, run.remaining() // (2 * self.pool.workers)), 1)

    def _take(self, task: Task, done: Done) -> None:
        run = self._under_way.pop(task)
        run.in_flight -= 1
        run.seconds += done.seconds
        run.ran += len(task.pairs)
        if done.logs:
            store.Journal(run.folder).add(done.logs)
            run.journal |= done.logs.keys()
        run.failures |= done.failures
        self.done += len(task.pairs)
        if len(run.failures) >= HOPELESS and not run.journal and not run.stored:
            run.wanted = min(run.wanted, run.dealt)

    def _grow(self, waiting: list[Run]) -> None:
        """Start worker processes once they save more time than they take."""
        if self.is_given or self._under_way or not isinstance(self.pool, Inline):
            return
        workers = cores() if self.jobs is None else self.jobs
        if workers == 1:
            return
        known = [run for run in waiting if run.ran]
        each = sum(run.seconds for run in known) / max(sum(run.ran for run in known), 1)
        left = sum(run.remaining() for run in waiting)
        if self.jobs is not None or left * each * (1 - 1 / workers) > WORTH_S:
            self.pool = self.stack.enter_context(processes(min(workers, max(left, 1))))

    def _say(self) -> None:
        if self.told is not None:
            self.told(self.done, sum(run.wanted for run in self.runs.values()))

    # -- cells -------------------------------------------------------------------------------------------------------

    def _finish(self, run: Run) -> None:
        """Put a cell's tables together and store them with what they measure.

        All pairs are measured at once: sums of floats depend, in the last bit, on what stands beside them.
        """
        if run.wanted <= run.stored:
            self._retell(run)
            return
        logs = {pair: log for pair, log in _journal(run.folder) if run.tabled <= pair < run.wanted}
        parts = [store.read(run.folder, run.tabled)] if run.tabled else []
        if logs:
            pairs = sorted(logs)
            with explained(run.cell.arm):
                parts.append(frames.read_logs([logs.pop(pair) for pair in pairs], pairs))
        elif not parts:
            run.is_lost = True
            return
        tables = frames.concat(parts)
        failures = {str(pair): text for pair, text in sorted(run.failures.items())}
        run.stored = max(run.wanted, run.tabled)
        manifest = {**self.manifest(run), "pairs": run.stored, "failures": failures}
        store.write(
            run.folder,
            tables if self.keep_tables else None,
            manifest,
            values_of(run.cell, tables, manifest["warm_up_s"]),
        )
        run.stored = run.wanted

    def _retell(self, run: Run) -> None:
        """What a scenario says beside its cells may have changed since the cell was stored."""
        known = store.read_manifest(run.folder) or {}
        if (said := {**known, **self.manifest(run)}) != known:
            store.write_manifest(run.folder, said)

    def settle(self, run: Run) -> None:
        """No more pairs of this cell will be wanted: what it was put together from is forgotten."""
        store.Journal(run.folder).discard()

    def settle_all(self) -> None:
        """No more pairs of any cell will be wanted."""
        for run in self.runs.values():
            self.settle(run)


def _journal(folder: Path) -> Iterator[tuple[int, Log]]:
    for pair, data in store.Journal(folder).read():
        if (log := unpack(data)) is not None:
            yield pair, log


def _stored(folder: Path, manifest: dict[str, Any]) -> tuple[int, int]:
    """Pairs of a stored result whose measures, and whose tables, may stand for new ones: same code, none failed."""
    found = store.read_manifest(folder)
    if found is None or any(found.get(key) != manifest[key] for key in ("hash", "code", "versions")):
        return 0, 0
    if found.get("failures") or not (folder / f"{store.VALUES}.parquet").is_file():
        return 0, 0
    pairs = int(found["pairs"])
    is_measured = found.get("warm_up_s") == manifest["warm_up_s"]
    return pairs if is_measured else 0, pairs if store.has_tables(folder) else 0


def give_up(run: Run) -> ScenarioError:
    """What kept every replication of a cell from running; a fault of the program is raised with its traceback."""
    pair, text = min(run.failures.items())
    if "\n" in text:
        raise LawError(f"arm {run.cell.arm}, pair {pair}, seed {run.cell.seed}:\n{text}")
    return ScenarioError(text)
