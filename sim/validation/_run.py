"""Runs a case and judges its rows.

    reproduced      the value lies in the band
    order only      it does not, but lies on the published side of no effect, and so does its interval
    not separable   its interval holds no effect
    missed          none of these

An analytic truth or a null control is reproduced or missed, nothing between.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.errors import ScenarioError
from sim.report.result import Result
from sim.stats.inference import kendall
from sim.sweep import Progress, cores, processes, run_all
from sim.validation._case import Case, Order, Row, Verdict
from sim.validation._measures import Arm, Estimate


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a row gave."""

    row: Row
    found: Estimate
    verdict: Verdict

    @property
    def fails(self) -> bool:
        """A truth or a control that does not hold."""
        return self.row.must_hold and self.verdict != "reproduced"

    @property
    def has_changed(self) -> bool:
        """The verdict is not the stored one."""
        return self.verdict != self.row.verdict


@dataclass(frozen=True, slots=True)
class Ordered:
    """What an order gave: the quantity of each of its arms."""

    order: Order
    found: dict[str, float]

    @property
    def tau(self) -> float:
        """Kendall's tau-b between the arms as measured and as here."""
        return kendall(np.array([*self.order.published.values()]), np.array([*self.found.values()]))

    @property
    def ratio_errors(self) -> dict[str, float]:
        """Of each arm but the reference: its ratio to the reference here, over the measured one, less 1."""
        base, own = self.order.reference, self.order.published
        return {
            arm: (self.found[arm] / self.found[base]) / (own[arm] / own[base]) - 1 if own[arm] * own[base] else math.nan
            for arm in own
            if arm != base
        }

    @property
    def reference_error(self) -> float:
        """Of the reference: here over measured, less 1."""
        return self.found[self.order.reference] / self.order.published[self.order.reference] - 1


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the rows of a case gave."""

    case: Case
    pairs: int
    outcomes: tuple[Outcome, ...]
    orders: tuple[Ordered, ...] = ()
    """Those whose arms all ran."""

    @property
    def counts(self) -> Counter[Verdict]:
        """Rows by verdict."""
        return Counter(each.verdict for each in self.outcomes)


def run_case(
    case: Case, *, full: bool = False, out: str | Path = "results", jobs: int | None = 1, fresh: bool = False
) -> Verdicts | None:
    """Run what the rows need and judge them; None where a short run has no rows of this case."""
    found: list[Verdicts] = []
    run_cases([case], found.append, full=full, out=out, jobs=jobs, fresh=fresh)
    return found[0] if found else None


def run_cases(
    cases: Iterable[Case],
    decided: Callable[[Verdicts], None],
    *,
    full: bool = False,
    out: str | Path = "results",
    jobs: int | None = 1,
    fresh: bool = False,
    progress: Progress | None = None,
) -> None:
    """Run several cases at once, so that no core waits for the last pairs of one; ``decided`` hears of each as it ends.

    Cases of which a short run has no rows are left out.
    """
    cases = [*cases]
    for name, count in Counter(case.name for case in cases).items():
        if count > 1:
            raise ScenarioError(f"{count} cases are called {name}: give each once")
    chosen = {case.name: (case, rows) for case in cases if (rows := case.rows_of(full=full))}
    worlds = {name: case.world(rows, full=full) for name, (case, rows) in chosen.items()}
    # Of few pairs each takes long: they begin first, so that none is left alone at the end.
    in_turn = dict(sorted(worlds.items(), key=lambda each: each[1].pairs))

    def judged(name: str, result: Result | ScenarioError) -> None:
        if isinstance(result, ScenarioError):
            raise result
        decided(_verdicts(*chosen[name], worlds[name].pairs, result))

    workers = cores() if jobs is None else jobs
    with processes(workers) if len(worlds) > 1 and workers > 1 else nullcontext() as pool:
        run_all(in_turn, judged, jobs=jobs, out=Path(out) / "validation", fresh=fresh, progress=progress, pool=pool)


def _verdicts(case: Case, rows: Iterable[Row], pairs: int, result: Result) -> Verdicts:
    if result.failures:
        raise ScenarioError(f"case {case.name}: {result.failures} replications failed; {result.warnings[-1]}")
    arms = {name: Arm(ran) for name, ran in result.arms.items()}
    outcomes = []
    for row in rows:
        found = row.measure.evaluate(arms)
        outcomes.append(Outcome(row, found, judge(row, found)))
    orders = [
        Ordered(order, {name: order.measure.evaluate({"arm": arms[name]}).value for name in order.published})
        for order in case.orders
        if order.published.keys() <= arms.keys()
    ]
    return Verdicts(case, pairs, tuple(outcomes), tuple(orders))


def judge(row: Row, found: Estimate) -> Verdict:
    """The verdict on one value."""
    if row.band[0] <= found.value <= row.band[1]:
        return "reproduced"
    if row.must_hold or row.neutral is None:
        return "missed"
    lo = found.value if found.lo is None else found.lo
    hi = found.value if found.hi is None else found.hi
    if lo <= row.neutral <= hi:
        return "not separable"
    return "order only" if (found.value > row.neutral) == (row.value > row.neutral) else "missed"
