"""The plan of a real campaign as tables."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.report.plan import Plan
from sim.report.sides import Side


def print_plan(found: Plan, baseline: Side, candidate: Side, console: Console) -> None:
    """Print the spread of a pair, the pairs that each effect takes and their GPU-hours."""
    spread, blocked, cost = found.spread, found.blocked, found.cost
    console.print(
        Text(f"{found.metric}: {candidate.name} over {baseline.name}, {found.pairs} stored pairs", style="bold")
    )
    console.print(f"simulated ratio {found.ratio:.3f}", highlight=False)
    console.print(
        f"SD of the log ratio of a pair: simulated {spread.simulated:.4f}, "
        f"with {spread.run_noise:.1%} noise in each real run {spread.real:.4f}",
        highlight=False,
    )
    if blocked is None:
        console.print("no placement classes: blocking is no choice here", highlight=False)
    else:
        shares = ", ".join(f"{name} {share:.1%}" for name, share, _ in found.classes)
        console.print(
            f"within placement classes ({shares}): simulated {blocked.simulated:.4f}, with noise {blocked.real:.4f}",
            highlight=False,
        )
    console.print(
        f"GPU-hours: {cost.gpus} GPUs an arm, {60 * cost.run_h:.1f} min a run, {60 * cost.overhead_h:g} min around it, "
        f"{cost.failure_rate:.0%} of the runs repeated",
        highlight=False,
    )
    console.print()
    console.print(_needs(found))
    console.print()
    console.print(_chances(found))
    if spread.simulated == 0:
        console.print(Text("warning: the stored pairs do not vary: the plan rests on the noise alone", style="yellow"))
    if found.pairs < 50:
        console.print(
            Text(f"warning: a spread from {found.pairs} pairs is rough; store 100 or more", style="yellow"),
            soft_wrap=True,
        )


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _needs(found: Plan) -> Table:
    table = _table(
        f"pairs for a power of {found.wanted:.0%}, two-sided {1 - found.level:.0%}",
        "effect",
        "pairs",
        "blocked",
        "noise 15 %",
        "GPU-hours",
        "blocked",
        "(no noise)",
    )
    for each in found.needs:
        blocked = "–" if each.blocked is None else str(each.blocked)
        hours = "–" if each.gpu_hours_blocked is None else f"{each.gpu_hours_blocked:,.1f}"
        row = [f"{each.effect:+.0%}" if round(100 * each.effect, 6) % 1 == 0 else f"{each.effect:+.1%}", str(each.real)]
        row += [blocked, str(each.noisiest), f"{each.gpu_hours:,.1f}", hours, f"({each.simulated_alone})"]
        table.add_row(*row)
    return table


def _chances(found: Plan) -> Table:
    table = _table(f"probability to show {found.effect:+.1%}", "real pairs", "unblocked", "blocked", "GPU-hours")
    for each in found.chances:
        blocked = "–" if each.blocked is None else f"{each.blocked:.0%}"
        table.add_row(str(each.pairs), f"{each.real:.0%}", blocked, f"{each.gpu_hours:,.1f}")
    return table
