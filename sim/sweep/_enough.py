"""How many pairs the arms of one scenario get: a number, or as many as a rule asks for.

A rule looks at the pairs so far, in the order of their numbers, so what it says does not depend on which worker was
quick; only a budget of time does. It is asked when all that it wanted is there.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from sim.metrics import METRICS
from sim.report.result import Arm
from sim.scenario import Scenario
from sim.scenario._model import AllocationModel, BudgetModel, PrecisionModel, SelectionModel
from sim.stats.paired import Floats
from sim.stats.selection import FIRST, kn, ocba, p_correct
from sim.stats.stopping import Precision

GROWTH: Final = 1.25
"""Pairs of one round of a selection over those of the round before; precision guesses, and at most doubles."""
ROUND: Final = 10
"""Pairs of the first round under a budget, and replications that an allocation divides at a time."""


class Enough:
    """What one scenario wants next, and what it found when it wanted no more."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.stop = scenario.stop
        first = scenario.pairs
        match self.stop:
            case SelectionModel():
                first = max(first, FIRST)
            case AllocationModel():
                first = max(min(ROUND, self.stop.replications // len(scenario.arms)), 2)
            case BudgetModel():
                first = min(ROUND, self.stop.most_pairs)
            case PrecisionModel():
                first = min(max(first, Precision().fewest), self.stop.most_pairs)
        self.wanted = dict.fromkeys(scenario.arms, first)
        """Pairs by arm."""
        self.note = ""
        """What the rule found, for people."""

    def go_on(self, arms: Sequence[Arm]) -> bool:
        """Look at the arms, each with its wanted pairs; True: ``wanted`` has grown."""
        before = dict(self.wanted)
        match self.stop:
            case PrecisionModel():
                self._precision(self.stop, arms)
            case SelectionModel():
                self._selection(self.stop, arms)
            case AllocationModel():
                self._allocation(self.stop, arms)
            case BudgetModel():
                pairs = min(max(before.values()) * 2, self.stop.most_pairs)
                self.wanted = dict.fromkeys(before, pairs)
                self.note = f"a budget of {self.stop.seconds:g} s"
        return self.wanted != before

    def _precision(self, stop: PrecisionModel, arms: Sequence[Arm]) -> None:
        pairs = max(self.wanted.values())
        rule = Precision(stop.half_width_share)
        metric = self.scenario.metrics[0]
        logs = list(_log_ratios(arms, self.scenario.baseline, metric).values())
        more = rule.still_needed(logs) if logs else 0
        reached = f"{metric} to within {stop.half_width_share:.2%}"
        if not more:
            self.note = f"stopped at {pairs} pairs: {reached}"
        elif pairs >= stop.most_pairs:
            self.note = f"stopped at {pairs} pairs, the most allowed: {reached} takes about {pairs + more}"
        else:
            grown = min(pairs + more, pairs * 2)
            self.wanted = dict.fromkeys(self.wanted, min(max(grown, pairs + ROUND), stop.most_pairs))

    def _selection(self, stop: SelectionModel, arms: Sequence[Arm]) -> None:
        names, values = _goodness(arms, self.scenario.metrics[0])
        pairs = max(self.wanted.values())
        found = kn(values, float(np.log1p(stop.indifference_share)), confidence=stop.confidence_share)
        alike = (values[:, list(found.alive)] == values[:, [found.best]]).all()
        if found.is_done or alike or pairs >= stop.most_pairs:
            lead = names[found.best] if found.is_done or not alike else " = ".join(names[i] for i in found.alive)
            others = ", ".join(names[i] for i in found.alive if i != found.best)
            how = (
                f"is selected as the best, or within {stop.indifference_share:.1%} of it, with probability "
                f"{stop.confidence_share:.0%} or more"
                if found.is_done or alike
                else f"leads at {pairs} pairs, the most allowed; not told apart from {others}"
            )
            dropped = ", ".join(f"{names[i]} after {at}" for i, at in enumerate(found.dropped_at) if at is not None)
            self.note = f"{lead} {how}" + (f" (dropped: {dropped})" if dropped else "")
            return
        more = min(max(int(pairs * GROWTH), pairs + ROUND // 2), stop.most_pairs)
        self.wanted |= {names[i]: more for i in found.alive}

    def _allocation(self, stop: AllocationModel, arms: Sequence[Arm]) -> None:
        names, values = _goodness(arms, self.scenario.metrics[0])
        used = sum(self.wanted.values())
        means = np.nanmean(values, axis=0)
        best = int(np.argmax(means))
        sure = p_correct(values, float(np.log1p(stop.indifference_share)))
        left = stop.replications - used
        spreads = np.nanstd(values, axis=0, ddof=1)
        is_flat = bool((spreads <= 0).any() or (means[np.arange(len(means)) != best] == means[best]).any())
        if left > 0 and len(names) > 1:
            shares = np.full(len(names), 1 / len(names)) if is_flat else ocba(means, spreads)
            total = used + min(ROUND, left)
            gaps = {name: share * total - self.wanted[name] for name, share in zip(names, shares, strict=True)}
            for _ in range(min(ROUND, left)):
                name = max(gaps, key=lambda each: gaps[each])
                gaps[name] -= 1
                self.wanted[name] += 1
            return
        shown = ", ".join(f"{name} {pairs}" for name, pairs in self.wanted.items())
        self.note = (
            f"{names[best]} leads; best, or within {stop.indifference_share:.1%} of it, with probability {sure:.1%} or "
            f"more ({used} replications: {shown})"
        )


def _log_ratios(arms: Sequence[Arm], baseline: str, metric: str) -> dict[str, Floats]:
    base = next(arm for arm in arms if arm.name == baseline).column(metric)
    found = {}
    for arm in arms:
        if arm.name != baseline:
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(arm.column(metric) / base)
            found[arm.name] = logs[np.isfinite(logs)]
    return found


def _goodness(arms: Sequence[Arm], metric: str) -> tuple[list[str], Floats]:
    """Logarithms of a metric, larger is better: a row a pair, a column an arm; NaN where an arm has no value."""
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    longest = max(arm.values.height for arm in arms)
    values = np.full((longest, len(arms)), np.nan)
    for i, arm in enumerate(arms):
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = sign * np.log(arm.column(metric))
        values[: len(logs), i] = np.where(np.isfinite(logs), logs, np.nan)
    return [arm.name for arm in arms], values


def budget_s(scenarios: Mapping[str, Scenario]) -> float | None:
    """Seconds that the command may take; None: as long as it needs."""
    return min((each.stop.seconds for each in scenarios.values() if isinstance(each.stop, BudgetModel)), default=None)
