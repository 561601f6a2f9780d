"""Where a ratio crosses 1, or the smallest effect of interest, closed in on by further runs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from sim.report.rule import percent
from sim.review._knobs import Knob, Level
from sim.review.sensitivity._bars import Bar, points_of
from sim.review.sensitivity._centre import Centre
from sim.review.sensitivity._runs import Runs, run_or_centre
from sim.stats import Floats
from sim.stats.sensitivity import Crossing, Estimate, crossing, narrow

ROUNDS: Final = 4
"""Runs that close in on one break-even."""
MOST_ROOTS: Final = 8


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where the ratio crosses a line as one number grows."""

    knob: Knob
    is_condition: bool
    """A size, and no assumption."""
    line: Literal["worse", "interest"]
    """A ratio of 1, or the smallest effect worth having."""
    value: float
    bracket: tuple[float, float]
    interval: tuple[float | None, float | None]
    """95 %; None: it reaches beyond the range that was searched."""
    loses: Literal["below", "above"]
    """On which side the candidate is on the bad side of the line."""
    bad: str
    """That side in short: "groups < 12"."""
    bad_here: str
    """The same with the number as it stands: "groups < 12 (here 16)"."""
    says: str


@dataclass(frozen=True, slots=True)
class _Root:
    """A stretch of a bar over which the ratio crosses a line."""

    bar: Bar
    is_condition: bool
    line: Literal["worse", "interest"]
    at: float
    """The line, as a ratio."""
    bracket: tuple[float, float]


def break_evens(runs: Runs, bars: Sequence[Bar], sizes: Sequence[Bar], pairs: int) -> list[BreakEven]:
    """Sizes and then assumptions, first where the ratio is 1.

    Rounds of runs with so many pairs close in on all at once, as long as the budget has enough for a round.
    """
    centre = runs.centre
    worth = 1 / (1 + centre.interest) if centre.is_lower_better else 1 + centre.interest
    roots = [
        root
        for line, at in (("worse", 1.0), ("interest", worth))
        for is_condition, group in ((True, sizes), (False, bars))
        for bar in group
        if bar.knob.is_numeric
        for root in _crossed(centre, bar, is_condition, line, at)  # type: ignore[arg-type]
    ]
    left_out = roots[MOST_ROOTS:]
    if left_out:
        said = ", ".join(f"{each.bar.knob.name} ({each.line})" for each in left_out)
        runs.notes[f"no break-even was closed in on for: {said}"] = None
    roots = roots[:MOST_ROOTS]
    asked: list[dict[float, Estimate]] = [points_of(centre, each.bar) for each in roots]

    def respond(levels: Floats, which: Any) -> Floats:
        picked = [roots[i].bar.knob for i in which]
        at = [round(x) if knob.is_whole else float(x) for knob, x in zip(picked, levels.tolist(), strict=True)]
        known = [_near(asked[i], level) for i, level in zip(which, at, strict=True)]
        new = [place for place, each in enumerate(known) if each is None]
        settings = [picked[place].settings(at[place]) for place in new]
        if settings and runs.buy(settings, pairs):
            names = [f"{picked[place].name} {picked[place].shown(at[place])}" for place in new]
            for place, each in zip(new, run_or_centre(runs, settings, names, pairs), strict=True):
                known[place] = each
                if each is not None:
                    asked[which[place]][float(at[place])] = each
        logs = [None if each is None else each.log for each in known]
        return np.array(
            [np.nan if log is None else log - np.log(roots[i].at) for i, log in zip(which, logs, strict=True)]
        )

    narrow(respond, [each.bracket for each in roots], ROUNDS)
    found = []
    for root, points in zip(roots, asked, strict=True):
        levels = sorted(points)
        near = root.bar.knob.centre if root.bar.knob.centre is not None else levels[0]
        where = crossing(np.array(levels), [points[level] for level in levels], root.at, float(near))
        if where is not None:
            found.append(_break_even(centre, root, where))
    return found


def _near(points: Mapping[float, Estimate], level: float) -> Estimate | None:
    """What is known at a level, but for the last bits of a float."""
    return next((found for at, found in points.items() if math.isclose(at, level, rel_tol=1e-12)), None)


def _crossed(
    centre: Centre, bar: Bar, is_condition: bool, line: Literal["worse", "interest"], at: float
) -> Iterator[_Root]:
    """The stretch next to the centre whose ends lie on different sides of a line, one of them clearly."""
    points = points_of(centre, bar)
    levels = sorted(points)
    where = crossing(np.array(levels), [points[level] for level in levels], at, float(bar.knob.centre or levels[0]))
    if where is not None and any(_is_clear(points[level], at) for level in where.bracket):
        yield _Root(bar, is_condition, line, at, where.bracket)


def _is_clear(found: Estimate, line: float) -> bool:
    return found.lo is not None and found.hi is not None and not found.lo <= line <= found.hi


def _break_even(centre: Centre, root: _Root, where: Crossing) -> BreakEven:
    knob = root.bar.knob
    loses: Literal["below", "above"] = "above" if where.falls != centre.is_lower_better else "below"
    sign = "<" if loses == "below" else ">"
    # Of a whole number, the first one on the good side.
    value = (math.ceil(where.value) if loses == "below" else math.floor(where.value)) if knob.is_whole else where.value
    low, high = ("…" if each is None else knob.shown(_level(knob, each)) for each in where.interval)
    verb = "loses" if root.line == "worse" else f"gains less than {percent(centre.interest)}"
    ends = " and ".join(knob.shown(_level(knob, each)) for each in where.bracket)
    bad, bad_here = (_side(knob, sign, value, *more) for more in ((), (f"here {knob.value}",)))
    says = (
        f"{centre.candidate} {verb} if {bad}{_an_engine(centre, knob, value)} "
        f"(95 %: {low} to {high}; runs at {ends} lie on different sides)"
    )
    return BreakEven(
        knob, root.is_condition, root.line, where.value, where.bracket, where.interval, loses, bad, bad_here, says
    )


def _level(knob: Knob, value: float) -> Level:
    return round(value) if knob.is_whole else value


def _side(knob: Knob, sign: str, value: float, *notes: str) -> str:
    """A side of a break-even as it is read: factors of one number as that number too."""
    said = knob.shown(value)
    if knob.is_factor and len(knob.present) == 1 and isinstance(knob.present[0], int | float):
        said, notes = f"{knob.present[0] * value:,.4g}", (f"× {value:.3g}", *notes)
    return f"{knob.name} {sign} {said}" + (f" ({', '.join(notes)})" if notes else "")


def _an_engine(centre: Centre, knob: Knob, value: float) -> str:
    engines = centre.scenario.arms[centre.scenario.baseline].engines
    if knob.fields == ("workload.groups",) and engines > 1:
        return f" ({value / engines:.3g} an engine)"
    if knob.fields == ("fleet.engines",):
        groups = centre.scenario.arms[centre.scenario.baseline].resolved["workload"].get("groups")
        return f" (more than {groups / value:.3g} groups an engine)" if groups else ""
    return ""
