"""All of it, as far as a budget of requests goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.review._assumptions import assumptions
from sim.review._conditions import conditions
from sim.review._judge import Decision
from sim.review._knobs import Knob
from sim.review.sensitivity._bars import Bar, End, bars_of
from sim.review.sensitivity._break_evens import MOST_ROOTS, ROUNDS, BreakEven, break_evens
from sim.review.sensitivity._budget import BUDGET, LEAST_REQUESTS, Budget
from sim.review.sensitivity._centre import Centre
from sim.review.sensitivity._grid import CORNERS, Grid, grid_of
from sim.review.sensitivity._joint import DRAWN_PAIRS, DRAWS, Joint, joint_of
from sim.review.sensitivity._nearest import SCREENED, Search, likely, nearest_first
from sim.review.sensitivity._runs import Progress, Runs
from sim.review.sensitivity._worth import Worth, worth_of

MOST_PAIRS: Final = 16
"""Of a setting, where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What was varied, and what it did."""

    pairs: int
    """Of a setting; where they are not alike, the most that any has."""
    runs: int
    """Replications of both arms that it took."""
    centre: Decision
    """From the interval at the centre alone."""
    bars: tuple[Bar, ...]
    """Widest first."""
    conditions: tuple[Bar, ...]
    break_evens: tuple[BreakEven, ...]
    grid: Grid | None
    worth: tuple[Worth, ...]
    """Best first."""
    joint: Joint | None
    notes: tuple[str, ...]
    """What could not be run, or was left out, and why."""
    budget: Budget | None = None
    """Where it has not gone to the same number of pairs everywhere: what there was, and what was spent."""
    missed: tuple[Knob, ...] = ()
    """Assumptions with a range that the budget did not reach."""

    @property
    def flips(self) -> list[tuple[Bar, End]]:
        """Ends of assumptions at which the decision is another one."""
        return [(bar, end) for bar in self.bars for end in bar.ends if end.flips]


def study(
    centre: Centre,
    pairs: int | None,
    *,
    out: Path,
    jobs: int | None = 1,
    fresh: bool = False,
    told: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    requests: int = BUDGET,
) -> tuple[Sensitivity | None, str]:
    """All of it, or why there is none. ``pairs`` a setting; None: as ``requests`` allow; 0: nothing is run."""
    if pairs == 0:
        return None, "not searched: no pairs were asked for (windtunnel review --sensitivity-pairs)"
    if centre.paired.ratio is None:
        return None, f"not searched: {centre.metric} has no ratio ({centre.paired.reason})"
    known = [each for each in registered(centre) if each.is_varied]
    sizes = _sizes(centre)
    say = told or (lambda _: None)
    budget = Budget(requests if pairs is None else None)
    runs = Runs(centre, out=out, jobs=jobs, fresh=fresh, progress=progress, budget=budget)
    alike = min(MOST_PAIRS if pairs is None else pairs, centre.pairs)
    if budget.holds(_whole(runs, [*known, *sizes], alike)):
        budget.limit = None
        return _alike(runs, known, sizes, alike, say), ""
    found = nearest_first(runs, likely(known, len(centre.scenario.assumptions)), sizes, alike, say)
    if known and not found.bars:
        if runs.notes:
            return None, f"not searched: {next(iter(runs.notes))}"
        return None, _too_long(runs, likely(known, len(centre.scenario.assumptions))[0])
    return _put_together(runs, found, alike), ""


def registered(centre: Centre) -> list[Knob]:
    """The assumptions of both arms, varied or not."""
    return assumptions(centre.scenario, centre.candidate, centre.change)


def _sizes(centre: Centre) -> list[Knob]:
    arms = [centre.scenario.arms[name] for name in (centre.scenario.baseline, centre.candidate)]
    least = max(each.router.policy.min_engines for each in arms)
    return conditions(arms[0], centre.change, centre.requests, least)


def _whole(runs: Runs, knobs: Sequence[Knob], pairs: int) -> int:
    """Requests of everything with so many pairs, break-evens and draws at their most."""
    ends = runs.price((knob.settings(level) for knob in knobs for level in knob.ends), pairs)
    others = (MOST_ROOTS * ROUNDS + CORNERS) * pairs + DRAWS * min(pairs, DRAWN_PAIRS)
    return ends + 2 * others * max(runs.centre.requests, LEAST_REQUESTS)


def _alike(
    runs: Runs, known: Sequence[Knob], sizes: Sequence[Knob], pairs: int, say: Callable[[str], None]
) -> Sensitivity:
    """Everything with the same number of pairs."""
    ends = sum(len(each.ends) for each in (*known, *sizes))
    say(
        f"sensitivity: {ends} settings of {len(known)} assumptions and {len(sizes)} sizes x 2 arms x {pairs} pairs = "
        f"{2 * ends * pairs:,} runs, and up to {MOST_ROOTS * ROUNDS + CORNERS + DRAWS} more settings for break-evens, "
        "map and joint draw"
    )
    bars = bars_of(runs, known, pairs)
    others = bars_of(runs, sizes, pairs)
    roots = break_evens(runs, bars, others, pairs)
    grid = grid_of(runs, bars, pairs)
    joint = joint_of(runs, bars, min(pairs, DRAWN_PAIRS))
    return _put_together(runs, Search(bars, others, roots, grid, joint), pairs)


def _put_together(runs: Runs, found: Search, pairs: int) -> Sensitivity:
    return Sensitivity(
        pairs=pairs,
        runs=runs.done,
        centre=runs.centre.decided,
        bars=_widest(found.bars),
        conditions=_widest(found.sizes),
        break_evens=tuple(found.break_evens),
        grid=found.grid,
        worth=tuple(worth_of(runs.centre, [each for each in found.bars if found.is_close(each)])),
        joint=found.joint,
        notes=tuple(runs.notes),
        budget=None if runs.budget.limit is None else runs.budget,
        missed=tuple(found.missed),
    )


def _widest(bars: Sequence[Bar]) -> tuple[Bar, ...]:
    return tuple(sorted(bars, key=lambda each: -each.width))


def _too_long(runs: Runs, first: Knob) -> str:
    price = runs.price([first.settings(level) for level in first.ends], SCREENED)
    return (
        f"not searched: the ends of {first.name} alone take {price:,} requests with {SCREENED} pairs, more than "
        f"{runs.budget.limit:,} (--sensitivity-requests)"
    )
