"""All replications of all arms of one scenario, stored and compared."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sim.errors import ScenarioError
from sim.report.result import Result, assemble
from sim.report.warn import warnings_of
from sim.scenario import Cell, Scenario, check
from sim.sweep._collect import Collector, Run, give_up
from sim.sweep._pools import Pool
from sim.sweep._stored import arm_of, manifest

Progress = Callable[[int, int], None]
"""Told how many replications are done, and of how many."""


def run(
    scenario: Scenario,
    *,
    pairs: int | None = None,
    seed: int | None = None,
    arms: Sequence[str] | None = None,
    jobs: int | None = 1,
    out: str | Path = "results",
    fresh: bool = False,
    progress: Progress | None = None,
    pool: Pool | None = None,
) -> Result:
    """Run a scenario, store the tables of each arm below ``out``, and compare.

    ``pairs``, ``seed`` and ``arms`` override what the scenario says; the baseline always runs. ``jobs``: worker
    processes, None for one a core where the work is worth their start; ``pool`` runs the replications elsewhere. What
    is stored already is not run again, unless ``fresh``. ScenarioError for what a user can put right: an unknown arm,
    an output folder that cannot be written.
    """
    scenario = scenario.select(pairs=pairs, seed=seed, arms=arms)
    if jobs is not None and jobs < 1:
        raise ScenarioError(f"jobs must be 1 or more, not {jobs}")
    known = check(scenario).warnings

    def described(cell: Cell) -> dict[str, object]:
        names = [name for name, other in scenario.arms.items() if other.hash == cell.hash]
        return {**manifest(scenario.name, names, cell), "real_run_noise": scenario.real_run_noise}

    def settled(done: Run) -> Sequence[Run]:
        collector.settle(done)
        return ()

    folder = Path(out) / scenario.name
    with Collector(folder, jobs=jobs, fresh=fresh, manifest=described, told=progress, pool=pool) as collector:
        for cell in scenario.arms.values():
            collector.want(cell, scenario.pairs)
        collector.collect(settled)
    for each in collector.runs.values():
        if each.is_lost:
            give_up(each)
    return compared(scenario, collector.runs, scenario.pairs, known)


def compared(scenario: Scenario, runs: dict[str, Run], pairs: int, known: Sequence[str]) -> Result:
    """The arms of a scenario whose cells have all been run."""
    found = [
        arm_of(name, cell, runs[cell.hash].folder, pairs, null_control=name in scenario.null_controls)
        for name, cell in scenario.arms.items()
    ]
    warnings = [*known, *_failures(scenario, runs)]
    if len(found) == 1:
        warnings.append(f"only the baseline {found[0].name} ran: nothing is compared")
    every = dict.fromkeys([*warnings, *warnings_of(found, scenario.metrics)])
    result = assemble(scenario.name, scenario.baseline, scenario.metrics, found, list(every))
    return replace(result, failures=sum(len(runs[cell.hash].failures) for cell in scenario.arms.values()))


def _failures(scenario: Scenario, runs: dict[str, Run]) -> Iterator[str]:
    for name, cell in scenario.arms.items():
        failures = runs[cell.hash].failures
        if failures:
            pair, text = min(failures.items())
            yield (
                f"arm {name}: {len(failures)} of {runs[cell.hash].wanted} replications failed; pair {pair}, seed "
                f"{cell.seed}: {text.strip().splitlines()[-1]}"
            )
