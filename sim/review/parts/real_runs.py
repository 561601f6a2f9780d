"""Part 11: how many real pairs, blocked or not, what they cost, and what the rule will say of them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from sim.report.numbers import counted
from sim.report.plan import Plan
from sim.report.rule import DRAWS, Odds, Rule, Word, adopted, odds, pairs_that_adopt, percent
from sim.review._gather import FAILURE_RATE, POWER, Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts.rule import (
    adopted_with,
    asks_for_blocks,
    course,
    design,
    has_rule,
    is_blocked,
    planned_pairs,
    planned_rule,
    predicted,
    told,
)
from sim.stats.power import RUN_NOISE, Cost, Design, ends_of_spread, unblocked

A_START: Final = (2, 5, 10, 20, 50)
"""Runs of one start that are looked at."""
WELL_KNOWN: Final = 50
"""Simulated pairs from which on their spread needs no interval beside it."""
COLUMNS: Final[tuple[Word, ...]] = ("RECOMMEND", "ADOPT", "SMALL", "REJECT", "INCONCLUSIVE")


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to do the real runs."""

    name: str
    rule: Rule
    design: Design
    cost: Cost
    """Of one start of a fleet."""
    runs: int = 1
    """Of each start."""

    @property
    def gpu_hours(self) -> float:
        """Of the first look."""
        return self.cost.gpu_hours(self.rule.pairs)


def real_runs(ev: Evidence) -> Part:
    """11: how many real pairs, blocked or not, and what they cost."""
    if ev.plan is None:
        return Part(11, "Required real runs", [f"No plan: {ev.no_plan}."])
    tables = list(_needs(ev.plan))
    if ev.plan.classes:
        blocked, by_class = ev.plan.need.blocked, ev.plan.design(is_blocked=True)
        planned = ["–"] * len(ev.plan.classes) if blocked is None else [str(n) for n in by_class.allocate(blocked)]
        rows = [
            (name, f"{part:.1%}", str(stored), f"{spread:.4f}", own)
            for (name, part, stored), spread, own in zip(ev.plan.classes, ev.plan.spreads, planned, strict=True)
        ]
        head = ("keys per engine", "exact share", "simulated pairs", "SD within, with noise", "real pairs, blocked")
        tables.append(Table("11.3", "Blocks", head, rows))
    if has_rule(ev):
        tables += [_courses(ev), _choices(ev)]
    return Part(11, "Required real runs", list(_text(ev, ev.plan)), tables)


def _text(ev: Evidence, found: Plan) -> Iterator[str]:
    pairs, spread = planned_pairs(ev), found.spread
    if has_rule(ev):
        is_sealed = "Sealed" if ev.sealed is not None else "Planned"
        yield (
            f"{is_sealed} are {pairs} pairs a cell, {found.cost.gpu_hours(pairs):,.1f} GPU-hours: look 1 tells a true "
            f"gain of {percent(ev.lines.interest)} from none with a probability of {told(ev):.0%}. {_coin(ev)}"
        )
    yield (
        "A pair is one run of either arm on the same trace; the next pair has the next trace, with all that the "
        "scenario draws drawn anew. Both runs are on the same nodes, with fresh engines, in the order ABBA; their "
        "requests are no replicates."
    )
    simulated, real = f"{spread.simulated:.4f}", f"{spread.real:.4f}"
    lo, hi = ends_of_spread(spread.simulated, found.pairs)
    known = f", known to within {lo:.4f} and {hi:.4f} (95 %)" if found.pairs < WELL_KNOWN else ""
    yield (
        f"SD of a pair's log ratio: {simulated} simulated ({counted(found.pairs, 'pair')}{known}), {real} with the "
        f"noise of real runs: each is taken to differ from its repeats by an SD of {spread.run_noise:.1%} "
        f"({_source(spread.run_noise)}). If what was published as noise holds some of the simulated spread, it counts "
        "twice and fewer pairs do."
    )
    yield f"{_run(found.cost)}. {FAILURE_RATE:.0%} of the runs are repeated."
    if (saved := _blocks(ev)) is not None:
        yield saved


