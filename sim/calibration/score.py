"""A simulated run against a measured one, request by request: how far off are its times?

Relative errors of makespan, and of TTFT, TPOT (requests of two tokens or more) and end to end time: of the mean, of the
median and the 99th percentile over requests, and the mean and 90th percentile of the absolute error of single requests.
TTFT under load is mostly queueing, so it magnifies small errors of a step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.errors import ScenarioError
from sim.log.record import FINISHED, Log

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Score:
    """Measured and simulated values of one quantity in seconds, and the errors between them."""

    quantity: str
    measured: Floats
    """One value a request; of the makespan one value."""
    simulated: Floats

    def error(self, value: Callable[[Floats], Any]) -> float:
        """Relative error of a statistic over requests."""
        return float(value(self.simulated)) / float(value(self.measured)) - 1

    @property
    def mean(self) -> float:
        """Relative error of the mean."""
        return self.error(np.mean)

    @property
    def p50(self) -> float:
        """Relative error of the median."""
        return self.error(np.median)

    @property
    def p99(self) -> float:
        """Relative error of the 99th percentile."""
        return self.error(lambda values: np.quantile(values, 0.99))

    @property
    def per_request(self) -> Floats:
        """Absolute relative error of each request."""
        return np.abs(self.simulated / self.measured - 1)


def score(measured: Log, simulated: Log) -> list[Score]:
    """Makespan, TTFT, TPOT and end to end time of the same requests in two runs."""
    runs = [_finished(measured), _finished(simulated)]
    if not np.array_equal(runs[0].request, runs[1].request):
        raise ScenarioError(
            f"the simulated run finished {len(runs[1].request)} of the {len(runs[0].request)} measured requests: "
            "give the engine the memory that the measured one had"
        )
    many = runs[0].tokens > 1
    spans = [np.array([run.ended.max() - run.submitted.min()]) for run in runs]
    tpot = [((run.ended - run.first_token) / np.maximum(run.tokens - 1, 1))[many] for run in runs]
    return [
        Score("makespan", *spans),
        Score("ttft", *(run.first_token - run.submitted for run in runs)),
        *([Score("tpot", *tpot)] if many.any() else []),
        Score("e2e", *(run.ended - run.submitted for run in runs)),
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    """Finished requests by id, times in seconds."""

    request: Floats
    submitted: Floats
    first_token: Floats
    ended: Floats
    tokens: Floats


def _finished(log: Log) -> _Run:
    rows = log.numpy("requests")
    order = np.argsort(rows["request"])
    order = order[rows["status"][order] == FINISHED]
    submitted, first_token, ended = (rows[name][order] * log.tick_s for name in ("submitted", "first_token", "ended"))
    tokens = rows["output_tokens"][order].astype(np.float64)
    return _Run(rows["request"][order].astype(np.float64), submitted, first_token, ended, tokens)
