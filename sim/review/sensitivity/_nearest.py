"""Where a budget does not reach everything: two pairs everywhere, then more where the decision is nearest to a flip.

    1  the ends of each assumption with 2 pairs: what the author names first, then what is guessed, documented, measured
    2  8 pairs at the ends that lie farthest over the line, or nearest to it; where nothing is decided, that move most
    3  draws of all assumptions at once
    4  the ends of each size with 2 pairs, and then of some with 8
    5  break-evens closed in on; the map of the two widest
    6  8 pairs at the other ends, then 16 at all, in the same order

A screen of two pairs ranks and decides nothing: its intervals are Student's with one degree of freedom. Pairs follow
from the screen alone, not from what is decided on the way, so no interval is looked at until it says something.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sim.review._knobs import Knob
from sim.review.sensitivity._bars import Bar, End, bars_of, closer
from sim.review.sensitivity._break_evens import BreakEven, break_evens
from sim.review.sensitivity._grid import Grid, grid_of
from sim.review.sensitivity._joint import Joint, joint_of
from sim.review.sensitivity._runs import Runs

SCREENED: Final = 2
"""Pairs of the screen."""
CLOSE: Final = 8
"""Pairs of an end that is looked at closely."""
FIRST: Final = 4
"""Ends of assumptions, and of sizes, that are looked at closely before anything else is done."""
DRAWS: Final = 12
"""Of all assumptions at once, with the pairs of the screen."""


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, as far as it went."""

    bars: Sequence[Bar]
    sizes: Sequence[Bar]
    break_evens: Sequence[BreakEven]
    grid: Grid | None
    joint: Joint | None
    missed: Sequence[Knob] = field(default=())
    screened: int = 0
    """Pairs that only rank; 0 where every end has what was asked for."""

    def is_close(self, bar: Bar) -> bool:
        """One of its ends has more pairs than the screen, or nothing moves at any: then it says what it is worth."""
        return any(end.ratio.pairs > self.screened or end.change.ratio == 1 for end in bar.ends)


def likely(knobs: Sequence[Knob], named: int) -> list[Knob]:
    """Assumptions in the order in which they may matter before anything is run; ``named`` ones stand first already."""
    order = ("guessed", "documented", "measured")
    return [*knobs[:named], *sorted(knobs[named:], key=lambda each: order.index(each.basis))]


def nearest_first(
    runs: Runs, known: Sequence[Knob], sizes: Sequence[Knob], most: int, say: Callable[[str], None]
) -> Search:
    """Spend the budget of the runs; ``most`` pairs an end."""
    screened, close = min(SCREENED, most), min(CLOSE, most)
    say(
        f"sensitivity: up to {runs.budget.limit:,} requests, for {len(known)} assumptions and {len(sizes)} sizes with "
        f"{screened} pairs, then for up to {most} pairs where the decision is nearest to a flip"
    )
    bars: list[Bar] = []

    def look(ends: Sequence[tuple[Knob, End]], pairs: int) -> None:
        nonlocal bars
        paid = [each for each in ends if runs.buy([each[1].settings], pairs)]
        bars = closer(runs, bars, paid, pairs)

    reached = _reached(runs, known, screened)
    bars += bars_of(runs, reached, screened)
    count, order = len(bars), ranked(runs, bars)
    look(order[:FIRST], close)
    joint = joint_of(runs, bars, screened, DRAWS)
    sized = bars_of(runs, _reached(runs, sizes, screened), screened)
    bars += sized
    others = ranked(runs, sized)
    look(others[:FIRST], close)
    break_evens(runs, bars[:count], bars[count:], close)
    grid = grid_of(runs, bars[:count], close)
    look([*order[FIRST:], *others[FIRST:]], close)
    look([*order, *others], most)
    return Search(
        bars=bars[:count],
        sizes=bars[count:],
        break_evens=break_evens(runs, bars[:count], bars[count:], close),
        grid=grid,
        joint=joint,
        missed=[each for each in known if each not in reached],
        screened=screened if most > screened else 0,
    )


def _reached(runs: Runs, knobs: Sequence[Knob], pairs: int) -> list[Knob]:
    """Those of which all ends can be paid for, up to the first that cannot."""
    return [each for each in knobs if runs.buy([each.settings(level) for level in each.ends], pairs)]


def ranked(runs: Runs, bars: Sequence[Bar]) -> list[tuple[Knob, End]]:
    """Ends, those first that lie farthest on the other side of the line, or nearest to it."""
    ends = [(bar.knob, end) for bar in bars for end in bar.ends]
    here = runs.centre.decided
    towards = {"RUN": 1.0, "DO NOT RUN": -1.0}

    def distance(each: tuple[Knob, End]) -> float:
        if here == "undecided":
            return -abs(each[1].change.log or 0.0)
        return towards[here] * runs.centre.gain(each[1].ratio)

    return sorted(ends, key=distance)
