"""Part 11: how many real pairs, blocked or not, and what they cost."""

from typing import Final

from sim.metrics import METRICS
from sim.report.rule import DRAWS, Word
from sim.review._gather import FAILURE_RATE, OVERHEAD_H, Evidence
from sim.review._model import Part, Table
from sim.review.parts.rule import ends, planned_pairs, planned_rule, told

ENDS: Final[tuple[Word, ...]] = ("RECOMMEND", "ADOPT", "REJECT", "INCONCLUSIVE")


def real_runs(ev: Evidence) -> Part:
    """11: how many real pairs, blocked or not, and what they cost."""
    if ev.plan is None:
        return Part(11, "Required real runs", [f"No plan: {ev.no_plan}."])
    found = ev.plan
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
    chances = [
        (
            str(each.pairs),
            f"{each.real:.0%}",
            "–" if each.blocked is None else f"{each.blocked:.0%}",
            f"{each.gpu_hours:,.1f}",
        )
        for each in found.chances
    ]
    spread = found.spread
    text = [
        "One pair is the same trace and seeds in both arms, on fresh engines, in the order ABBA.",
        f"SD of a pair's log ratio: {spread.simulated:.4f} simulated, {spread.real:.4f} with the noise of real runs.",
        f"The noise of one real run is taken to be {spread.run_noise:.1%}; requests of a run are no replicates.",
        f"A run takes {60 * found.cost.run_h:.1f} min and {60 * OVERHEAD_H:g} around it, on {found.cost.gpus} GPUs.",
        f"{FAILURE_RATE:.0%} of the runs are repeated.",
    ]
    if ev.sealed is not None:
        pairs = planned_pairs(ev)
        text.insert(
            0,
            f"Sealed are {pairs} pairs a cell, {found.cost.gpu_hours(pairs):,.1f} GPU-hours: they show an effect of "
            f"{found.effect:+.1%} with a probability of {told(ev):.0%}. What follows is how many would be needed.",
        )
    tables = [
        Table(
            "11.1",
            f"Pairs for a power of {found.wanted:.0%}, two-sided {1 - found.level:.0%}",
            ("effect", "pairs", "blocked", "pairs, noise 15 %", "GPU-hours", "blocked "),
            needs,
        ),
        Table(
            "11.2",
            f"Probability to show {found.effect:+.1%}, two-sided {1 - found.level:.0%}",
            ("pairs", "unblocked", "blocked", "GPU-hours"),
            chances,
        ),
    ]
    if found.classes:
        rows = [(name, f"{part:.1%}", str(stored)) for name, part, stored in found.classes]
        tables.append(Table("11.3", "Blocks", ("keys per engine", "exact share", "simulated pairs"), rows))
    if METRICS[ev.primary.metric].better != "none":
        tables.append(_ends(ev))
    return Part(11, "Required real runs", text, tables)


def _ends(ev: Evidence) -> Table:
    """What a campaign costs by the look at which it ends, and how likely each end is."""
    assert ev.plan is not None
    rule = planned_rule(ev)
    predicted = 1 / ev.plan.ratio if rule.lower_is_better else ev.plan.ratio
    found = [ends(ev, ratio) for ratio in (1.0, 1 + ev.lines.interest, predicted)]
    rows = []
    last = len(rule.looks) - 1
    for look in range(len(rule.looks)):
        pairs = rule.pairs_at(look)
        for word in ENDS:
            if word == "INCONCLUSIVE" and look < last:
                continue
            chances = (f"{each[look].get(word, 0):.1%}" for each in found)
            rows.append((str(look + 1), word, str(pairs), f"{ev.plan.cost.gpu_hours(pairs):,.1f}", *chances))
    head = (
        *("look", "ends with", "pairs", "GPU-hours in all", "no effect (1.00)"),
        f"smallest of interest ({1 + ev.lines.interest:.2f})",
        f"as predicted ({predicted:.3f})",
    )
    note = (
        f"Of {DRAWS:,} campaigns drawn and judged by the rule of part 12, each pair's log ratio normal with the SD of "
        f"the plan. Ratios with more than 1 for better. {'An answer open at look 1 is extended. ' if last else ''}"
        "Taken to hold: the tail metric, the guardrails."
    )
    return Table("11.4", "What it costs, by how it ends", head, rows, note)
