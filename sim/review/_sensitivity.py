"""Which assumption would turn the answer: both arms run again with it otherwise, under the same random numbers.

    tornado      each assumption at its ends, the ratio and the decision there
    conditions   the same for sizes of the job and of the fleet
    break-even   where a ratio crosses 1, or the smallest effect of interest, closed in on by further runs
    grid         the two widest bars against each other
    worth        what knowing an assumption is worth, by what measuring it costs
    joint        all assumptions drawn at once: the width that inputs give to the ratio

A decision elsewhere is made as that of the review is, from the interval there. With fewer pairs it is wider: where it
lies on one side of the smallest effect of interest it decides all the same, else it is undecided, and no flip. How
many pairs a setting gets follows from a budget of requests, not of time, so that the same command
gives the same numbers on any machine.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from sim.errors import ScenarioError
from sim.log import store
from sim.metrics import METRICS
from sim.report.region import coverage
from sim.report.result import Arm, Result
from sim.report.rule import percent
from sim.review._assumptions import assumptions, regions
from sim.review._conditions import conditions
from sim.review._judge import Decision, decision
from sim.review._knobs import Knob, Level
from sim.scenario import Scenario, Sweep, Variant
from sim.stats import Floats, Ratio
from sim.stats.sensitivity import (
    Crossing,
    Estimate,
    Response,
    Spread,
    change,
    crossing,
    elsewhere,
    latin,
    narrow,
    spread,
)
from sim.stats.strata import compare_blocked
from sim.sweep import sweep

BUDGET: Final = 300_000
"""Requests of all settings together, where no number of pairs is asked for: half a minute or so of one core."""
LEAST_REQUESTS: Final = 20
"""What a replication counts for at least: it has to be built and stored."""
MOST_PAIRS: Final = 16
ROUNDS: Final = 4
"""Runs that close in on one break-even."""
MOST_ROOTS: Final = 8
DRAWS: Final = 20
"""Of all assumptions at once, each on so many pairs at most:"""
DRAWN_PAIRS: Final = 4
CORNERS: Final = 4


@dataclass(frozen=True, slots=True)
class End:
    """An assumption somewhere else."""

    level: Level
    value: str
    """As it is read."""
    settings: Mapping[str, Any]
    """By field, as laid over both arms."""
    ratio: Estimate
    """Candidate over baseline there."""
    change: Estimate
    """Over the ratio at the centre, from the same pairs; 1 exactly where nothing moves."""
    decision: Decision
    flips: bool
    """It is decided there and at the centre, and differently."""
    outside: float | None = None
    """Share of busy time outside the calibrated region, in the arm that has more; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One assumption or size of the tornado."""

    knob: Knob
    ends: tuple[End, ...]

    @property
    def width(self) -> float:
        """Largest change of the log ratio."""
        return max((abs(each.change.log or 0.0) for each in self.ends), default=0.0)


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
    says: str


@dataclass(frozen=True, slots=True)
class Tile:
    """The two widest assumptions at one level each."""

    levels: tuple[str, str]
    ratio: Estimate
    decision: Decision
    outside: float | None = None
    """As of an end."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Who wins over the two widest assumptions."""

    knobs: tuple[Knob, Knob]
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """What knowing an assumption is worth."""

    knob: Knob
    chance: float
    """Probability that who knew it would decide otherwise."""
    loss: float
    """Expected loss that knowing avoids, as a share of the metric."""

    @property
    def per_gpu_hour(self) -> float | None:
        """None where nobody says what measuring takes."""
        hours = self.knob.gpu_hours
        return None if hours is None else self.loss / hours if hours else float("inf") if self.loss else 0.0


@dataclass(frozen=True, slots=True)
class Joint:
    """All assumptions drawn at once."""

    spread: Spread
    pairs: int
    root_sum_square: float
    """Standard deviation of the log ratio that the bars alone add up to, if they act apart."""


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


