"""Runs what is not stored yet, and collects everything that a review says."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from sim.errors import ScenarioError
from sim.log import store
from sim.log.frames import Tables
from sim.metrics import METRICS
from sim.report.contrast import Contrast, Finding, Lines, contrast, shared_metrics
from sim.report.ledger import Entry, entries, ledger
from sim.report.ledger import differences as differences_of
from sim.report.plan import Plan, plan
from sim.report.region import Coverage, coverage
from sim.report.result import Arm, Result
from sim.report.rule import LOOKS, check_lines
from sim.report.sides import first, read_side
from sim.review._ablations import Ablation, Ablations, Change, Found, ablate, moved_most, of_arm
from sim.review._arithmetic import Arithmetic, arithmetic
from sim.review._assumptions import regions
from sim.review._checks import verify
from sim.review._knobs import Knob
from sim.review._model import Check, Sealed
from sim.review.sensitivity import BUDGET, Centre, Sensitivity, registered, study
from sim.rng import Streams
from sim.scenario import Cell, Keys, Scenario, differences, spread_of_keys
from sim.sweep import run
from sim.validation import Record, Traits, read_record, traits_of
from sim.workload._describe import Description, describe

OVERHEAD_H = 1 / 6
"""Boot, warm-up and drain of a real run, as ``windtunnel power`` has it."""
FAILURE_RATE = 0.1
POWER = 0.8
ALWAYS = (
    "group_completion_p95_s",
    "load_tokens_max_over_mean",
    "load_busy_max_over_mean",
    "prefix_hit_rate",
    "prefill_tokens",
    "recomputed_tokens",
    "preemptions",
)
WHERE_ANY = ("reprefilled_tokens", "failed", "rejected", "unfinished")
"""Metrics that every review shows where one of its arms has any of them."""
OF_ALL = ("goodput_per_s", "time_to_90pct_s", "failed", "rejected", "unfinished")
"""Metrics that count what was asked for; all others are of what was served, and an arm gains in them that refuses."""
MOST_UNSERVED = 0.005
"""Difference of the finished shares of two arms beyond which no metric of what was served recommends anything."""
"""Metrics that every review shows, where both arms have them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What two arms of a scenario were found to do."""

    scenario: Scenario
    baseline: str
    candidate: str
    change: Change
    """The one field that differs, from the baseline to the candidate."""
    result: Result
    found: Contrast
    lines: Lines
    tables: dict[str, Tables]
    """Of the two arms."""
    ledger: list[Entry]
    moved: pl.DataFrame
    """By pair, what the candidate's ledger has over the baseline's, in nanoseconds."""
    ablations: Ablations
    """By an arm that says so, then those of the review itself, of what moved most; and what could not be switched off.
    """
    arithmetic: dict[str, Arithmetic]
    """What arithmetic alone says of the two arms."""
    assumptions: list[Knob]
    """The register: what both arms take for given."""
    sensitivity: Sensitivity | None
    no_sensitivity: str
    """Why nothing was varied."""
    coverage: dict[str, Coverage]
    checks: list[Check]
    plan: Plan | None
    no_plan: str
    """Why there is no plan."""
    workloads: dict[str, tuple[Description, list[Keys]]]
    """By arms that share one."""
    checksums: dict[str, str]
    """Of the stored values of each arm."""
    record: Record
    """What was run against published values and analytic truths."""
    traits: Traits
    """Of the two arms: which cases of the record resemble them."""
    sealed: Sealed | None = None
    """The seal of its campaign, once there is one."""

    @property
    def primary(self) -> Finding:
        """The metric that decides: the scenario's first."""
        return self.found.findings[0]

    @property
    def ablation(self) -> Ablation | None:
        """The first one."""
        return self.ablations.made[0] if self.ablations.made else None

    @property
    def is_lower_better(self) -> bool:
        """Which way round ratios of the primary metric are read."""
        return METRICS[self.primary.metric].better == "lower"

    @property
    def pairs(self) -> int:
        """Pairs that both arms have."""
        return self.found.pairs

    def cell(self, arm: str) -> Cell:
        """The cell of an arm."""
        return self.scenario.arms[arm]


