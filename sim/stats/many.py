"""Several arms against one baseline: corrections that keep one false claim in twenty over the whole table.

    holm       step-down adjusted p values; no assumption, any tests
    dunnett    simultaneous t intervals: the critical value is that of the largest of k correlated t statistics

All arms of a paired comparison share their baseline, so their log ratios correlate; Dunnett's classical table has 1/2
for it. Here the correlations are those of the pairs themselves, and each arm keeps its own variance.

Source: Hothorn, Bretz and Westfall, Simultaneous inference in general parametric models (2008). The degrees of freedom
are n - 1 for all; the correlations count as known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from sim.stats.paired import LEVEL, ROUNDING, SEED, Floats

SINGULAR = 0.999
"""Correlations are drawn towards zero by this factor: arms that decide alike would leave a matrix without inverse."""


@dataclass(frozen=True, slots=True)
class Joint:
    """Simultaneous intervals of the ratios of several arms."""

    ratio: tuple[float, ...]
    lo: tuple[float, ...]
    hi: tuple[float, ...]
    p: tuple[float, ...]
    """Adjusted for all arms."""
    critical: float
    """Standard errors to either side; Student's own where there is one arm."""


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    adjusted, floor = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        floor = max(floor, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = floor
    return adjusted


def dunnett(logs: Floats, *, level: float = LEVEL) -> Joint:
    """Arms against their baseline: ``logs`` has a row a pair and a column an arm, each arm with some spread."""
    pairs, arms = logs.shape
    if pairs < 3:
        raise ValueError("simultaneous intervals need three pairs")
    spread = logs.std(axis=0, ddof=1)
    if (spread <= ROUNDING).any():
        raise ValueError("an arm whose ratio is constant needs no interval")
    centre, error = logs.mean(axis=0), spread / pairs**0.5
    correlation = np.atleast_2d(np.corrcoef(logs, rowvar=False))
    correlation = SINGULAR * correlation + (1 - SINGULAR) * np.eye(arms)
    critical = _critical(correlation, pairs - 1, level)
    p = [1 - _inside(correlation, pairs - 1, abs(float(t))) for t in centre / error]
    ends = [np.exp(centre + sign * critical * error) for sign in (-1, 1)]
    columns = [tuple(float(each) for each in np.atleast_1d(column)) for column in (np.exp(centre), *ends)]
    return Joint(columns[0], columns[1], columns[2], tuple(p), critical)


def _critical(correlation: Floats, freedom: int, level: float) -> float:
    """The value that the largest absolute one of the t statistics exceeds with probability ``1 - level``."""
    if len(correlation) == 1:
        return float(stdtrit(freedom, (1 + level) / 2))
    from scipy.optimize import brentq

    alone, bonferroni = (float(stdtrit(freedom, 1 - (1 - level) / 2 / k)) for k in (1, len(correlation)))
    return float(brentq(lambda c: _inside(correlation, freedom, c) - level, 0.98 * alone, 1.02 * bonferroni, xtol=1e-4))


def _inside(correlation: Floats, freedom: int, bound: float) -> float:
    """Probability that all t statistics lie within the bound; the same numbers each time."""
    if len(correlation) == 1:
        return 1 - 2 * float(stdtr(freedom, -bound))
    from scipy import stats

    law = stats.multivariate_t(shape=correlation, df=freedom, allow_singular=True)
    ends = np.full(len(correlation), bound)
    rng = np.random.Generator(np.random.PCG64(SEED))
    return float(law.cdf(ends, lower_limit=-ends, random_state=rng))
