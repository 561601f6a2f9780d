"""What of a replication is measured: all of it, or what is left when the start-up is cut off.

A rollout step, a replay or a fixed population starts empty and ends: it is terminating, and all of it is the question.
Sessions that arrive at a steady rate ask about the steady state: then the first requests, which met empty queues and
cold caches, are left out, by MSER-5 over the end-to-end times in order of submission, or for a given time.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from sim.log.frames import Tables
from sim.stats.steady import BATCH, mser5

STEADY: Final = ("poisson", "gamma", "on_off")
"""Kinds of arrivals that go on at one rate."""
FEWEST: Final = 4 * BATCH


def is_steady(workload: Any, training: Any) -> bool:
    """Whether a workload asks about a steady state."""
    return training is None and getattr(getattr(workload, "arrivals", None), "kind", None) in STEADY


def cuts(tables: Tables, warm_up_s: float | None, *, steady: bool) -> pl.DataFrame:
    """``pair``, ``cut_s`` (time from the first submission that is left out) and ``is_settled`` of each replication."""
    rows = []
    for pair, start_s in tables.replications.select("pair", "start_s").iter_rows():
        cut, settled = (0.0 if warm_up_s is None else warm_up_s), True
        if warm_up_s is None and steady:
            cut, settled = _mser(tables.requests.filter(pl.col("pair") == pair), start_s)
        rows.append({"pair": pair, "cut_s": cut, "is_settled": settled})
    return pl.DataFrame(rows, schema={"pair": pl.Int64, "cut_s": pl.Float64, "is_settled": pl.Boolean})


def _mser(requests: pl.DataFrame, start_s: float) -> tuple[float, bool]:
    finished = requests.filter(pl.col("status") == "finished").sort("submitted_s", "request")
    times = finished["e2e_s"].to_numpy()
    if times.size < FEWEST or np.ptp(times) == 0:
        return 0.0, True
    found = mser5(times)
    return (float(finished["submitted_s"][found.first]) - start_s if found.first else 0.0), found.is_settled


def without_start(tables: Tables, cut: pl.DataFrame) -> Tables:
    """The tables without what was submitted, decided or begun before the cut; the makespan begins there."""
    if not (cut["cut_s"] > 0).any():
        return tables
    ends = tables.replications.join(cut, on="pair").select("pair", from_s=pl.col("start_s") + pl.col("cut_s"))

    def later(frame: pl.DataFrame, column: str) -> pl.DataFrame:
        return (
            frame.join(ends, on="pair", maintain_order="left").filter(pl.col(column) >= pl.col("from_s")).drop("from_s")
        )

    left = pl.max_horizontal(pl.col("start_s") + pl.col("makespan_s") - pl.col("from_s"), 0.0)
    return replace(
        tables,
        requests=later(tables.requests, "submitted_s"),
        decisions=later(tables.decisions, "at_s"),
        groups=later(tables.groups, "arrived_s"),
        engines=later(tables.engines, "start_s"),
        replications=tables.replications.join(ends, on="pair", maintain_order="left")
        .with_columns(makespan_s=left, start_s=pl.col("from_s"))
        .drop("from_s"),
    )
