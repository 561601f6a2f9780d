"""Part 11: how many real pairs, blocked or not, and what they cost."""

from sim.review._gather import FAILURE_RATE, OVERHEAD_H, Evidence
from sim.review._model import Part, Table
from sim.review.parts.rule import planned_pairs, told


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
            f"Pairs for a power of {found.wanted:.0%}, two-sided 5 %",
            ("effect", "pairs", "blocked", "pairs, noise 15 %", "GPU-hours", "blocked "),
            needs,
        ),
        Table(
            "11.2", f"Probability to show {found.effect:+.1%}", ("pairs", "unblocked", "blocked", "GPU-hours"), chances
        ),
    ]
    if found.classes:
        rows = [(name, f"{part:.1%}", str(stored)) for name, part, stored in found.classes]
        tables.append(Table("11.3", "Blocks", ("keys per engine", "exact share", "simulated pairs"), rows))
    return Part(11, "Required real runs", text, tables)