def _source(noise: float) -> str:
    return "the step time of NeMo-RL's pull request 3663" if noise == RUN_NOISE else "real_run_noise of the scenario"


def _coin(ev: Evidence) -> str:
    """What the planned pairs adopt, and what none can."""
    worth = 1 + ev.lines.interest
    least = adopted_with(ev, POWER)
    reached = "" if least is None else f"; a gain of {_gain(least)} is adopted with {POWER:.0%}"
    return (
        f"Whether it is adopted is up to the mean: at a true {worth:g} that is a coin toss, whatever the number of "
        f"pairs{reached}."
    )


def _run(cost: Cost) -> str:
    """What a run's minutes are made of."""
    return (
        f"A run takes {cost.minutes:g} min on {counted(cost.gpus, 'GPU')}: {60 * cost.overhead_h:g} min to boot, warm "
        f"up and drain (assumed) and {_time(cost.run_h)} of work (simulated, the slower arm)"
    )


def _time(hours: float) -> str:
    return f"{3600 * hours:.1f} s" if hours < 1 / 36 else f"{60 * hours:.1f} min"


def _blocks(ev: Evidence) -> str | None:
    """What planning by placement saves, and how it is had and analysed; None where it is had or saves nothing."""
    found = ev.plan
    if found is None or ev.sealed is not None or asks_for_blocks(ev):
        return None
    need, by_class = found.need, found.design(is_blocked=True)
    if need.blocked is None or need.gpu_hours_blocked is None or need.blocked >= need.real:
        return None
    held = ", ".join(
        f"{count} of {name}" for count, (name, *_) in zip(by_class.allocate(need.blocked), found.classes, strict=True)
    )
    return (
        f"Recommended instead: block on placement (seal with --set client.blocking=placement): "
        f"{need.blocked} pairs ({held}), {need.gpu_hours_blocked:,.1f} GPU-hours, with the same chances. Classes keep "
        "their exact weights, the interval has Satterthwaite's degrees of freedom."
    )


def _needs(found: Plan) -> Iterator[Table]:
    level = f"two-sided {1 - found.level:.0%}"
    needs = [
        (
            f"{each.effect:+.1%}",
            str(each.real),
            "–" if each.blocked is None else str(each.blocked),
            str(each.noisiest),
            f"{each.gpu_hours:,.1f}",
            "–" if each.gpu_hours_blocked is None else f"{each.gpu_hours_blocked:,.1f}",
        )
        for each in found.needs
    ]
    head = ("effect", "pairs", "blocked", "pairs, noise 15 %", "GPU-hours", "blocked ")
    note = "told from none; adoption asks for a mean above the smallest effect of interest besides: 11.4"
    yield Table("11.1", f"Pairs for a power of {found.wanted:.0%}, {level}", head, needs, note)
    chances = [
        (
            str(each.pairs),
            f"{each.real:.0%}",
            "–" if each.blocked is None else f"{each.blocked:.0%}",
            f"{each.gpu_hours:,.1f}",
        )
        for each in found.chances
    ]
    columns = ("pairs", "unblocked", "blocked", "GPU-hours")
    yield Table("11.2", f"Probability to tell {found.effect:+.1%} from none, {level}", columns, chances)


def effects(ev: Evidence) -> list[tuple[str, float]]:
    """True ratios for which the rule's course is shown, more than 1 is better."""
    named = [(f"loss of {percent(ev.lines.harm)}", 1 - ev.lines.harm), ("none", 1.0)]
    named.append((f"smallest of interest, {percent(ev.lines.interest)}", 1 + ev.lines.interest))
    if (least := adopted_with(ev, POWER)) is not None:
        named.append((f"adopted with {POWER:.0%} at look 1", least))
    if (ratio := predicted(ev)) is not None:
        named.append(("as predicted", ratio))
    return sorted(named, key=lambda each: each[1])


