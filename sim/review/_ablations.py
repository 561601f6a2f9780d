"""Ablations: what is left of the difference between two arms where a mechanism is switched off.

An arm of the scenario may say that it is the candidate without a mechanism (``ablates``). Where none does, a review
makes its own: fields set in both arms, so that they still differ in the one field that is asked about, and the
difference there is held against the difference as things stand, pair by pair.

    saved prefill          prefix caching off in every engine
    re-prefill             KV memory without end: nothing is preempted, nor evicted
    imbalance, tail idle   keys dealt in turn, where both arms place them by one hash
    router and clients     a router that takes no time, where it takes any
    outages                engines that do not fail, where some do
    batching               none: it is the work itself

A mechanism that is the change itself cannot be switched off in both arms: they would be the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from sim.errors import ScenarioError
from sim.log.frames import Tables
from sim.report.ledger import Entry, by_mechanism, ledger, mechanisms
from sim.report.ledger import differences as differences_of
from sim.report.result import Arm, Result, compare_arms
from sim.review._controls import roomy
from sim.review.sensitivity import LEAST_REQUESTS, Centre
from sim.scenario import Cell, Scenario
from sim.stats import Floats, Ratio
from sim.stats.shares import Share, ratio_of_means
from sim.sweep import run

BUDGET: Final = 400_000
"""Requests of all ablations together, where no number of pairs is asked for."""
MOST: Final = 2
"""Mechanisms that are switched off, each by itself; the one that moved most first."""
FEWEST: Final = 4
"""Pairs below which none is made."""
LEAST: Final = 0.01
"""Share of the baseline's engine time that a mechanism must have moved."""
REMOVED: Final = 0.5
"""Share of a mechanism that an ablation must take away to have taken it, and of an effect to be its cause."""
ALIKE: Final = ("imbalance", "tail idle")
"""Mechanisms that one switch takes away."""

Change = tuple[str, Any, Any]
"""A field, and its value in each of two arms."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """The difference between the arms where one mechanism is switched off, beside the difference as things stand."""

    mechanism: str
    """What is switched off."""
    moved: pl.DataFrame
    """By pair, what the candidate's ledger has over the baseline's, in nanoseconds."""
    own: pl.DataFrame
    """The same with the mechanism off."""
    whole: Ratio
    """Candidate over baseline in the metric that decides, over these pairs."""
    ratio: Ratio
    """The same with the mechanism off."""
    share: Share | None
    """Of the logarithm of the ratio, what is gone; None where the ratio is 1 or there is none."""
    lost: int
    """Requests that failed, were rejected or never ended, beyond those of the arms as they stand."""
    arm: str = ""
    """The arm that is the candidate without the mechanism; empty where both arms are without it."""
    change: Change | None = None
    """The one field in which that arm differs from the candidate."""
    off: str = ""
    """What is set in both arms, in words."""
    settings: Mapping[str, Any] | None = None
    """By field, what is set in both arms."""
    others: tuple[str, ...] = ()
    """Further arms that the scenario says take something away from the candidate."""

    @property
    def is_off(self) -> bool:
        """Whether the mechanism itself is gone: not most of it stays for sure."""
        gone = self.gone(self.mechanism)
        return gone is None or gone.hi is None or gone.hi > REMOVED

    @property
    def is_cause(self) -> bool:
        """Whether most of the effect is surely gone without the mechanism."""
        is_gone = self.share is not None and self.share.lo is not None and self.share.lo > REMOVED
        return is_gone and self.is_off and not self.lost

    @property
    def stays(self) -> bool:
        """Whether most of the effect surely stays without the mechanism."""
        return not self.lost and self.share is not None and self.share.hi is not None and self.share.hi < REMOVED

    def seconds(self, name: str) -> tuple[float, float]:
        """Mean difference from the baseline in a mechanism or in total: as things stand, and with it off."""
        whole, own = (float(by_mechanism(each, name).to_numpy().mean()) for each in (self.moved, self.own))
        return whole, own

    def gone(self, name: str) -> Share | None:
        """Of the difference in a mechanism, the share that is not there; None where there was none."""
        whole, own = (by_mechanism(each, name).to_numpy() for each in (self.moved, self.own))
        return ratio_of_means(whole - own, whole)


@dataclass(frozen=True, slots=True)
class Ablations:
    """By an arm that says so, then those of the review's own; and what it could not switch off."""

    made: tuple[Ablation, ...] = ()
    notes: tuple[str, ...] = ()
    """Of the mechanisms that moved most, why one is not switched off."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Fields that take a mechanism away from any arm."""

    off: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """The two arms as they were run, baseline first."""

    centre: Centre
    tables: tuple[Tables, Tables]
    entries: Sequence[Entry]
    """Their ledger, line by line."""
    moved: pl.DataFrame
    """By pair, what the candidate's ledger has over the baseline's, in nanoseconds."""


