"""Part 9: which assumption would turn the answer, where, and which to measure first."""

import math
from collections import Counter
from collections.abc import Iterator

from sim.report.numbers import counted
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.sensitivity import Bar, Budget, Sensitivity, Worth
from sim.stats.sensitivity import Estimate

FIRST = 5
"""Assumptions in the list of what to measure first."""


def sensitivity(ev: Evidence) -> Part:
    """9: the tornado, break-evens, the map of two, and what measuring is worth."""
    found = ev.sensitivity
    if found is None:
        return Part(9, "Sensitivity", [f"Assumptions were {ev.no_sensitivity}."])
    tables = [
        Table(
            "9.1",
            f"Assumptions at their ends, {_pairs_said(found)}; {found.runs:,} further runs in all",
            HEAD,
            list(_bars(found.bars)),
            NOTE,
        ),
    ]
    if found.conditions:
        tables.append(Table("9.2", "Sizes of the job and of the fleet", HEAD, list(_bars(found.conditions))))
    if found.break_evens:
        tables.append(_break_evens(found))
    if found.grid is not None:
        tables.append(_grid(found))
    tables.append(_worth(found))
    return Part(9, "Sensitivity", list(text(ev, found)), tables, figures=("tornado", "decision_map"))


HEAD = ("id", "assumption", "as it stands", "value", "ratio", "95 %", "change", "95 % ", "pairs", "decision", "")
NOTE = (
    "simulated, under the random numbers of the centre; change: the ratio there over the ratio as things stand, "
    "pair by pair; 1 exactly: nothing moves"
)


def text(ev: Evidence, found: Sensitivity) -> Iterator[str]:
    """What the tables say, in sentences."""
    as_it_stands = {"undecided": "undecided by its interval", "RUN": "RUN", "DO NOT RUN": "DO NOT RUN"}[found.centre]
    yield f"As things stand the ratio of {ev.primary.metric} says: {as_it_stands}."
    yield f"Which assumption flips that? {flips_said(ev, found)}"
    if found.budget is not None:
        yield _extent(found, found.budget)
    yield from (f"{each.says}." for each in found.break_evens)
    best = [each for each in found.worth if each.loss > 0]
    if best:
        yield f"Measure this first: {', '.join(each.knob.name for each in best[:FIRST])}."
    else:
        yield "Measuring no single assumption would change what is worth doing, as far as its range goes."
    yield from (f"{each}." for each in found.notes)


def _pairs_said(found: Sensitivity) -> str:
    """How many pairs an end has, in a few words."""
    counts = {end.ratio.pairs for bar in found.bars for end in bar.ends}
    if found.budget is None or len(counts) < 2:
        return f"{found.pairs if found.budget is None else min(counts, default=found.pairs)} pairs each"
    return f"{min(counts)} to {max(counts)} pairs"


def _extent(found: Sensitivity, budget: Budget) -> str:
    """What was searched, how closely, and what was not."""
    ends = [end.ratio.pairs for bar in (*found.bars, *found.conditions) for end in bar.ends]
    counted_ends = ", ".join(f"{count} with {pairs} pairs" for pairs, count in sorted(Counter(ends).items()))
    left = [
        "the joint draw" if found.joint is None else "",
        "the map of two" if found.grid is None else "",
        f"the ends of {', '.join(each.name for each in found.missed)}" if found.missed else "",
    ]
    left = [each for each in left if each]
    short = f" Not reached: {'; '.join(left)}." if left and budget.is_over else ""
    return (
        f"Searched with {budget.spent:,} of {budget.limit:,} requests: of {len(ends)} ends of assumptions and sizes "
        f"{counted_ends}, those with more that lie nearest to a flip. {min(ends)} pairs rank an end and seldom decide "
        f"it.{short}"
    )


def sizes_said(ev: Evidence, found: Sensitivity) -> str:
    """Sizes of the job or the fleet at which the candidate is the worse arm, in a sentence; empty where none is."""
    bad = [
        each.bad_here
        for each in found.break_evens
        if each.is_condition and each.line == "worse" and each.bad != "engines < 2"  # one leaves nothing to route
    ]
    return f"Sizes, which are yours to choose, do: {ev.candidate} loses with {'; '.join(bad)}." if bad else ""


