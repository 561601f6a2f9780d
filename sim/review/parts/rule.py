"""Part 12: the rule to write down before the first real run, and how often it says what."""

from collections.abc import Sequence

from sim.metrics import METRICS
from sim.report.rule import TAIL, Odds, Rule, least_adopted, odds, rule_for
from sim.review._gather import Evidence
from sim.review._model import Part
from sim.stats.power import Design


def rule_of(ev: Evidence, cells: Sequence[str] = (), pairs: int | None = None, *, extension: bool = True) -> Rule:
    """The rule of a campaign; by default of one cell, with as many pairs as are planned."""
    return rule_for(
        ev.primary.metric,
        cells or [ev.scenario.name],
        pairs or planned_pairs(ev),
        ev.lines,
        groups=any(each.metric == TAIL for each in ev.found.findings),
        extension=extension,
        blocked=is_blocked(ev),
    )


def planned_pairs(ev: Evidence) -> int:
    """Pairs of the real campaign: as many as are sealed.

    Before that those that show the smallest effect of interest, blocked where the scenario blocks; without a plan as
    many as are simulated.
    """
    if ev.sealed is not None:
        return ev.sealed.pairs
    if ev.plan is None:
        return ev.pairs
    need = ev.plan.need
    return need.blocked if is_blocked(ev) and need.blocked is not None else need.real


def asks_for_blocks(ev: Evidence) -> bool:
    """The scenario plans its pairs by placement class."""
    return any(ev.cell(arm).client.blocking != "none" for arm in (ev.baseline, ev.candidate))


def is_blocked(ev: Evidence) -> bool:
    """Real pairs are planned by placement class."""
    return asks_for_blocks(ev) and ev.plan is not None and ev.plan.blocked is not None


def has_rule(ev: Evidence) -> bool:
    """The metric that decides has a better side."""
    return METRICS[ev.primary.metric].better != "none"


def design(ev: Evidence) -> Design:
    """How real pairs vary, as they are planned."""
    assert ev.plan is not None
    return ev.plan.design(is_blocked=is_blocked(ev))


def told(ev: Evidence) -> float:
    """Probability that look 1 of the planned pairs tells the smallest gain of interest from none."""
    rule = planned_rule(ev)
    return design(ev).power(rule.pairs, ev.lines.interest, level=rule.level(0))


def course(ev: Evidence, ratio: float) -> Odds:
    """How often the rule says what, at the planned pairs and spread; ``ratio`` more than 1 is better."""
    return odds(planned_rule(ev), ratio, design(ev))


def adopted_with(ev: Evidence, wanted: float) -> float | None:
    """The smallest true ratio that look 1 adopts with the wanted probability."""
    return least_adopted(planned_rule(ev), design(ev), wanted)


def predicted(ev: Evidence) -> float | None:
    """The simulated ratio as the rule has it, more than 1 is better."""
    ratio = ev.primary.paired.ratio
    return ratio if ratio is None or not ev.is_lower_better else 1 / ratio


def planned_rule(ev: Evidence) -> Rule:
    """The rule of one cell, extended unless the seal says that it is not."""
    return rule_of(ev, extension=ev.sealed is None or ev.sealed.extends)


def rule_said(ev: Evidence) -> str:
    """The rule for page one: its own lines, and whether it is sealed."""
    if not has_rule(ev):
        return f"None: {ev.primary.metric} has no better side. Name another first metric."
    sealed = "Seal it before run 1: windtunnel seal." if ev.sealed is None else f"Sealed as {ev.sealed.digest[:16]}."
    return f"{planned_rule(ev).short()} {sealed} Whole: part 12."


def rule(ev: Evidence) -> Part:
    """12: the rule to write down before the first real run."""
    if not has_rule(ev):
        text = [f"{ev.primary.metric} has no better side: no rule can rest on it. Name another first metric."]
        return Part(12, "Decision rule", text)
    if ev.sealed is None:
        text = ["Not sealed: seal it, with the prediction, before run 1 (windtunnel seal)."]
        return Part(12, "Decision rule", text, fixed=rule_of(ev).text())
    when = f" on {ev.sealed.date}" if ev.sealed.date else ""
    return Part(12, "Decision rule", [f"Sealed{when}, with the prediction: {ev.sealed.digest}."], fixed=ev.sealed.rule)