@dataclass(frozen=True, slots=True)
class Centre:
    """What the review found, and what it takes to ask again."""

    scenario: Scenario
    """Of the two arms alone."""
    candidate: str
    change: str
    """Path of the field in which they differ."""
    paired: Ratio
    """Of the metric that decides."""
    arms: tuple[Arm, Arm]
    interest: float
    pairs: int
    """That both arms have."""
    requests: int
    """Of a replication, in the arm that has more."""

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return self.scenario.metrics[0]

    @property
    def is_lower_better(self) -> bool:
        """Which way round ratios are read."""
        return METRICS[self.metric].better == "lower"

    @property
    def estimate(self) -> Estimate:
        """The ratio of the review."""
        return Estimate(self.paired.ratio, self.paired.lo, self.paired.hi, self.paired.pairs)

    def logs(self) -> Floats:
        """Log ratios by pair; NaN where there is none."""
        return _logs(*self.arms, self.metric)

    def decide(self, found: Estimate) -> Decision:
        """From an interval elsewhere; one on one side of the smallest effect of interest decides however wide it is."""
        oriented = self._oriented(found)
        if oriented is not None and oriented[2] < 1 + self.interest:
            return "DO NOT RUN"
        if oriented is not None and oriented[1] > 1 + self.interest:
            return "RUN"
        return decision(oriented, self.interest)

    @property
    def decided(self) -> Decision:
        """At the scenario as it stands, exactly as the review does."""
        return decision(self._oriented(self.estimate), self.interest)

    def _oriented(self, found: Estimate) -> tuple[float, float, float] | None:
        ratio, lo, hi = found.ratio, found.lo, found.hi
        if ratio is None or lo is None or hi is None:
            return None
        return (1 / ratio, 1 / hi, 1 / lo) if self.is_lower_better else (ratio, lo, hi)

    def gain(self, found: Estimate) -> float:
        """Logarithm of the ratio over the smallest effect worth having; more is better."""
        log = found.log or 0.0
        return (-log if self.is_lower_better else log) - float(np.log1p(self.interest))


def _logs(base: Arm, arm: Arm, metric: str) -> Floats:
    pairs = min(base.values.height, arm.values.height)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(arm.column(metric)[:pairs] / base.column(metric)[:pairs])
    return np.asarray(np.where(np.isfinite(logs), logs, np.nan))


Progress = Callable[[int, int], None]


class Runs:
    """Both arms at other settings, each run once."""

    def __init__(
        self, centre: Centre, pairs: int, *, out: Path, jobs: int | None, fresh: bool, progress: Progress | None
    ) -> None:
        self.centre = centre
        self.pairs = pairs
        self.notes: dict[str, None] = {}
        self.done = 0
        self._how: dict[str, Any] = {"out": out / "sensitivity", "jobs": jobs, "fresh": fresh, "progress": progress}
        self._every = centre.logs()
        self._found: dict[tuple[str, int], tuple[Estimate, Estimate, Floats] | None] = {}
        self._far: dict[tuple[str, int], float] = {}

    def at(
        self, settings: Sequence[Mapping[str, Any]], names: Sequence[str], pairs: int | None = None
    ) -> list[tuple[Estimate, Estimate, Floats] | None]:
        """Ratio, change over the centre, and changes by pair, of each; None where it cannot be run: a note says why."""
        count = self.pairs if pairs is None else pairs
        keys = [self._key(each, count) for each in settings]
        variants: dict[tuple[str, int], Variant] = {}
        for key, each, name in zip(keys, settings, names, strict=True):
            if key in self._found or key in variants:
                continue
            try:
                varied = self.centre.scenario.varied(each).select(pairs=count)
                variants[key] = Variant(name, dict(each), varied)
            except ScenarioError as error:
                self._fail(key, name, str(error))
        self._run(variants)
        return [self._found[key] for key in keys]

    def far(self, settings: Mapping[str, Any]) -> float | None:
        """Share of busy time outside the calibrated region in the arm that has more, by the first pair."""
        return self._far.get(self._key(settings, self.pairs))

    @staticmethod
    def _key(settings: Mapping[str, Any], count: int) -> tuple[str, int]:
        return repr(sorted(settings.items(), key=lambda item: item[0])), count

    def _fail(self, key: tuple[str, int], name: str, error: str) -> None:
        self._found[key] = None
        self.notes[f"{name} cannot be run: {error.partition(': ')[2] or error}"] = None

    def _run(self, variants: Mapping[tuple[str, int], Variant]) -> None:
        if not variants:
            return
        named = {f"{number}": key for number, key in enumerate(variants)}
        made = Sweep(
            self.centre.scenario,
            (),
            tuple(replace(variants[key], name=name) for name, key in named.items()),
        )
        try:
            found = sweep(made, keep_tables=True, **self._how)  # tables say what was outside the calibrated region
        except ScenarioError as error:
            # One that is refused before it runs keeps the others from running: each by itself, then.
            for key, variant in variants.items():
                if len(variants) > 1:
                    self._run({key: variant})
                else:
                    self._fail(key, variant.name, str(error))
            return
        for name, key in named.items():
            if name in found.results:
                self._found[key] = self._estimates(found.results[name])
                self._far[key] = max(_far(variants[key].scenario, arm) for arm in found.results[name].arms.values())
                self.done += 2 * key[1]
                if failures := found.results[name].failures:
                    self.notes[f"{variants[key].name}: {failures} replications failed"] = None
            else:
                self._fail(key, variants[key].name, found.errors[name])

    def _estimates(self, result: Result) -> tuple[Estimate, Estimate, Floats]:
        base, arm = result.arms[self.centre.scenario.baseline], result.arms[self.centre.candidate]
        there = _logs(base, arm, self.centre.metric)
        here = self._every[: there.size]
        blocked = next((each for each in (arm, base) if each.is_blocked and each.placed is not None), None)
        if blocked is not None and blocked.placed is not None:
            paired = result.comparison(self.centre.candidate, self.centre.metric).paired
            strata = blocked.placed.strata(base.values["pair"][: there.size])
            moved = compare_blocked(np.exp(here), np.exp(there), "none", *strata)
            return _of(paired), _of(moved), there - here
        return elsewhere(self._every, here, there), change(here, there), there - here


