"""``windtunnel power``: how many real pairs a stored comparison calls for."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.cli._compare import chosen
from sim.errors import ScenarioError
from sim.report.plan import Plan, plan
from sim.report.sides import Side, read_side, results_below


def plan_runs(
    paths: Sequence[Path],
    metric: str | None,
    *,
    effect: float,
    wanted: float,
    noise: float | None,
    overhead_min: float,
    failures: float,
    as_json: bool,
) -> None:
    """Print the plan of a real campaign from one folder with the results of two arms, or from two results."""
    baseline, candidate = _sides(paths)
    [name, *_] = chosen(baseline, candidate, [metric] if metric else [])
    found = plan(
        baseline,
        candidate,
        name,
        effect=effect,
        wanted=wanted,
        noise=noise,
        overhead_h=overhead_min / 60,
        failure_rate=failures,
    )
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _show(found, baseline, candidate, Console())


def _sides(paths: Sequence[Path]) -> tuple[Side, Side]:
    if len(paths) == 1:
        paths = results_below(paths[0]) if paths[0].is_dir() else paths
    if len(paths) != 2:
        raise ScenarioError(
            f"a spread is that of two arms: name two results, or a folder that holds two, not {len(paths)}"
        )
    return read_side(paths[0]), read_side(paths[1])


def _show(found: Plan, baseline: Side, candidate: Side, console: Console) -> None:
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
        f"pairs for a power of {found.wanted:.0%}, two-sided 5 %",
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
