"""All replications of all arms, in one process or several, stored and compared.

Replications are independent, so they are dealt to workers in chunks of the same size whatever the number of workers,
and put together in the order of arms and pairs: the bytes written do not depend on ``jobs``. An arm is stored,
measured and forgotten as soon as its last chunk is there. Workers ignore Ctrl-C; the parent stops them, and a result
that was not complete is not there.
"""

import importlib.metadata
import multiprocessing
import platform
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sim import interrupts, metrics
from sim.errors import ScenarioError
from sim.log import frames, store
from sim.log.frames import Tables
from sim.report.placements import Placed, place
from sim.report.result import Arm, Result, assemble
from sim.report.warn import digest, warnings_of
from sim.scenario import RESULTS_VERSION, Cell, Scenario, check
from sim.scenario._rules import reads_key
from sim.worker import ignore_interrupts, simulate

Progress = Callable[[int, int], None]
"""Told how many replications are done, and of how many."""

CHUNKS: Final = 16
"""Parts that the pairs of one arm are cut into, at most."""
VERSIONED: Final = ("windtunnel", "simpy", "numpy", "polars", "scipy", "blake3", "xxhash")


def run(
    scenario: Scenario,
    *,
    pairs: int | None = None,
    seed: int | None = None,
    arms: Sequence[str] | None = None,
    jobs: int = 1,
    out: str | Path = "results",
    progress: Progress | None = None,
) -> Result:
    """Run a scenario, store the tables of each arm below ``out``, and compare.

    ``pairs``, ``seed`` and ``arms`` override what the scenario says; the baseline always runs. ScenarioError for what a
    user can put right: an unknown arm, an output folder that cannot be written.
    """
    scenario = scenario.select(pairs=pairs, seed=seed, arms=arms)
    if jobs < 1:
        raise ScenarioError(f"jobs must be 1 or more, not {jobs}")
    known = check(scenario).warnings
    folder = Path(out) / scenario.name
    store.prepare(folder)
    size = -(-scenario.pairs // CHUNKS)
    chunks = [range(start, min(start + size, scenario.pairs)) for start in range(0, scenario.pairs, size)]
    cells = list(scenario.arms.values())
    done, total = 0, scenario.pairs * len(cells)
    found: list[Arm] = []
    with _results([(cell, chunk) for cell in cells for chunk in chunks], jobs) as results:
        for cell in cells:
            parts = []
            for chunk in chunks:
                parts.append(next(results))
                interrupts.check()
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            found.append(_finish(scenario, cell, frames.concat(parts), folder))
    if len(found) == 1:
        known = [*known, f"only the baseline {found[0].name} ran: nothing is compared"]
    warnings = dict.fromkeys([*known, *warnings_of(found, scenario.metrics)])
    return assemble(scenario.name, scenario.baseline, scenario.metrics, found, list(warnings))


@contextmanager
def _results(tasks: list[tuple[Cell, range]], jobs: int) -> Iterator[Iterator[Tables]]:
    """Tables of the tasks, in their order, from this process or from workers that never outlive the block."""
    if jobs == 1 or len(tasks) == 1:
        yield (simulate(cell, chunk) for cell, chunk in tasks)
        return
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=ignore_interrupts)
    try:
        with interrupts.held():  # by the workers too, which else could be interrupted while they start
            futures = [executor.submit(simulate, cell, chunk) for cell, chunk in tasks]
        yield _in_order(futures)
    except BaseException:
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _in_order(futures: list["Future[Tables]"]) -> Iterator[Tables]:
    futures.reverse()
    while futures:
        try:
            yield futures.pop().result()
        except BrokenProcessPool:
            raise ScenarioError("a worker process died, probably for want of memory: try fewer jobs") from None


def _finish(scenario: Scenario, cell: Cell, tables: Tables, out: Path) -> Arm:
    """Store one arm and keep of it what a comparison needs."""
    folder = out / cell.hash
    store.write(folder, tables, _manifest(scenario, cell))
    return Arm(
        name=cell.arm,
        hash=cell.hash,
        folder=folder,
        values=metrics.measure(tables),
        decisions=digest(tables.decisions),
        groups=tables.groups.height // tables.replications.height,
        placed=_placed(cell, tables),
        null_control=cell.arm in scenario.null_controls,
        is_hashed=cell.router.policy.places_by_hash,
    )


def _manifest(scenario: Scenario, cell: Cell) -> dict[str, Any]:
    versions = {name: importlib.metadata.version(name) for name in VERSIONED}
    return {
        "scenario": scenario.name,
        "arms": [name for name, other in scenario.arms.items() if other.hash == cell.hash],
        "cell": cell.resolved,
        "hash": cell.hash,
        "seed": cell.seed,
        "pairs": scenario.pairs,
        "results_version": RESULTS_VERSION,
        "versions": {"python": platform.python_version(), **versions},
    }


def _placed(cell: Cell, tables: Tables) -> Placed | None:
    scope = cell.client.scope
    if scope == "request" or not reads_key(cell):
        return None
    return place(tables.requests, scope, cell.engines)