def _far(scenario: Scenario, arm: Arm) -> float:
    return 1 - coverage(store.read_engines(arm.folder, pair=0), regions(scenario.arms[arm.name])).inside_share


def _of(found: Ratio) -> Estimate:
    return Estimate(found.ratio, found.lo, found.hi, found.pairs)


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
    planned = _afford(centre, known, sizes, pairs)
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
    bars = _bars(runs, known)
    others = _bars(runs, sizes)
    roots = _break_evens(runs, bars, others) if is_whole else []
    grid = _grid(runs, bars) if is_whole else None
    joint = _joint(runs, bars, min(count, DRAWN_PAIRS)) if is_whole else None
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
        worth=tuple(_worth(centre, bars)),
        joint=joint,
        notes=tuple(notes),
    ), ""


def registered(centre: Centre) -> list[Knob]:
    """The assumptions of both arms, varied or not."""
    return assumptions(centre.scenario, centre.candidate, centre.change)


def _afford(centre: Centre, known: list[Knob], sizes: list[Knob], pairs: int | None) -> tuple[int, bool] | str:
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


def _bars(runs: Runs, knobs: Sequence[Knob]) -> list[Bar]:
    asked = [(knob, level) for knob in knobs for level in knob.ends]
    settings = [knob.settings(level) for knob, level in asked]
    found = runs.at(settings, [f"{knob.name} {knob.shown(level)}" for knob, level in asked])
    ends: dict[str, list[End]] = {knob.id: [] for knob in knobs}
    here = runs.centre.decided
    for (knob, level), said, each in zip(asked, settings, found, strict=True):
        if each is not None:
            decided = runs.centre.decide(each[0])
            flips = "undecided" not in (here, decided) and here != decided
            ends[knob.id].append(End(level, knob.shown(level), said, *each[:2], decided, flips, runs.far(said)))
    return [Bar(knob, tuple(ends[knob.id])) for knob in knobs if ends[knob.id]]


# -- break-evens -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Root:
    """A stretch of a bar over which the ratio crosses a line."""

    bar: Bar
    is_condition: bool
    line: Literal["worse", "interest"]
    at: float
    """The line, as a ratio."""
    bracket: tuple[float, float]


def _break_evens(runs: Runs, bars: Sequence[Bar], sizes: Sequence[Bar]) -> list[BreakEven]:
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
    asked: list[dict[float, Estimate]] = [_points(centre, each.bar) for each in roots]

    def respond(levels: Floats, which: Any) -> Floats:
        picked = [roots[i].bar.knob for i in which]
        at = [round(x) if knob.is_whole else float(x) for knob, x in zip(picked, levels.tolist(), strict=True)]
        settings = [knob.settings(level) for knob, level in zip(picked, at, strict=True)]
        names = [f"{knob.name} {knob.shown(level)}" for knob, level in zip(picked, at, strict=True)]
        gaps = []
        for i, level, each in zip(which, at, _run_or_centre(runs, settings, names), strict=True):
            if each is not None:
                asked[i][float(level)] = each
            log = None if each is None else each.log
            gaps.append(np.nan if log is None else log - np.log(roots[i].at))
        return np.array(gaps)

    narrow(respond, [each.bracket for each in roots], ROUNDS)
    found = []
    for root, points in zip(roots, asked, strict=True):
        levels = sorted(points)
        near = root.bar.knob.centre if root.bar.knob.centre is not None else levels[0]
        where = crossing(np.array(levels), [points[level] for level in levels], root.at, float(near))
        if where is not None:
            found.append(_break_even(centre, root, where))
    return found


