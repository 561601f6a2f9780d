"""All of it, as far as a budget of requests goes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.review._assumptions import assumptions
from sim.review._conditions import conditions
from sim.review._judge import Decision
from sim.review._knobs import Knob
from sim.review.sensitivity._bars import Bar, End, bars_of
from sim.review.sensitivity._break_evens import MOST_ROOTS, ROUNDS, BreakEven, break_evens
from sim.review.sensitivity._centre import Centre
from sim.review.sensitivity._grid import CORNERS, Grid, grid_of
from sim.review.sensitivity._joint import DRAWN_PAIRS, DRAWS, Joint, joint_of
from sim.review.sensitivity._runs import Progress, Runs
from sim.review.sensitivity._worth import Worth, worth_of

BUDGET: Final = 300_000
"""Requests of all settings together, where no number of pairs is asked for: half a minute or so of one core."""
LEAST_REQUESTS: Final = 20
"""What a replication counts for at least: it has to be built and stored."""
MOST_PAIRS: Final = 16


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What was varied, and what it did."""

    pairs: int
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
) -> tuple[Sensitivity | None, str]:
    """All of it, and why there is none. ``pairs`` a setting; None: as a budget allows; 0: nothing is run."""
    if pairs == 0:
        return None, "not searched: no pairs were asked for (windtunnel review --sensitivity-pairs)"
    if centre.paired.ratio is None:
        return None, f"not searched: {centre.metric} has no ratio ({centre.paired.reason})"
    known = [each for each in registered(centre) if each.is_varied]
    policies = (centre.scenario.arms[name].router.policy for name in (centre.scenario.baseline, centre.candidate))
    sizes = conditions(
        centre.scenario.arms[centre.scenario.baseline],
        centre.change,
        centre.requests,
        max(each.min_engines for each in policies),
    )
    planned = afford(centre, known, sizes, pairs)
    if isinstance(planned, str):
        return None, planned
    count, is_whole = planned
    sizes = sizes if is_whole else []
    runs = Runs(centre, count, out=out, jobs=jobs, fresh=fresh, progress=progress)
    ends = sum(len(each.ends) for each in (*known, *sizes))
    more = f", and up to {MOST_ROOTS * ROUNDS + CORNERS + DRAWS} more settings for break-evens, map and joint draw"
    say = told or (lambda _: None)
    say(
        f"sensitivity: {ends} settings of {len(known)} assumptions and {len(sizes)} sizes x 2 arms x {count} pairs = "
        f"{2 * ends * count:,} runs" + (more if is_whole else "")
    )
    bars = bars_of(runs, known)
    others = bars_of(runs, sizes)
    roots = break_evens(runs, bars, others) if is_whole else []
    grid = grid_of(runs, bars) if is_whole else None
    joint = joint_of(runs, bars, min(count, DRAWN_PAIRS)) if is_whole else None
    notes = list(runs.notes)
    if not is_whole:
        notes.append(
            f"{centre.requests:,} requests a replication leave room for the ends of assumptions alone within "
            f"{BUDGET:,} requests: no sizes, break-evens, map and joint draw; --sensitivity-pairs makes them"
        )
    return Sensitivity(
        pairs=count,
        runs=runs.done,
        centre=centre.decided,
        bars=tuple(sorted(bars, key=lambda each: -each.width)),
        conditions=tuple(sorted(others, key=lambda each: -each.width)),
        break_evens=tuple(roots),
        grid=grid,
        worth=tuple(worth_of(centre, bars)),
        joint=joint,
        notes=tuple(notes),
    ), ""


def registered(centre: Centre) -> list[Knob]:
    """The assumptions of both arms, varied or not."""
    return assumptions(centre.scenario, centre.candidate, centre.change)


def afford(centre: Centre, known: list[Knob], sizes: list[Knob], pairs: int | None) -> tuple[int, bool] | str:
    """Pairs a setting, and whether there is room for more than the ends of assumptions; or why there is none."""
    there = centre.pairs
    if pairs is not None:
        return min(pairs, there), True
    each = 2 * max(centre.requests, LEAST_REQUESTS)
    ends = float(sum(len(knob.ends) * max(knob.work, 1.0) for knob in known))
    extra = sum(len(knob.ends) * max(knob.work, 1.0) for knob in sizes) + MOST_ROOTS * ROUNDS + CORNERS
    drawn = DRAWS * DRAWN_PAIRS
    whole = int((BUDGET / each - drawn) / max(ends + extra, 1.0))
    if whole >= 2:
        return min(whole, MOST_PAIRS, there), True
    alone = int(BUDGET / each / max(ends, 1.0))
    if alone >= 2:
        return min(alone, MOST_PAIRS, there), False
    return (
        f"not searched: {ends:.0f} settings x 2 arms x 2 pairs of {centre.requests:,} requests are "
        f"{int(2 * each * ends):,} requests, more than {BUDGET:,}; --sensitivity-pairs 2 runs them all the same"
    )
