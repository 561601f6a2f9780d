"""How many real pairs a stored comparison calls for, with and without blocking, and what they cost.

The spread of a pair's log ratio is measured on the stored pairs; the real system's own noise is added to it. Blocked, a
campaign gives each placement class a planned number of pairs, and the spread within classes counts.

Without a rule there is one look, at 95 %; a review gives the level of its rule's first look, 96 % where an extension is
allowed, so that the power it states is that of the test that will be made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sim import placement, stats
from sim.errors import ScenarioError
from sim.report.contrast import by_stratum, log_ratios
from sim.report.sides import Side
from sim.stats.paired import LEVEL
from sim.stats.power import MOST_RUN_NOISE, RUN_NOISE, Cost, Design, Spread, pairs_needed, power, unblocked, within

EFFECTS = (0.03, 0.05, 0.08, 0.10, 0.15)
MANY = 2_000
"""Pairs from which on a plan of classes is taken to be in proportion: off by less than one in each."""
PAIRS = (3, 5, 8, 10, 15, 20, 30, 50, 75, 100, 150, 200)


@dataclass(frozen=True, slots=True)
class Need:
    """Pairs for one effect."""

    effect: float
    simulated_alone: int
    """Without the real system's noise: no plan, only how much the noise matters."""
    real: int
    noisiest: int
    """With the largest noise that was found published."""
    blocked: int | None
    gpu_hours: float
    gpu_hours_blocked: float | None


@dataclass(frozen=True, slots=True)
class Chance:
    """The probability that so many real pairs show the effect."""

    pairs: int
    real: float
    blocked: float | None
    """None too where so few leave a class without two pairs."""
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that ``windtunnel power`` prints."""

    metric: str
    ratio: float
    """Simulated."""
    spread: Spread
    blocked: Spread | None
    pairs: int
    """Stored pairs that the spread is measured on."""
    classes: list[tuple[str, float, int]]
    """Strata with their exact shares and stored pairs."""
    spreads: list[float]
    """Of a real pair's log ratio within each stratum."""
    effect: float
    wanted: float
    level: float
    """Of the two-sided interval that must leave out 1."""
    needs: list[Need]
    chances: list[Chance]
    cost: Cost

    @property
    def need(self) -> Need:
        """Pairs for the effect that was asked for."""
        return next(each for each in self.needs if each.effect == self.effect)

    def design(self, *, is_blocked: bool) -> Design:
        """How real pairs vary, as they fall or planned by class."""
        if not is_blocked:
            return unblocked(self.spread.real)
        return _by_class([share for _, share, _ in self.classes], self.spreads)


def _by_class(shares: Sequence[float], spreads: Sequence[float]) -> Design:
    return Design(tuple(shares), tuple(spreads), partial(_counts, tuple(shares)))


def _counts(shares: Sequence[float], pairs: int) -> list[int]:
    """Pairs of each class in a campaign of so many: as planned, and by the shares where there are thousands."""
    if pairs > MANY:
        return [int(share * pairs) for share in shares]
    chosen = placement.plan(shares, pairs)
    return [chosen.count(index) for index in range(len(shares))]


def plan(
    baseline: Side,
    candidate: Side,
    metric: str,
    *,
    effect: float,
    wanted: float,
    noise: float | None,
    overhead_h: float,
    failure_rate: float,
    level: float = LEVEL,
) -> Plan:
    """Plan a real campaign from stored results of both arms; ScenarioError where they say too little."""
    frame = log_ratios(baseline, candidate, metric)
    logs = frame["log_ratio"].to_numpy()
    if logs.size < 3:
        raise ScenarioError(f"{logs.size} stored pairs of {metric} have a ratio: a spread needs 3, better 100")
    run_noise = noise if noise is not None else _noise(baseline, candidate)
    spread = Spread(float(logs.std(ddof=1)), run_noise)
    strata = by_stratum(candidate, frame) or by_stratum(baseline, frame)
    placed = candidate.placed if by_stratum(candidate, frame) else baseline.placed
    blocked, by_class, classes, spreads = None, None, [], []
    if strata is not None and placed is not None and any(part.size > 1 for part in strata[0]):
        blocked = Spread(within(*strata), run_noise)
        classes = _classes(placed.keys, placed.engines, strata[0])
        own = [float(part.std(ddof=1)) if part.size > 1 else blocked.simulated for part in strata[0]]
        spreads = [Spread(each, run_noise).real for each in own]
        by_class = _by_class([share for _, share, _ in classes], spreads)
    cost = Cost(_gpus(baseline, candidate), _run_h(baseline, candidate), overhead_h, failure_rate)
    effects = sorted({*EFFECTS, effect}, key=abs)
    try:
        needs = [_need(each, wanted, spread, by_class, cost, level) for each in effects]
    except ValueError as error:
        raise ScenarioError(str(error)) from None
    chances = [
        Chance(
            n,
            power(n, effect, spread.real, level=level),
            None if by_class is None else by_class.power(n, effect, level=level) or None,
            cost.gpu_hours(n),
        )
        for n in PAIRS
    ]
    ratio = float(np.exp(logs.mean()))
    return Plan(
        metric=metric,
        ratio=ratio,
        spread=spread,
        blocked=blocked,
        pairs=int(logs.size),
        classes=classes,
        spreads=spreads,
        effect=effect,
        wanted=wanted,
        level=level,
        needs=needs,
        chances=chances,
        cost=cost,
    )


def _need(effect: float, wanted: float, spread: Spread, by_class: Design | None, cost: Cost, level: float) -> Need:
    real = pairs_needed(effect, spread.real, wanted=wanted, level=level)
    fewer = None if by_class is None else by_class.needed(effect, wanted=wanted, level=level)
    return Need(
        effect,
        pairs_needed(effect, spread.simulated, wanted=wanted, level=level),
        real,
        pairs_needed(
            effect, Spread(spread.simulated, max(MOST_RUN_NOISE, spread.run_noise)).real, wanted=wanted, level=level
        ),
        fewer,
        cost.gpu_hours(real),
        None if fewer is None else cost.gpu_hours(fewer),
    )


def _classes(keys: int, engines: int, parts: Sequence[stats.Floats]) -> list[tuple[str, float, int]]:
    known = placement.strata(keys, engines)
    return [(each.name, each.share, int(part.size)) for each, part in zip(known, parts, strict=True)]


def _noise(*sides: Side) -> float:
    """The largest that the scenarios of the stored results name."""
    named = [side.manifest["real_run_noise"] for side in sides if side.manifest and "real_run_noise" in side.manifest]
    return float(max(named, default=RUN_NOISE))


def _gpus(*sides: Side) -> int:
    """Of the larger fleet."""
    fleets = [side.manifest["cell"]["fleet"] for side in sides if side.manifest]
    if not fleets:
        return 1
    return max(_gpus_of(fleet) for fleet in fleets)


def _gpus_of(fleet: dict[str, object]) -> int:
    engines, engine = fleet["engines"], fleet.get("engine")
    if isinstance(engines, dict):
        return sum(int(each["count"]) * int(each["engine"]["tp"]) for each in engines.values())
    assert isinstance(engines, int)
    assert isinstance(engine, dict)
    return engines * int(engine["tp"])


def _run_h(*sides: Side) -> float:
    """Mean length of a run, of the slower arm."""
    means = [side.values["makespan_s"].mean() for side in sides if "makespan_s" in side.metrics]
    return max((float(mean) for mean in means if isinstance(mean, int | float)), default=0.0) / 3600