def undone(tables: Tables) -> int:
    """Requests that failed, were rejected or never ended; what a trainer aborts is meant to end."""
    return int(tables.requests["status"].cast(pl.String).is_in(["failed", "rejected", "unfinished"]).sum())


# -- an arm that says so ------------------------------------------------------------------------------------------


def of_arm(found: Found, result: Result, taking: Sequence[str], mechanism: str, change: Change) -> Ablation:
    """The ablation by an arm of the scenario; ``taking`` has its name first."""
    own = result.arms[taking[0]]
    tables = own.tables()
    return _ablation(
        found,
        (found.centre.arms[0], own),
        differences_of(ledger(found.tables[0]), ledger(tables)),
        result.comparison(own.name, found.centre.metric).paired,
        mechanism=mechanism,
        lost=max(undone(tables) - undone(found.tables[1]), 0),
        arm=own.name,
        change=change,
        others=tuple(taking[1:]),
    )


def _ablation(
    found: Found, arms: tuple[Arm, Arm], own: pl.DataFrame, ratio: Ratio, *, mechanism: str, **more: Any
) -> Ablation:
    """Over the pairs that both have."""
    both = found.moved.join(own.select("pair"), on="pair", how="semi")
    pairs = both.height
    whole, without = (_logs(one, other, found.centre.metric, pairs) for one, other in (found.centre.arms, arms))
    known = ~(np.isnan(whole) | np.isnan(without))
    cut = [replace(arm, values=arm.values.head(pairs)) for arm in found.centre.arms]
    blocked = next((each for each in reversed(found.centre.arms) if each.is_blocked and each.placed is not None), None)
    strata = blocked.placed.strata(blocked.values["pair"][:pairs]) if blocked and blocked.placed else None
    return Ablation(
        mechanism=mechanism,
        moved=both,
        own=own.join(both.select("pair"), on="pair", how="semi"),
        whole=compare_arms(cut[0], cut[1], found.centre.metric).paired,
        ratio=ratio,
        share=ratio_of_means(whole - without, whole, strata) if known.all() and pairs else None,
        **more,
    )


def _logs(base: Arm, arm: Arm, metric: str, pairs: int) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(arm.column(metric)[:pairs] / base.column(metric)[:pairs])
    return np.asarray(np.where(np.isfinite(logs), logs, np.nan))


# -- ablations of the review's own --------------------------------------------------------------------------------


