"""Replays a measured serving run in the simulator and scores it: ``windtunnel calibrate --check``.

RUN is a scenario whose workload is a ``serving_run``, or a folder that holds one such scenario. One replication tells
it all unless the scenario names noise or an uncertain cost: then the replications' scores are what spreads.
"""

from dataclasses import dataclass
from pathlib import Path

from sim.calibration.runs import read_measured
from sim.calibration.score import Score, score
from sim.errors import ScenarioError
from sim.foreign import explained
from sim.replication import replicate
from sim.scenario import Cell, load_scenario
from sim.workload.serving_run import ServingRun


@dataclass(frozen=True, slots=True)
class Checked:
    """Scores of each arm of a scenario, by name of the arm."""

    name: str
    requests: int
    scores: dict[str, list[Score]]


def check(run: str, overrides: tuple[str, ...] = ()) -> Checked:
    """Simulate the first replication of every arm and hold it against the measured run."""
    scenario = load_scenario(locate(run), overrides)
    scores = {arm: check_cell(cell) for arm, cell in scenario.arms.items()}
    requests = max(len(each.measured) for found in scores.values() for each in found)
    return Checked(scenario.name, requests, scores)


def check_cell(cell: Cell, pair: int = 0) -> list[Score]:
    """One replication of a cell against the run that it replays."""
    workload = cell.workload
    if not isinstance(workload, ServingRun):
        raise ScenarioError("nothing to compare with: the workload must be of kind serving_run, a measured run")
    measured = read_measured(cell.base / workload.file, limit=workload.limit)
    with explained(cell.arm):
        return score(measured, replicate(cell, pair))


def locate(run: str) -> str:
    """The scenario itself, or the one YAML file in a folder."""
    folder = Path(run)
    if not folder.is_dir():
        return run
    found = sorted(folder.glob("*.yaml"))
    if len(found) != 1:
        raise ScenarioError(f"{run} must hold one scenario (*.yaml) with its measured run, not {len(found)}")
    return str(found[0])
