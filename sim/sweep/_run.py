"""All replications of all arms of one scenario, or of its variants, stored and compared."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim.errors import ScenarioError
from sim.report.result import Arm, Result, assemble
from sim.report.warn import warnings_of
from sim.scenario import Scenario, check
from sim.sweep._collect import Collector, Run, give_up
from sim.sweep._enough import Enough, budget_s
from sim.sweep._pools import Pool
from sim.sweep._stored import arm_of, manifest

Progress = Callable[[int, int], None]
"""Told how many replications are done, and of how many."""
Decided = Callable[[str, Result | ScenarioError], None]
"""Told of each variant that is decided: its result, or what kept an arm from running."""


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
    found: list[Result | ScenarioError] = []
    run_all(
        {"": scenario},
        lambda _, result: found.append(result),
        jobs=jobs,
        out=out,
        fresh=fresh,
        progress=progress,
        pool=pool,
    )
    if isinstance(found[0], ScenarioError):
        raise found[0]
    return found[0]


def run_all(
    scenarios: Mapping[str, Scenario],
    decided: Decided,
    *,
    jobs: int | None,
    out: str | Path,
    keep_tables: bool = True,
    fresh: bool = False,
    progress: Progress | None = None,
    pool: Pool | None = None,
) -> None:
    """Run the arms of several scenarios together; cells that scenarios of one name share are run once."""
    if jobs is not None and jobs < 1:
        raise ScenarioError(f"jobs must be 1 or more, not {jobs}")
    warnings = {name: check(scenario).warnings for name, scenario in scenarios.items()}
    enough = {name: Enough(scenario) for name, scenario in scenarios.items()}
    budget = budget_s(scenarios)
    folders = {name: Path(out) / scenario.name for name, scenario in scenarios.items()}
    first: dict[Path, Scenario] = {}
    names: dict[Path, dict[str, None]] = {}
    for name, scenario in scenarios.items():
        first.setdefault(folders[name], scenario)
        for arm, cell in scenario.arms.items():
            names.setdefault(folders[name] / cell.hash, {})[arm] = None
    open_variants = dict(scenarios)

    def runs_of(name: str) -> dict[str, Run]:
        """By arm."""
        return {arm: collector.runs[folders[name] / cell.hash] for arm, cell in scenarios[name].arms.items()}

    def want(name: str) -> Iterator[Run]:
        for arm, cell in scenarios[name].arms.items():
            run = collector.want(cell, enough[name].wanted[arm], folders[name])
            if not run.is_complete:
                yield run

    with Collector(
        folders.values(),
        jobs=jobs,
        keep_tables=keep_tables,
        fresh=fresh,
        manifest=lambda run: manifest(first[run.folder.parent], [*names[run.folder]], run.cell),
        told=progress,
        pool=pool,
        until=None if budget is None else time.monotonic() + budget,
    ) as collector:

        def advance(_: Run) -> Iterator[Run]:
            """What the variants want that have all they wanted so far."""
            for name, scenario in list(open_variants.items()):
                runs = runs_of(name)
                if not all(each.is_settled for each in runs.values()):
                    continue
                may_go_on = not collector.is_over and not any(each.is_lost for each in runs.values())
                if may_go_on and enough[name].go_on(_arms(scenario, runs, enough[name].wanted)):
                    yield from want(name)
                    continue
                del open_variants[name]
                decided(name, _result(scenario, runs, enough[name], warnings[name]))
            wanted = {run.folder for name in open_variants for run in runs_of(name).values()}
            for each in collector.runs.values():
                if each.is_complete and each.folder not in wanted:
                    collector.settle(each)

        for name in scenarios:
            for _ in want(name):
                pass
        collector.collect(lambda run: list(advance(run)))


def _arms(scenario: Scenario, runs: Mapping[str, Run], wanted: Mapping[str, int]) -> list[Any]:
    controls = scenario.null_controls
    return [
        arm_of(name, cell, runs[name].folder, min(wanted[name], runs[name].stored), null_control=name in controls)
        for name, cell in scenario.arms.items()
    ]


def _result(
    scenario: Scenario, runs: Mapping[str, Run], enough: Enough, known: Sequence[str]
) -> Result | ScenarioError:
    """The arms of a scenario whose cells have all been run; the error of one that did not run at all."""
    for run in runs.values():
        if run.is_lost:
            return give_up(run)
    found = _arms(scenario, runs, enough.wanted)
    if not all(arm.values.height for arm in found):
        return ScenarioError("the time was over before every arm had run a pair")
    if scenario.warm_up_s and not any(arm.values["makespan_s"].max() for arm in found):
        return ScenarioError(f"replications.warm_up_s: no replication is longer than {scenario.warm_up_s:g} s")
    warnings = [*known, *_failures(scenario, runs), *_too_late(scenario, found)]
    if len(found) == 1:
        warnings.append(f"only the baseline {found[0].name} ran: nothing is compared")
    every = dict.fromkeys([*warnings, *warnings_of(found, scenario.metrics)])
    result = assemble(scenario.name, scenario.baseline, scenario.metrics, found, list(every))
    notes = [enough.note]
    if scenario.warm_up_s:
        notes.append(f"the first {scenario.warm_up_s:g} s of each replication are not measured")
    failures = sum(len(run.failures) for run in runs.values())
    return replace(result, failures=failures, notes=[note for note in notes if note])


def _too_late(scenario: Scenario, found: Sequence[Arm]) -> Iterator[str]:
    """Changes of a fleet that no replication lived to see."""
    for arm in found:
        longest = max((value for value in arm.values["makespan_s"] if value is not None), default=0.0)
        end = longest + (scenario.warm_up_s or 0.0)
        for number, change in enumerate(scenario.arms[arm.name].membership.changes):
            if change.at_s > end:
                yield (
                    f"arm {arm.name}: fleet.changes.{number} did not happen: it is to come after {change.at_s:g} s, "
                    f"the longest replication takes {end:.4g} s"
                )


def _failures(scenario: Scenario, runs: Mapping[str, Run]) -> Iterator[str]:
    for name, cell in scenario.arms.items():
        failures = runs[name].failures
        if failures:
            pair, text = min(failures.items())
            yield (
                f"arm {name}: {len(failures)} of {runs[name].wanted} replications failed; pair {pair}, seed "
                f"{cell.seed}: {text.strip().splitlines()[-1]}"
            )
