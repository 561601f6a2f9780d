"""What kind of run the workload makes, and for a steady one what is left when its start-up is cut.

    terminating    everything is there at the start, or sessions run out: the run is the unit, nothing is cut
    steady         arrivals of one law go on and on: the start-up is not what is asked about
    changing       recorded, rising or daily arrivals: the change is the question, nothing is cut

The cut is MSER-5 on end-to-end times in order of submission, averaged over pairs, the later one of both arms, so both
lose the same requests. Stored metrics cover whole runs; here the mean end-to-end time after the cut is compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from sim import stats
from sim.log import store
from sim.report.sides import Side
from sim.stats import Floats, Ratio
from sim.stats.steady import BATCHES, Batches, batch_means, mser5

Regime = Literal["terminating", "steady", "changing"]

STEADY: Final = ("poisson", "gamma", "on_off")
CHANGING: Final = ("ladder", "diurnal", "recorded")
SAYS: Final[dict[Regime, str]] = {
    "terminating": "terminating runs: nothing is cut, replications are the sample",
    "steady": "steady load: replications are the sample; `windtunnel compare` cuts their start-up by MSER-5",
    "changing": "arrivals that change over time: nothing is cut, replications are the sample",
}
FEWEST: Final = 100
"""Requests of a replication below which no start-up is looked for."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A steady load without its start-up."""

    cut: int
    """Requests that are left out of every replication."""
    requests: int
    """Of a replication, as far as all of them go."""
    is_settled: bool
    paired: Ratio
    """Mean end-to-end time after the cut."""
    batches: tuple[Batches, Batches] | None
    """By batch means, baseline first, where there is one replication alone."""


def regime(workload: Mapping[str, Any]) -> Regime:
    """The kind of run, from the resolved workload."""
    arrivals = workload.get("arrivals")
    kind = arrivals.get("kind") if isinstance(arrivals, Mapping) else None
    if kind in STEADY:
        return "steady"
    if kind in CHANGING or (kind is None and workload.get("kind") in ("trace", "serving_run", "requests")):
        return "changing"
    return "terminating"


def settled(baseline: Side, candidate: Side) -> Settled | None:
    """The comparison after the start-up; None unless both sides are stored with their requests under a steady load."""
    series = []
    for side in (baseline, candidate):
        if side.manifest is None or regime(side.manifest["cell"]["workload"]) != "steady":
            return None
        if not store.has_tables(side.path):
            return None
        series.append(_series(store.read(side.path).requests))
    pairs = sorted(series[0].keys() & series[1].keys())
    length = min((len(each[pair]) for each in series for pair in pairs), default=0)
    if length < FEWEST:
        return None
    cuts = [mser5(np.mean([each[pair][:length] for pair in pairs], axis=0)) for each in series]
    cut = max(each.first for each in cuts)
    means = [np.array([np.nanmean(each[pair][cut:]) for pair in pairs]) for each in series]
    batches = None
    if len(pairs) == 1 and length - cut >= 2 * BATCHES:
        rest = [each[pairs[0]][cut:] for each in series]
        batches = batch_means(rest[0][~np.isnan(rest[0])]), batch_means(rest[1][~np.isnan(rest[1])])
    return Settled(
        cut, length, all(each.is_settled for each in cuts), stats.compare(means[0], means[1], "lower"), batches
    )


def _series(requests: pl.DataFrame) -> dict[int, Floats]:
    """End-to-end times of finished requests by pair, in order of submission."""
    finished = requests.filter(pl.col("status") == "finished").sort("pair", "submitted_s", "request")
    return {int(pair): frame["e2e_s"].to_numpy() for (pair,), frame in finished.group_by("pair", maintain_order=True)}
