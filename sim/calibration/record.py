"""Errors of steps and of whole runs against measurements, as data that ships with the program.

    windtunnel calibrate --published tests/data/calibration --record sim/calibration/record.json

makes it again from the tables that docs/calibration.md shows. Errors are relative, simulated over measured less 1: mean
of the absolute ones, bias (mean with its sign), and the mean of the worst tenth. Steps are those that a fit has not
seen. Runs are whole simulated runs; their points are single requests, or means that somebody published.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy as np

FILE: Final = "record.json"
WORST: Final = 10
"""The worst tenth."""
DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Error:
    """Of some steps or runs."""

    points: int
    mean: float
    """Mean absolute error."""
    bias: float
    worst: float
    """Mean absolute error of the worst tenth, of one point at least."""

    @classmethod
    def of(cls, errors: Sequence[float] | np.ndarray[Any, np.dtype[np.float64]]) -> "Error":
        """Of relative errors, at least one."""
        values = np.asarray(errors, dtype=float)
        size = np.sort(np.abs(values))[::-1]
        worst = size[: max(1, len(size) // WORST)]
        return cls(len(values), *(round(float(each), DIGITS) for each in (size.mean(), values.mean(), worst.mean())))


@dataclass(frozen=True, slots=True)
class StepErrors:
    """A shipped profile against steps."""

    profile: str
    against: str
    """What the steps are."""
    phases: dict[str, Error]


@dataclass(frozen=True, slots=True)
class RunErrors:
    """Whole runs of one engine in one band of load."""

    engine: str
    preset: str
    device: str
    load: str
    quantities: dict[str, Error]
    """By ``ttft``, ``tpot``, ``e2e`` and ``makespan``, as far as they were published."""


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """Everything that was held against measurements."""

    results_version: int
    steps: tuple[StepErrors, ...]
    runs: tuple[RunErrors, ...]

    def steps_of(self, profile: str) -> StepErrors | None:
        """Those of a profile by its name."""
        return next((each for each in self.steps if each.profile == profile), None)


def dump(record: CalibrationRecord) -> str:
    """As JSON, an engine a line."""
    parts = {
        name: ",\n  ".join(json.dumps(asdict(each)) for each in getattr(record, name)) for name in ("steps", "runs")
    }
    body = ",\n ".join(f'"{name}": [\n  {lines}\n ]' for name, lines in parts.items())
    return f'{{"results_version": {record.results_version},\n {body}\n}}\n'


@cache
def read_calibration() -> CalibrationRecord:
    """What ships."""
    data = json.loads((resources.files("sim.calibration") / FILE).read_text(encoding="utf-8"))
    steps = tuple(StepErrors(**{**each, "phases": _errors(each["phases"])}) for each in data["steps"])
    runs = tuple(RunErrors(**{**each, "quantities": _errors(each["quantities"])}) for each in data["runs"])
    return CalibrationRecord(data["results_version"], steps, runs)


def _errors(data: dict[str, Any]) -> dict[str, Error]:
    return {name: Error(**each) for name, each in data.items()}