def ablate(
    found: Found,
    pairs: int | None,
    by_arm: Ablation | None = None,
    *,
    out: Path,
    jobs: int | None = 1,
    fresh: bool = False,
    told: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ablations:
    """That of an arm, and what moved most switched off besides, unless the arm shows the cause.

    ``pairs``: of each ablation; None: as many as a budget allows; 0: none is made.
    """
    made = () if by_arm is None else (by_arm,)
    if by_arm is not None and by_arm.is_cause:
        return Ablations(made)
    if pairs == 0:
        return Ablations(made, ("no pairs were asked for (windtunnel review --ablation-pairs)",))
    paired, metric = found.centre.paired, found.centre.metric
    if paired.lo is None or paired.hi is None or paired.lo <= 1 <= paired.hi:
        return Ablations(made, (f"the arms are not told apart in {metric}, so that nothing asks for a cause",))
    notes: list[str] = []
    switches = _switches(found, by_arm.mechanism if by_arm else None, notes)
    count = _affordable(found.centre, switches, pairs, notes)
    ablations = []
    for name, (switch, scenario) in switches.items():
        (told or (lambda _: None))(f"ablation: {switch.off}, 2 arms x {count} pairs = {2 * count:,} runs")
        try:
            result = run(scenario.select(pairs=count), jobs=jobs, out=out / "ablation", fresh=fresh, progress=progress)
        except ScenarioError as error:
            notes.append(f"{name}: {switch.off} cannot be run ({str(error).partition(': ')[2] or error})")
            continue
        if result.failures:
            notes.append(f"{name}: {result.failures} replications failed with {switch.off}")
            continue
        ablations.append(_of_both(found, name, switch, result))
    return Ablations((*made, *ablations), tuple(notes))


def _switches(found: Found, besides: str | None, notes: list[str]) -> dict[str, tuple[Switch, Scenario]]:
    """By mechanism, those that moved most and both arms with them off; ``besides``: one that an arm takes away."""
    switches: dict[str, tuple[Switch, Scenario]] = {}
    taken = ALIKE if besides in ALIKE else (besides,)
    for name in moved_most(found):
        if len(switches) < MOST and name not in taken:
            made = _variant(found, name)
            if isinstance(made, str):
                notes.append(f"{name}: {made}")
            elif all(made[0] != each for each, _ in switches.values()):
                switches[name] = made
    return switches


def _affordable(
    centre: Centre, switches: dict[str, tuple[Switch, Scenario]], pairs: int | None, notes: list[str]
) -> int:
    """Pairs of each ablation; what has no room within the budget is taken from the switches, the last one first."""
    count = min(centre.pairs, pairs) if pairs else 0
    while switches and not count:
        afford = BUDGET // (2 * len(switches) * max(centre.requests, LEAST_REQUESTS))
        if afford >= min(FEWEST, centre.pairs):
            count = min(centre.pairs, afford)
        else:
            last, _ = switches.popitem()
            notes.append(
                f"{last}: {centre.requests:,} requests a replication leave no room for it within {BUDGET:,} requests "
                "(--ablation-pairs makes it)"
            )
    return count


def moved_most(found: Found, least: float = LEAST) -> list[str]:
    """Mechanisms by how much engine time they moved, the largest first; of at least this share of the baseline's."""
    total = found.entries[-1].baseline_s
    sizes = {each.line: abs(each.difference.mean or 0.0) for each in mechanisms(list(found.entries), found.moved)}
    return sorted((name for name, size in sizes.items() if size >= least * total), key=lambda name: -sizes[name])


def _of_both(found: Found, name: str, switch: Switch, result: Result) -> Ablation:
    arms = result.arms[found.centre.scenario.baseline], result.arms[found.centre.candidate]
    tables = arms[0].tables(), arms[1].tables()
    pairs = min(arm.values.height for arm in arms)
    before = sum(undone(_first(each, pairs)) for each in found.tables)
    return _ablation(
        found,
        arms,
        differences_of(*(ledger(each) for each in tables)),
        result.comparison(found.centre.candidate, found.centre.metric).paired,
        mechanism=name,
        lost=max(sum(undone(each) for each in tables) - before, 0),
        off=switch.off,
        settings=switch.settings,
    )


def _first(tables: Tables, pairs: int) -> Tables:
    return replace(tables, requests=tables.requests.filter(pl.col("pair") < pairs))


def _variant(found: Found, name: str) -> tuple[Switch, Scenario] | str:
    """Both arms with a mechanism off; why not, where that cannot be."""
    scenario = found.centre.scenario
    switch = switch_of(name, scenario, found.centre.candidate, found.centre.change)
    if isinstance(switch, str):
        return switch
    try:
        arms = {arm: with_fields(cell, switch.settings) for arm, cell in scenario.arms.items()}
    except ScenarioError as error:
        return f"{switch.off} cannot be set ({str(error).partition(': ')[2] or error})"
    if arms[scenario.baseline].hash == arms[found.centre.candidate].hash:
        return f"with {switch.off} the arms are the same: that is the change itself"
    return switch, replace(scenario, arms=arms)


def with_fields(cell: Cell, settings: Mapping[str, Any]) -> Cell:
    """A cell with fields set otherwise; a component is set as a whole."""
    resolved: dict[str, Any] = deepcopy(cell.resolved)
    for path, value in settings.items():
        *above, last = path.split(".")
        place = resolved
        for part in above:
            place = place[part]
        place[last] = value
    return Cell.from_resolved(resolved, cell.base, cell.arm)


def switch_of(name: str, scenario: Scenario, candidate: str, change: str) -> Switch | str:
    """What takes a mechanism away from both arms; why nothing does."""
    cells = scenario.arms[scenario.baseline], scenario.arms[candidate]
    if name == "saved prefill":
        return Switch("prefix caching off", dict(_each_engine(cells, _without_caching)))
    if name == "re-prefill":
        return Switch("KV memory without end (nothing is preempted or evicted)", dict(_each_engine(cells, roomy)))
    if name in ALIKE:
        return _dealt(cells, change)
    if name == "router and clients":
        routers = [each.resolved["router"] for each in cells]
        if any(each["overhead_s"] or each["decision"] for each in routers):
            return Switch("a router that takes no time", {"router.overhead_s": 0.0, "router.decision": None})
        return "the router takes no time; what engines wait for is in the workload, which both arms share"
    if name == "outages":
        kept = [each for each in cells[0].resolved["fleet"]["changes"] if each["what"] != "fail"]
        never = {"fleet.changes": kept, "fleet.failures": None, "fleet.noticed_after_s": None}
        return Switch("engines that never fail", never)
    return "it is the work itself, and no field takes that away"


def _each_engine(
    cells: Sequence[Cell], fields: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Iterator[tuple[str, Any]]:
    for cell in cells:
        for kind in cell.fleet:
            own: Any = cell.resolved
            for key in kind.place:
                own = own[key]
            here = ".".join(str(part) for part in kind.place)
            for name, value in fields(own).items():
                if own[name] != value:
                    yield f"{here}.{name}", value


def _without_caching(engine: Mapping[str, Any]) -> Mapping[str, Any]:
    """What needs the cache goes with it, as in the products."""
    if engine["preset"] == "vllm":
        return {"visibility": "never", "align_chunks": False}
    looks = engine["queue_order"] in ("lpm", "dfs-weight")
    order = {"queue_order": "fcfs"} if looks else {}
    return {"visibility": "never", "in_batch_check_tokens": None, "in_batch_defer_tokens": None} | order


def _dealt(cells: Sequence[Cell], change: str) -> Switch | str:
    """Keys one engine after the other in place of a hash, each kept where it is."""
    if change.startswith("router.policy") or change == "router":
        return "which engine takes a request is what the arms differ in"
    if not all(each.router.policy.places_by_hash for each in cells):
        return "keys are not placed by a hash, of which the luck could be taken away"
    if any(len(each.fleet) > 1 or not each.membership.is_fixed for each in cells):
        return "keys dealt in turn would be uneven on a fleet that is mixed or changes"
    if any(each.resolved["router"]["replicas"] > 1 for each in cells):
        return "several routers would each deal in a turn of their own"
    dealt = {"router.policy": {"kind": "gym.counter"}, "client.header": None, "client.blocking": "none"}
    return Switch("keys dealt to the engines in turn", dealt)