def choose(
    scenario: Scenario, baseline: str | None, candidate: str | None, ablation: str | None = None
) -> tuple[Scenario, str, str]:
    """The scenario with the two arms and the one that takes the mechanism away, and the names of the two."""
    for name in (baseline, candidate, ablation):
        if name is not None and name not in scenario.arms:
            scenario.select(arms=[name])  # says what is known
    base = baseline or scenario.baseline
    aside = {base, ablation, *scenario.null_controls, *scenario.ablations}
    others = [name for name in scenario.arms if name not in aside]
    if candidate is None:
        if len(others) != 1:
            said = ", ".join(others) or "none"
            raise ScenarioError(f"a review compares two arms: name --candidate; besides {base} there are: {said}")
        candidate = others[0]
    if candidate == base:
        raise ScenarioError(f"baseline and candidate are both {base}: a review compares two arms")
    if ablation in (base, candidate):
        raise ScenarioError(f"the ablation is arm {ablation} itself: name one that takes the mechanism away from it")
    chosen = replace(scenario, baseline=base)
    taking = [ablation] if ablation else ablating(scenario, candidate)
    return chosen.select(arms=[candidate, *(name for name in taking if name != base)]), base, candidate


def ablating(scenario: Scenario, candidate: str) -> list[str]:
    """Arms that say they take a mechanism away from the candidate, in the order of the file."""
    return [name for name, each in scenario.ablations.items() if each.arm == candidate]


def the_change(scenario: Scenario, candidate: str) -> Change:
    """The one field in which an arm differs from the baseline; ScenarioError where it is not one."""
    found = differences(scenario)[candidate]
    if not found:
        raise ScenarioError(f"arms {scenario.baseline} and {candidate} do not differ: there is nothing to review")
    if len(found) > 1:
        raise ScenarioError(
            f"arms {scenario.baseline} and {candidate} differ in {len(found)} fields ({', '.join(found)}): "
            "a review explains one change, so that its effect has one cause"
        )
    [(path, (one, other))] = found.items()
    return path, one, other


def gather(
    scenario: Scenario,
    candidate: str,
    lines: Lines,
    *,
    out: Path,
    ablation: str | None = None,
    jobs: int | None = 1,
    fresh: bool = False,
    progress: Callable[[int, int], None] | None = None,
    sensitivity_pairs: int | None = 0,
    sensitivity_requests: int = BUDGET,
    ablation_pairs: int | None = 0,
    told: Callable[[str], None] | None = None,
) -> Evidence:
    """Run the arms, or take what is stored, and look at it from all sides.

    ``sensitivity_pairs``: of every setting at which an assumption is varied; None: as many as ``sensitivity_requests``
    allow. ``ablation_pairs``: of every mechanism that is switched off in both arms, where no arm of the scenario takes
    it away; None: as many as a budget allows. ``told`` hears beforehand how many runs that takes.
    """
    check_lines(lines)
    base = scenario.baseline
    change = the_change(scenario, candidate)
    taking = [ablation] if ablation else [name for name in ablating(scenario, candidate) if name != base]
    taken = the_change(replace(scenario, baseline=candidate), taking[0]) if taking else None
    result = run(scenario, jobs=jobs, out=out, fresh=fresh, progress=progress)
    arms = {name: result.arms[name] for name in (base, candidate)}
    pairs = min(arm.values.height for arm in arms.values())
    sides = [first(read_side(arm.folder), pairs) for arm in arms.values()]
    sides = [replace(side, name=name) for side, name in zip(sides, arms, strict=True)]
    shared = shared_metrics(sides[0], sides[1])
    wanted = [
        name for name in dict.fromkeys((*scenario.metrics, *ALWAYS, *_where_any(arms.values()))) if name in shared
    ]
    if scenario.metrics[0] not in wanted:
        raise ScenarioError(f"{scenario.metrics[0]}, the first metric, has no value in both arms: nothing decides")
    found = contrast(sides[0], sides[1], wanted, lines)
    tables = {name: arm.tables() for name, arm in arms.items()}
    ledgers = [ledger(each) for each in tables.values()]
    planned, no_plan = _plan(scenario, sides, lines)
    centre = Centre(
        replace(scenario, arms={name: scenario.arms[name] for name in arms}),
        candidate,
        change[0],
        found.findings[0].paired,
        (arms[base], arms[candidate]),
        lines.interest,
        pairs,
        max(int(each.requests.group_by("pair").len()["len"].to_numpy().max(initial=0)) for each in tables.values()),
    )
    varied, not_varied = study(
        centre,
        sensitivity_pairs,
        requests=sensitivity_requests,
        out=out,
        jobs=jobs,
        fresh=fresh,
        told=told,
        progress=progress,
    )
    world = Found(centre, (tables[base], tables[candidate]), entries(*ledgers), differences_of(*ledgers))
    by_arm = None
    if taken is not None:
        said = scenario.ablations.get(taking[0])
        by_arm = of_arm(world, result, taking, said.mechanism if said else moved_most(world, least=0)[0], taken)
    ablations = ablate(world, ablation_pairs, by_arm, out=out, jobs=jobs, fresh=fresh, told=told, progress=progress)
    return Evidence(
        scenario=scenario,
        baseline=base,
        candidate=candidate,
        change=change,
        result=result,
        found=found,
        lines=lines,
        tables=tables,
        ledger=list(world.entries),
        moved=world.moved,
        ablations=ablations,
        arithmetic={name: arithmetic(scenario.arms[name]) for name in arms},
        assumptions=registered(centre),
        sensitivity=varied,
        no_sensitivity=not_varied,
        coverage={name: coverage(each.engines, regions(scenario.arms[name])) for name, each in tables.items()},
        checks=verify(scenario, (base, candidate), tables),
        plan=planned,
        no_plan=no_plan,
        workloads=dict(_workloads([scenario.arms[name] for name in arms])),
        checksums={
            name: hashlib.sha256((arm.folder / f"{store.VALUES}.parquet").read_bytes()).hexdigest()
            for name, arm in arms.items()
        },
        record=read_record(),
        traits=traits_of(scenario.arms[name] for name in arms),
    )