def _run_or_centre(
    runs: Runs, settings: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[Estimate | None]:
    """Ratios at settings; no setting at all is the centre itself."""
    asked = [(each, name) for each, name in zip(settings, names, strict=True) if each]
    found = iter(runs.at([each for each, _ in asked], [name for _, name in asked]))
    for each in settings:
        if not each:
            yield runs.centre.estimate
            continue
        ran = next(found)
        yield None if ran is None else ran[0]


def _points(centre: Centre, bar: Bar) -> dict[float, Estimate]:
    """Estimates by level, the centre among them."""
    points = {float(end.level): end.ratio for end in bar.ends}
    if bar.knob.centre is not None:
        points[float(bar.knob.centre)] = centre.estimate
    return points


def _crossed(
    centre: Centre, bar: Bar, is_condition: bool, line: Literal["worse", "interest"], at: float
) -> Iterator[_Root]:
    """The stretch next to the centre whose ends lie on different sides of a line, one of them clearly."""
    points = _points(centre, bar)
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
    bad = f"{knob.name} {sign} {_value(knob, value)}"
    says = (
        f"{centre.candidate} {verb} if {bad}{_an_engine(centre, knob, value)} "
        f"(95 %: {low} to {high}; runs at {ends} lie on different sides)"
    )
    return BreakEven(knob, root.is_condition, root.line, where.value, where.bracket, where.interval, loses, bad, says)


def _level(knob: Knob, value: float) -> Level:
    return round(value) if knob.is_whole else value


def _value(knob: Knob, value: float) -> str:
    """A break-even as it is read: factors of one number as that number too."""
    if knob.is_factor and len(knob.present) == 1 and isinstance(knob.present[0], int | float):
        return f"{knob.present[0] * value:,.4g} (× {value:.3g})"
    return knob.shown(value)


def _an_engine(centre: Centre, knob: Knob, value: float) -> str:
    engines = centre.scenario.arms[centre.scenario.baseline].engines
    if knob.fields == ("workload.groups",) and engines > 1:
        return f" ({value / engines:.3g} an engine)"
    if knob.fields == ("fleet.engines",):
        groups = centre.scenario.arms[centre.scenario.baseline].resolved["workload"].get("groups")
        return f" (more than {groups / value:.3g} groups an engine)" if groups else ""
    return ""


# -- map, worth, joint draw ------------------------------------------------------------------------------------------


def _grid(runs: Runs, bars: Sequence[Bar]) -> Grid | None:
    moving = sorted((each for each in bars if each.width > 0), key=lambda each: -each.width)[:2]
    if len(moving) < 2:
        return None
    knobs = moving[0].knob, moving[1].knob
    levels = [_levels(each) for each in moving]
    asked = list(product(*levels))
    settings = [{**knobs[0].settings(one), **knobs[1].settings(other)} for one, other in asked]
    shown = [(_shown(knobs[0], one), _shown(knobs[1], other)) for one, other in asked]
    names = [f"{knobs[0].name} {one} with {knobs[1].name} {other}" for one, other in shown]
    found = _run_or_centre(runs, settings, names)
    tiles = [
        Tile(said, each, runs.centre.decide(each), runs.far(there))
        for said, there, each in zip(shown, settings, found, strict=True)
        if each is not None
    ]
    return Grid(knobs, tuple(tiles))


def _levels(bar: Bar) -> list[Level]:
    """The ends that ran with the present value between them; two others at most."""
    ends = [end.level for end in bar.ends][:2]
    return [*ends, None] if bar.knob.options else sorted({*ends, bar.knob.centre} - {None})


def _shown(knob: Knob, level: Level) -> str:
    return f"{knob.value} (as stated)" if level is None else knob.shown(level)


def _worth(centre: Centre, bars: Iterable[Bar]) -> list[Worth]:
    found = []
    for bar in bars:
        response = _response(centre, bar)
        found.append(Worth(bar.knob, response.chance, float(np.expm1(response.worth))))
    return sorted(found, key=lambda each: (-(each.per_gpu_hour or 0.0), -each.loss, -each.chance))


def _response(centre: Centre, bar: Bar) -> Response:
    """Gains over the smallest effect worth having."""
    if bar.knob.options:
        return Response(tuple(centre.gain(each) for each in (centre.estimate, *(end.ratio for end in bar.ends))))
    points = _points(centre, bar)
    levels = sorted(points)
    gains = tuple(centre.gain(points[level]) for level in levels)
    return Response(gains, tuple(levels)) if len(levels) > 1 else Response(gains)


def _joint(runs: Runs, bars: Sequence[Bar], pairs: int) -> Joint | None:
    knobs = [each.knob for each in bars]
    if not knobs or pairs < 2:
        return None
    settings = []
    for row in latin(DRAWS, len(knobs)).tolist():
        drawn: dict[str, Any] = {}
        for knob, share in zip(knobs, row, strict=True):
            drawn |= knob.settings(knob.at(share))
        settings.append(drawn)
    known = dict(runs.notes)
    found = runs.at(settings, ["a draw of all assumptions"] * DRAWS, pairs)
    if refused := [each for each in runs.notes if each not in known]:
        # What does not go together is said once, however often it was drawn.
        runs.notes = {**known, f"{found.count(None)} of {DRAWS} draws cannot be run; the first: {refused[0]}": None}
    moved = spread([each[2] for each in found if each is not None])
    if moved is None:
        return None
    apart = sum(_response(runs.centre, bar).variance for bar in bars)
    return Joint(moved, pairs, float(apart**0.5))
