"""Which of many arms is best, and how sure: elimination within an indifference zone, and shares of a budget.

    kn             Kim and Nelson's sequential procedure: arms that are clearly behind drop out, until one is left
    ocba           how a budget of replications is best divided between arms (Chen et al.)
    p_correct      a lower bound of the probability that the arm with the best mean so far is the best

Values are larger-is-better, usually logarithms of a metric, one row a pair and one column an arm; NaN where an arm no
longer runs. Common random numbers help: the procedures use variances of differences within pairs. With arms closer than
``delta`` any of them counts as a correct answer.

Sources: Kim and Nelson, ACM TOMACS 11 (2001), with c = 1; Chen, Lin, Yuecesan and Chick, DEDS 10 (2000).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from sim.stats.paired import Floats

FIRST = 10
"""Pairs that every arm runs before one may drop out."""


@dataclass(frozen=True, slots=True)
class Selection:
    """How far a selection has come."""

    alive: tuple[int, ...]
    """Columns of arms that may still be the best."""
    best: int
    """Of those, the one with the best mean so far."""
    dropped_at: tuple[int | None, ...]
    """By arm: pairs after which it dropped out."""

    @property
    def is_done(self) -> bool:
        """One arm is left."""
        return len(self.alive) == 1


def kn(values: Floats, delta: float, *, confidence: float = 0.95, first: int = FIRST) -> Selection:
    """Kim and Nelson's procedure over the pairs so far.

    If the best arm leads by ``delta`` or more, it is the one left at the end with at least this probability. The answer
    after r pairs depends on these r alone, so the procedure can be asked anew after every batch.
    """
    pairs, arms = values.shape
    if arms < 2 or delta <= 0 or first < 2 or not 1 / arms < confidence < 1:
        raise ValueError("selection needs two arms, a positive delta, two first pairs and a confidence below 1")
    dropped: list[int | None] = [None] * arms
    alive = list(range(arms))
    if pairs >= first:
        start = values[:first]
        spread = np.array([[(start[:, i] - start[:, j]).var(ddof=1) for j in range(arms)] for i in range(arms)])
        eta = 0.5 * ((2 * (1 - confidence) / (arms - 1)) ** (-2 / (first - 1)) - 1)
        reach = 2 * eta * (first - 1) * spread / delta**2  # pairs at which the slack between two arms is used up
        sums = np.cumsum(values, axis=0)
        for r in range(first, pairs + 1):
            total = sums[r - 1]
            slack = np.maximum(0.0, delta / 2 * (reach - r))
            kept = [i for i in alive if all(total[i] >= total[j] - slack[i, j] for j in alive)]
            for i in set(alive) - set(kept):
                dropped[i] = r
            alive = kept
            if len(alive) == 1:
                break
    seen = values[:, alive]
    means = np.nanmean(seen, axis=0) if pairs else np.zeros(len(alive))
    return Selection(tuple(alive), alive[int(np.argmax(means))], tuple(dropped))


def ocba(means: Floats, spreads: Floats) -> Floats:
    """Shares of a budget that make a correct selection most likely, larger means better; they add up to 1."""
    if len(means) < 2 or (spreads <= 0).any():
        raise ValueError("a budget is divided between two arms or more, each with some spread")
    best = int(np.argmax(means))
    others = np.arange(len(means)) != best
    lead = means[best] - means
    if (lead[others] == 0).any():
        raise ValueError("two arms share the best mean: run more pairs before dividing the budget")
    shares = np.zeros(len(means))
    shares[others] = (spreads[others] / lead[others]) ** 2
    shares[best] = spreads[best] * float(np.sqrt((shares[others] ** 2 / spreads[others] ** 2).sum()))
    return np.asarray(shares / shares.sum())


def p_correct(values: Floats, delta: float = 0.0) -> float:
    """Lower bound (Bonferroni, Slepian's inequality left unused) of the probability that the leading arm is the best.

    ``delta``: an arm that is behind the best by less counts as correct. Pairs in which one of two arms is NaN do not
    count for the two.
    """
    means = np.nanmean(values, axis=0)
    best = int(np.argmax(means))
    wrong = 0.0
    for other in range(values.shape[1]):
        lead = values[:, best] - values[:, other]
        lead = lead[~np.isnan(lead)]
        if other == best:
            continue
        if lead.size < 2:
            return 0.0
        error = float(lead.std(ddof=1)) / lead.size**0.5
        centre = float(lead.mean()) + delta
        wrong += float(stdtr(lead.size - 1, -centre / error)) if error > 0 else float(centre <= 0)
    return max(0.0, 1 - wrong)
