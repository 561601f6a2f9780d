"""Steady state from one long series: what to cut off at its start, and an interval of its mean.

    mser5         cut that minimises the standard error of what is left, over means of five; at most half is cut
    batch_means   t interval over equal batches of what is left; refused where neighbouring batches correlate

A rollout step is terminating: it starts empty and ends, so nothing is cut and replications are the sample. Serving at a
rate is steady: the start-up is not what is asked about. Sources: White, An effective truncation heuristic (1997), the
variant over means of five; Law, Simulation Modeling and Analysis, 9.5 (batch means; Steiger's advice of a lag-1
correlation below 0.2).
"""

from dataclasses import dataclass

import numpy as np

from sim.stats.paired import Floats, t_interval

BATCH = 5
BATCHES = 20
MOST_CORRELATION = 0.2


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a series is taken to be steady."""

    first: int
    """Values that are left out."""
    is_settled: bool
    """The minimum lies in the first half of the series; else it never settled and no cut is right."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Mean of a steady series by batch means."""

    mean: float
    lo: float | None
    hi: float | None
    correlation: float
    """Between neighbouring batches."""
    batches: int
    reason: str = ""


def mser5(values: Floats) -> Cut:
    """The MSER-5 cut of a series in order of time; it needs 20 values."""
    if values.size < 4 * BATCH:
        raise ValueError(f"a cut needs {4 * BATCH} values, not {values.size}")
    means = values[: values.size // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    n = len(means)
    left = np.arange(n, 0, -1)
    sums, squares = (np.cumsum(each[::-1])[::-1] for each in (means - means.mean(), (means - means.mean()) ** 2))
    error = (squares - sums**2 / left) / left.astype(np.float64) ** 2
    best = int(np.argmin(error[: n - BATCH])) if n > BATCH else 0  # the last few have too little behind them
    settled = best <= n // 2
    return Cut(BATCH * min(best, n // 2), settled)


def batch_means(values: Floats, *, batches: int = BATCHES) -> Batches:
    """Mean of a steady series with a t interval over batch means, the remainder of whole batches cut at the start."""
    if values.size < 2 * batches:
        raise ValueError(f"{batches} batches need {2 * batches} values, not {values.size}")
    means = values[values.size % batches :].reshape(batches, -1).mean(axis=1)
    moves = means - means.mean()
    spread = float((moves**2).sum())
    correlation = float((moves[1:] * moves[:-1]).sum()) / spread if spread > 0 else 0.0
    if correlation > MOST_CORRELATION:
        reason = f"neighbouring batches correlate by {correlation:.2f}: run longer, or replicate"
        return Batches(float(means.mean()), None, None, correlation, batches, reason)
    return Batches(float(means.mean()), *t_interval(means), correlation, batches)