def _courses(ev: Evidence) -> Table:
    """What the rule says, and what it costs, by the true effect."""
    assert ev.plan is not None
    cost, rule = ev.plan.cost, planned_rule(ev)
    rows: list[Row] = []
    for name, ratio in effects(ev):
        found = course(ev, ratio)
        says = (f"{found.ends(word):.1%}" for word in COLUMNS)
        spent = (f"{found.extended:.1%}", f"{2 * found.pairs:.0f}", f"{cost.gpu_hours(found.pairs):,.1f}")
        at_first = _chance(adopted(rule, ratio, design(ev)))
        rows.append((name, f"{ratio:.3f}", at_first, *says, *spent))
    head = (
        "true effect",
        "ratio",
        "look 1 adopts",
        "default",
        "option",
        "small gain",
        "reject",
        "open",
        "extended",
        "runs",
        "GPU-hours",
    )
    looks = ", ".join(
        f"look {look} is {pairs} pairs and {cost.gpu_hours(pairs):,.1f} GPU-hours in all"
        for look, pairs in enumerate(map(rule.pairs_at, range(len(rule.looks))), 1)
    )
    note = (
        f"Of {DRAWS:,} campaigns drawn and judged by the rule of part 12, each pair's log ratio normal with the SD of "
        f"the plan; runs and GPU-hours are means; {looks}. Ratios with more than 1 for better. Taken to hold: the tail "
        "metric, the guardrails, the SD."
    )
    return Table("11.4", "What the rule will say, by the true effect", head, rows, note)


def choices(ev: Evidence) -> list[Choice]:
    """The plan, and others: by placement class, sized for the prediction alone, several runs a start."""
    plan, rule = ev.plan, planned_rule(ev)
    assert plan is not None
    now = "planned by placement" if is_blocked(ev) else "as keys fall"
    found = [Choice(f"{'sealed' if ev.sealed else 'planned'}, {now}", rule, design(ev), plan.cost)]
    if ev.sealed is not None:
        return found
    if not is_blocked(ev) and plan.need.blocked is not None and plan.need.blocked < rule.pairs:
        blocked = replace(rule, pairs=plan.need.blocked, blocked=True)
        found.append(Choice("blocked on placement", blocked, plan.design(is_blocked=True), plan.cost))
    ratio = predicted(ev)
    fewer = None if ratio is None else pairs_that_adopt(rule, ratio, design(ev), POWER)
    if fewer is not None and fewer < rule.pairs:
        found.append(Choice("sized for the prediction", replace(rule, pairs=fewer), design(ev), plan.cost))
    if plan.cost.overhead_h > plan.cost.run_h and not is_blocked(ev):
        found.append(min((_a_start(ev, plan, rule, runs) for runs in A_START), key=lambda each: each.gpu_hours))
    return found


def _a_start(ev: Evidence, plan: Plan, rule: Rule, runs: int) -> Choice:
    """Several runs of one start, the mean of their log ratios a pair; the noise of real runs is all between starts."""
    spread = unblocked(math.hypot(plan.spread.simulated / runs**0.5, 2**0.5 * plan.spread.run_noise))
    pairs = spread.needed(ev.lines.interest, wanted=plan.wanted, level=rule.level(0))
    cost = replace(plan.cost, run_h=runs * plan.cost.run_h)
    return Choice(f"{runs} runs a start, caches flushed between", replace(rule, pairs=pairs), spread, cost, runs)


def _choices(ev: Evidence) -> Table:
    ratio = predicted(ev)
    rows: list[Row] = []
    for each in choices(ev):
        none, extended = odds(each.rule, 1.0, each.design), each.rule.pairs_at(len(each.rule.looks) - 1)
        starts = f"{2 * each.rule.pairs}" + (f" x {each.runs}" if each.runs > 1 else "")
        as_said = "–" if ratio is None else f"{adopted(each.rule, ratio, each.design):.1%}"
        hours = (f"{each.gpu_hours:,.1f}", f"{each.cost.gpu_hours(extended):,.1f}")
        rows.append((each.name, str(each.rule.pairs), starts, *hours, as_said, f"{none.ends('INCONCLUSIVE'):.1%}"))
    head = ("plan", "pairs", "runs", "GPU-hours", "extended", "adopts the prediction at look 1", "open if no effect")
    note = (
        "A plan sized for the prediction is cheap if that holds, and can hardly say no; the others tell the smallest "
        "gain of interest from none with the same probability. Several runs a start are analysed by starts (a pair is "
        "the mean of their log ratios), all noise of real runs taken to lie between starts, the worst case; they ask "
        "for a flush that leaves nothing behind, and windtunnel seals and scores one run a start."
    )
    return Table("11.5", "Other plans", head, rows, note)