def _where_any(arms: Iterable[Arm]) -> list[str]:
    """Of the metrics that are mostly 0, those that are not."""
    return [name for name in WHERE_ANY if any(name in arm.values and arm.values[name].sum() for arm in arms)]


@dataclass(frozen=True, slots=True)
class Served:
    """How many turns an arm was asked for, and how many of these it finished, at whatever attempt."""

    asked: int
    finished: int

    @property
    def share(self) -> float:
        """Finished of asked."""
        return self.finished / self.asked if self.asked else 1.0


def served(tables: Tables) -> Served:
    """What a trainer aborts counts as finished: it is meant to end."""
    done = pl.col("status").cast(pl.String).is_in(["finished", "aborted"])
    turns = tables.requests.group_by("pair", "session", "turn").agg(done=done.any())
    return Served(turns.height, int(turns["done"].sum()))


def unequal_work(ev: Evidence) -> str:
    """How many requests each arm finished, in words; empty where none is lost, or as many in both."""
    one, other = (served(ev.tables[name]) for name in (ev.baseline, ev.candidate))
    if one.asked - one.finished == other.asked - other.finished:
        return ""
    return " and ".join(
        f"{each.finished:,} of {each.asked:,} requests finished in {name}"
        for name, each in ((ev.baseline, one), (ev.candidate, other))
    )


def _plan(scenario: Scenario, sides: Sequence[Any], lines: Lines) -> tuple[Plan | None, str]:
    metric = scenario.metrics[0]
    effect = lines.interest if METRICS[metric].better != "lower" else 1 / (1 + lines.interest) - 1
    try:
        return plan(
            sides[0],
            sides[1],
            metric,
            effect=effect,
            wanted=POWER,
            noise=scenario.real_run_noise,
            overhead_h=OVERHEAD_H,
            failure_rate=FAILURE_RATE,
            level=1 - LOOKS[0],
        ), ""
    except ScenarioError as error:
        return None, str(error)


def _workloads(cells: Sequence[Cell]) -> list[tuple[str, tuple[Description, list[Keys]]]]:
    alike = cells[0].resolved["workload"] == cells[1].resolved["workload"]
    found = []
    for cell in cells[:1] if alike else cells:
        workload = cell.workload.generate(Streams(cell.seed), cell.base)
        name = "both arms" if alike else f"arm {cell.arm}"
        found.append((name, (describe(workload), list(spread_of_keys(cell, workload)))))
    return found
