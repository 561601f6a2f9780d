"""Runs a case and judges its rows.

    reproduced      the value lies in the band
    order only      it does not, but lies on the published side of no effect, and so does its interval
    not separable   its interval holds no effect
    missed          none of these

An analytic truth or a null control is reproduced or missed, nothing between.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sim.errors import ScenarioError
from sim.sweep import run
from sim.validation._case import Case, Row, Verdict
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
class Verdicts:
    """What the rows of a case gave."""

    case: Case
    pairs: int
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> Counter[Verdict]:
        """Rows by verdict."""
        return Counter(each.verdict for each in self.outcomes)


def run_case(
    case: Case,
    *,
    full: bool = False,
    out: str | Path = "results",
    jobs: int | None = 1,
    fresh: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Verdicts | None:
    """Run what the rows need and judge them; None where a short run has no rows of this case."""
    rows = case.rows_of(full=full)
    if not rows:
        return None
    world = case.world(rows, full=full)
    result = run(world, jobs=jobs, out=Path(out) / "validation", fresh=fresh, progress=progress)
    if result.failures:
        raise ScenarioError(f"case {case.name}: {result.failures} replications failed; {result.warnings[-1]}")
    arms = {name: Arm(ran) for name, ran in result.arms.items()}
    outcomes = []
    for row in rows:
        found = row.measure.evaluate(arms)
        outcomes.append(Outcome(row, found, judge(row, found)))
    return Verdicts(case, world.pairs, tuple(outcomes))


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