def flips_said(ev: Evidence, found: Sensitivity) -> str:
    """The assumptions that turn the decision, or how far the nearest one comes; in sentences."""
    if found.flips:
        parts = [
            f"{end.decision} if {bar.knob.name} is {end.value} (ratio {_ratio(end.ratio)})"
            for bar, end in found.flips[:FIRST]
        ]
        more = len(found.flips) - len(parts)
        return f"It becomes {'; '.join(parts)}{f'; {more} more are in the table' if more > 0 else ''}.{_unknown(found)}"
    if not found.bars:
        return "None was varied: no assumption of this scenario has a range."
    count = len(found.bars)
    every = [(bar, end) for bar in found.bars for end in bar.ends if end.ratio.log is not None]
    most = max(end.ratio.pairs for _, end in every)
    ends = every if found.budget is None else [each for each in every if each[1].ratio.pairs == most]
    if found.centre == "undecided":
        bar, end = max(ends, key=lambda each: abs(each[1].change.log or 0.0))
        return (
            f"The interval decides nothing that could flip. Of {count} assumptions {bar.knob.name} moves the ratio "
            f"most: {_ratio(end.ratio)} at {end.value}.{_unknown(found)}"
        )
    towards_less = (found.centre == "RUN") != ev.is_lower_better
    bar, end = (min if towards_less else max)(ends, key=lambda each: each[1].ratio.log or 0.0)
    still_open = sum(end.decision == "undecided" for _, end in every)
    if still_open == len(every):
        return (
            f"Cannot be told: at all {still_open} ends of {counted(count, 'assumption')} the interval is too wide to "
            f"decide; more pairs narrow it ({_option(found)}). Nearest comes {bar.knob.name}: ratio "
            f"{_ratio(end.ratio)} at {end.value}.{_unknown(found, of_ends=False)}"
        )
    if still_open or found.missed:
        return (
            f"None is found that does, one at a time: {len(every) - still_open} of {len(every)} ends of "
            f"{counted(count, 'assumption')} keep the decision{_too_wide(found, still_open)}. Nearest comes "
            f"{bar.knob.name}: ratio {_ratio(end.ratio)} at {end.value}.{_unknown(found, of_ends=False)}"
        )
    return (
        f"None of {count} uncertain inputs does within its range, one at a time. Nearest comes {bar.knob.name}: ratio "
        f"{_ratio(end.ratio)} at {end.value}."
    )


def _too_wide(found: Sensitivity, ends: int) -> str:
    return f", at {ends} the interval is too wide to tell (more pairs narrow it: {_option(found)})" if ends else ""


def _option(found: Sensitivity) -> str:
    return "--sensitivity-pairs" if found.budget is None else "--sensitivity-requests"


def _unknown(found: Sensitivity, *, of_ends: bool = True) -> str:
    """What a sentence about flips leaves open; empty where every end was searched with the same pairs."""
    if found.budget is None:
        return ""
    still_open = sum(end.decision == "undecided" for bar in found.bars for end in bar.ends)
    ends = sum(len(bar.ends) for bar in found.bars)
    said = f" At {still_open} of {ends} ends the interval is too wide to tell." if still_open and of_ends else ""
    if found.missed:
        names = ", ".join(each.id for each in found.missed)
        said += f" Not searched: {counted(len(found.missed), 'assumption')} ({names}; {_option(found)})."
    return said


def _ratio(found: Estimate) -> str:
    if found.ratio is None:
        return "no ratio"
    return f"{found.ratio:.3f}" + ("" if found.lo is None else f" [{found.lo:.3f}, {found.hi:.3f}]")


def _bars(bars: tuple[Bar, ...]) -> Iterator[Row]:
    for bar in bars:
        for end in bar.ends:
            is_still = end.change.ratio == 1 and end.change.lo == end.change.hi
            yield (
                bar.knob.id,
                bar.knob.name,
                bar.knob.value,
                end.value,
                *_written(end.ratio),
                *(("1 exactly", "–") if is_still else _written(end.change)),
                str(end.ratio.pairs),
                end.decision,
                "FLIPS" if end.flips else "",
            )


def _written(found: Estimate) -> tuple[str, str]:
    ratio = "–" if found.ratio is None else f"{found.ratio:.3f}"
    return ratio, "–" if found.lo is None else f"[{found.lo:.3f}, {found.hi:.3f}]"


def _break_evens(found: Sensitivity) -> Table:
    rows = []
    for each in found.break_evens:
        low, high = ("beyond the range" if end is None else each.knob.shown(end) for end in each.interval)
        rows.append(
            (
                each.knob.id,
                each.knob.name,
                "1" if each.line == "worse" else "smallest effect",
                each.knob.shown(each.value),
                f"{low} to {high}",
                " and ".join(each.knob.shown(end) for end in each.bracket),
                each.loses,
            )
        )
    head = ("id", "number", "ratio crosses", "at", "95 %", "runs on both sides", "bad side")
    return Table(
        "9.3", "Break-evens", head, rows, "straight lines between runs; 95 %: where the interval clears the line"
    )


def _grid(found: Sensitivity) -> Table:
    assert found.grid is not None
    one, other = found.grid.knobs
    rows = [(*each.levels, *_written(each.ratio), each.decision) for each in found.grid.tiles]
    return Table("9.4", "The two widest together", (one.name, other.name, "ratio", "95 %", "decision"), rows)


def _worth(found: Sensitivity) -> Table:
    rows = [_worth_row(each) for each in found.worth]
    head = (
        "id",
        "assumption",
        "P(decide otherwise)",
        "loss avoided",
        "GPU-hours",
        "a GPU-hour",
        "who could measure it",
    )
    note = (
        "each assumption uniform over its range, the others as they stand, straight lines between runs; loss: of the "
        "metric, against the smallest effect worth having; expected loss that knowing the value avoids"
    )
    return Table("9.5", "What measuring is worth", head, rows, note)


def _worth_row(each: Worth) -> Row:
    rate = each.per_gpu_hour
    return (
        each.knob.id,
        each.knob.name,
        f"{each.chance:.0%}",
        f"{each.loss:.2%}",
        "–" if each.knob.gpu_hours is None else f"{each.knob.gpu_hours:g}",
        "–" if rate is None else "free" if math.isinf(rate) else f"{rate:.3%}",
        each.knob.who or "–",
    )
