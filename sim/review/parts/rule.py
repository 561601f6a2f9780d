"""Part 12: the rule to write down before the first real run."""

from collections.abc import Sequence

from sim.metrics import METRICS
from sim.report.rule import TAIL, Rule, Word, odds, rule_for
from sim.review._gather import Evidence
from sim.review._model import Part
from sim.stats.power import power


def rule_of(ev: Evidence, cells: Sequence[str] = (), pairs: int | None = None, *, extension: bool = True) -> Rule:
    """The rule of a campaign; by default of one cell, with as many pairs as are planned."""
    return rule_for(
        ev.primary.metric,
        cells or [ev.scenario.name],
        pairs or planned_pairs(ev),
        ev.lines,
        groups=any(each.metric == TAIL for each in ev.found.findings),
        extension=extension,
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
    need = next(each for each in ev.plan.needs if abs(each.effect - ev.plan.effect) < 1e-12)
    return need.blocked if is_blocked(ev) and need.blocked is not None else need.real


def is_blocked(ev: Evidence) -> bool:
    """Real pairs are planned by placement class."""
    blocks = any(ev.cell(arm).client.blocking != "none" for arm in (ev.baseline, ev.candidate))
    return blocks and ev.plan is not None and ev.plan.blocked is not None


def told(ev: Evidence) -> float:
    """Probability that the planned pairs show the smallest effect of interest: what was wanted, or what is sealed."""
    assert ev.plan is not None
    if ev.sealed is None:
        return ev.plan.wanted
    return power(planned_pairs(ev), ev.plan.effect, _spread(ev), level=level_of(ev))


def level_of(ev: Evidence) -> float:
    """Of the interval at the first look of the rule; that of the plan where no rule can be."""
    assert ev.plan is not None
    return ev.plan.level if METRICS[ev.primary.metric].better == "none" else planned_rule(ev).level(0)


def _spread(ev: Evidence) -> float:
    """Of a real pair, as pairs are planned."""
    assert ev.plan is not None
    return (ev.plan.blocked if is_blocked(ev) and ev.plan.blocked is not None else ev.plan.spread).real


def ends(ev: Evidence, ratio: float) -> list[dict[Word, float]]:
    """How often the rule says what at each look, at the planned pairs and spread; ``ratio`` more than 1 is better."""
    return odds(planned_rule(ev), ratio, _spread(ev))


def planned_rule(ev: Evidence) -> Rule:
    """The rule of one cell, extended unless the seal says that it is not."""
    return rule_of(ev, extension=ev.sealed is None or ev.sealed.extends)


def rule(ev: Evidence) -> Part:
    """12: the rule to write down before the first real run."""
    if METRICS[ev.primary.metric].better == "none":
        text = [f"{ev.primary.metric} has no better side: no rule can rest on it. Name another first metric."]
        return Part(12, "Decision rule", text)
    if ev.sealed is None:
        text = ["Not sealed: seal it, with the prediction, before run 1 (windtunnel seal)."]
        return Part(12, "Decision rule", text, fixed=rule_of(ev).text())
    when = f" on {ev.sealed.date}" if ev.sealed.date else ""
    return Part(12, "Decision rule", [f"Sealed{when}, with the prediction: {ev.sealed.digest}."], fixed=ev.sealed.rule)
