"""What a sweep costs beside its simulations: 6 policies x 5 loads x 20 pairs of 2,000 requests, 600 replications.

    python -m benchmarks.sweeping            # one process, then two
    python -m benchmarks.sweeping --pairs 4  # a fifth of it

Time in simulation is what the tasks took where they ran, in wall and in CPU seconds; the rest of the CPU of parent and
workers is overhead: start of the workers, packing and journal, tables, metrics, comparisons. On a busy machine CPU
seconds and their shares hold, wall times do not.
"""

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from sim.scenario import Cell, load_sweep
from sim.sweep import sweep
from sim.sweep._pools import Inline, Pool, Task, processes
from sim.worker import Done

SCENARIO = Path(__file__).with_name("sweep.yaml")
PAGE = 4096 if not hasattr(os, "sysconf") else os.sysconf("SC_PAGE_SIZE")


@dataclass
class Watched:
    """A pool that adds up what its tasks took, and notes the parent's memory as they end."""

    pool: Pool
    seconds: float = 0.0
    memory: list[int] = field(default_factory=list)

    @property
    def workers(self) -> int:
        """Of the pool."""
        return self.pool.workers

    @property
    def depth(self) -> int:
        """Of the pool."""
        return self.pool.depth

    def submit(self, task: Task) -> None:
        """Hand a task on."""
        self.pool.submit(task)

    def next(self) -> tuple[Task, Done]:
        """A task that is done."""
        task, done = self.pool.next()
        self.seconds += done.seconds
        self.memory.append(resident())
        return task, done


@dataclass(frozen=True)
class Measured:
    """One sweep."""

    jobs: int
    wall_s: float
    cpu_s: float
    """Parent and workers."""
    parent_cpu_s: float
    simulated_s: float
    """Wall time of all tasks where they ran."""
    memory: Sequence[int]


def resident() -> int:
    """Bytes of this process in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cpu(who: int) -> float:
    """User and system seconds."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measure(jobs: int, pairs: int) -> Measured:
    """Run the sweep with one process, or with worker processes, and throw its results away."""
    made = load_sweep(SCENARIO, [f"replications.pairs={pairs}"])
    folder = Path(tempfile.mkdtemp())
    wall, own, others = time.perf_counter(), cpu(resource.RUSAGE_SELF), cpu(resource.RUSAGE_CHILDREN)
    try:
        if jobs == 1:
            watched = Watched(Inline())
            sweep(made, out=folder, pool=watched)
        else:
            with processes(jobs) as pool:
                watched = Watched(pool)
                sweep(made, out=folder, pool=watched)
        parent = cpu(resource.RUSAGE_SELF) - own
        workers = cpu(resource.RUSAGE_CHILDREN) - others
        return Measured(jobs, time.perf_counter() - wall, parent + workers, parent, watched.seconds, watched.memory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def simulation_cpu(pairs: int) -> float:
    """CPU seconds of the same replications alone: one pair in ``pairs`` of each cell, scaled up."""
    from sim.worker import simulate

    cells: dict[str, Cell] = {
        cell.hash: cell for variant in load_sweep(SCENARIO).variants for cell in variant.scenario.arms.values()
    }
    for cell in cells.values():
        simulate(cell, [0])  # warm
        break
    start = time.process_time()
    for cell in cells.values():
        simulate(cell, [0])
    return (time.process_time() - start) * pairs


def line(found: Measured, simulated: float) -> str:
    """A row of the table."""
    megabytes = [each / 2**20 for each in found.memory]
    count = len(megabytes)
    memory = " / ".join(f"{megabytes[int(share * (count - 1))]:.0f}" for share in (0.1, 0.5, 1.0))
    return (
        f"| {found.jobs} | {found.wall_s:.1f} | {found.cpu_s:.1f} | {found.cpu_s / found.wall_s:.2f} | "
        f"{simulated / found.cpu_s:.0%} | {found.parent_cpu_s:.1f} | {memory} |"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pairs", type=click.IntRange(min=1), default=20, show_default=True, help="Pairs of each arm.")
@click.option("--jobs", type=click.IntRange(min=1), multiple=True, default=[1, 2], show_default=True)
def main(pairs: int, jobs: tuple[int, ...]) -> None:
    """Measure the sweep and print a table."""
    simulated = simulation_cpu(pairs)
    click.echo(f"simulation alone: {simulated:.1f} CPU s, load {os.getloadavg()[0]:.1f}")
    click.echo("| processes | wall, s | CPU, s | cores used | simulation | CPU of the parent, s | memory of it, MB |")
    click.echo("|--:|--:|--:|--:|--:|--:|--:|")
    for each in jobs:
        click.echo(line(measure(each, pairs), simulated))


if __name__ == "__main__":
    main()
