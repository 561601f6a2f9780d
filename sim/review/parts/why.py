"""Part 8: where the engine-seconds go, and where the difference comes from."""

from sim.report.ledger import LINES, SAYS
from sim.review._gather import Ablation, Evidence
from sim.review._model import Part, Table
from sim.review.parts._words import arms, short


def why(ev: Evidence) -> Part:
    """8: where the engine-seconds go, and where the difference comes from."""
    total = next(each for each in ev.ledger if each.line == "total")
    rows = [
        (
            "engines x makespan" if each.line == "total" else SAYS[each.line],
            f"{each.baseline_s:,.3f}",
            f"{each.candidate_s:,.3f}",
            f"{each.difference.mean or 0.0:+,.3f}",
            "–" if each.difference.lo is None else f"[{each.difference.lo:+,.3f}, {each.difference.hi:+,.3f}]",
            f"{(each.difference.mean or 0.0) / total.baseline_s:+.1%}",
        )
        for each in ev.ledger
    ]
    head = ("engine-seconds", *arms(ev), "difference", "95 %", "of the baseline")
    text = ["Lines sum to the last one exactly, in each arm and in the difference; means over pairs."]
    tables = [Table("8.1", "Mechanism ledger", head, rows)]
    if ev.ablation is None:
        text += [
            "A line says where time went, not why: no arm was named that takes the mechanism alone away (--ablation)."
        ]
    else:
        text += [ablated(ev, ev.ablation)]
        tables.append(_ablation(ev, ev.ablation))
    return Part(
        8,
        "Why",
        text,
        tables,
        figures=("timeline_baseline", "timeline_candidate"),
    )


def ablated(ev: Evidence, ablation: Ablation) -> str:
    """What the ablation leaves of the line that moved most."""
    path, one, other = ablation.change
    main = max(ev.ledger[:-1], key=lambda each: abs(each.difference.mean or 0.0))
    left = ablation.left(main)
    said = "nothing moved" if left is None else f"{1 - left:.0%} of the difference in {SAYS[main.line]}, is gone"
    return f"Arm {ablation.arm} is {ev.candidate} with {path} {short(one)} -> {short(other)}: {said}."


def _ablation(ev: Evidence, ablation: Ablation) -> Table:
    moved = {each.line: each for each in ev.ledger}
    rows = []
    for line in (*LINES, "total"):
        entry = moved.get(line)
        own_s, whole_s = ablation.moved_s(line), entry.difference.mean or 0.0 if entry else 0.0
        left = ablation.left(entry) if entry else None
        if own_s or whole_s:
            name = "engines x makespan" if line == "total" else SAYS[line]
            rows.append((name, f"{whole_s:+,.3f}", f"{own_s:+,.3f}", "–" if left is None else f"{1 - left:.0%}"))
    head = ("engine-seconds over the baseline", ev.candidate, ablation.arm, "gone")
    return Table("8.2", "The ablation arm", head, rows)