def _gain(ratio: float) -> str:
    return f"{ratio - 1:.1%}"


def _chance(p: float) -> str:
    """A probability for reading, of drawn campaigns."""
    return "over 99.9%" if p > 0.9995 else "under 0.1%" if p < 0.0005 else f"{p:.1%}" if p < 0.01 else f"{p:.0%}"


def plan_said(ev: Evidence) -> str:
    """The plan in a few words, for a headline: pairs and GPU-hours, of the recommended one first; empty without."""
    if ev.plan is None:
        return ""
    pairs, need = planned_pairs(ev), ev.plan.need
    hours = ev.plan.cost.gpu_hours(pairs)
    if _blocks(ev) is None:
        return f"{counted(pairs, 'pair')}, {hours:,.1f} GPU-hours"
    return (
        f"{need.blocked} pairs blocked on placement, {need.gpu_hours_blocked:,.1f} GPU-hours ({pairs} and {hours:,.1f} "
        "as keys fall)"
    )


def cost_said(ev: Evidence) -> str:
    """Runs and their cost for page one: what is planned, what it is likely to say, and what is cheaper."""
    if ev.plan is None:
        return f"No plan: {ev.no_plan}."
    cost, pairs = ev.plan.cost, planned_pairs(ev)
    how = (" a cell, as sealed" if ev.sealed else "") + (" planned by placement" if is_blocked(ev) else "")
    product = (
        f"{pairs} pairs{how} = {2 * pairs} runs x {counted(cost.gpus, 'GPU')} x "
        f"{cost.minutes:g} min ({60 * cost.overhead_h:g} min start-up, {_time(cost.run_h)} of work) + "
        f"{cost.failure_rate:.0%} for failed runs = {cost.gpu_hours(pairs):,.1f} GPU-hours."
    )
    if not has_rule(ev):
        return product
    said = [product, _adopts(ev), _if_none(ev, course(ev, 1.0), cost)]
    if (saved := _blocks(ev)) is not None:
        said.append(saved.partition(" Classes keep")[0])
    return " ".join(said)


def _adopts(ev: Evidence) -> str:
    """What look 1 adopts how often, the largest gain first."""
    rule, drawn = planned_rule(ev), design(ev)
    named = {ratio: name for name, ratio in effects(ev) if ratio >= 1}
    said = []
    for ratio in sorted(named, reverse=True):
        also = " (as predicted)" if named[ratio] == "as predicted" else ""
        gain = "none" if ratio == 1 else f"{_gain(ratio)}{also}"
        coin = " (a coin toss at any number of pairs)" if ratio == 1 + ev.lines.interest else ""
        said.append(f"{gain} with {_chance(adopted(rule, ratio, drawn))}{coin}")
    return f"Look 1 adopts a true gain of {', '.join(said)}."


def _if_none(ev: Evidence, found: Odds, cost: Cost) -> str:
    """What equal arms cost."""
    rule, left = planned_rule(ev), found.ends("INCONCLUSIVE")
    if len(rule.looks) == 1:
        return f"If the arms are equal {left:.0%} end open: no extension is allowed."
    pairs = rule.pairs_at(1)
    return (
        f"Of campaigns of equal arms {found.extended:.0%} are extended ({pairs} pairs, {cost.gpu_hours(pairs):,.1f} "
        f"GPU-hours in all) and {left:.0%} stay open."
    )
