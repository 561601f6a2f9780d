"""``windtunnel run``: run with progress on stderr, show the result."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from sim import report
from sim.cli._progress import progress_line
from sim.report.settling import SAYS, regime
from sim.scenario import load_scenario
from sim.sweep import run


def run_scenario(
    name: str,
    overrides: Sequence[str],
    *,
    pairs: int | None,
    seed: int | None,
    arms: Sequence[str],
    jobs: int | None,
    out: Path,
    fresh: bool,
    as_json: bool,
) -> int:
    """Run a scenario and print its result: tables, or one document alone on stdout. 1: some replications failed."""
    scenario = load_scenario(name, overrides).select(pairs=pairs, seed=seed, arms=arms)
    notes = Console(stderr=True)
    with progress_line(notes) as progress:
        task = progress.add_task(scenario.name, total=scenario.pairs * len(scenario.arms))
        result = run(
            scenario,
            jobs=jobs,
            out=out,
            fresh=fresh,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if as_json:
        click.echo(report.to_json(result), nl=False)
    else:
        report.print_result(result, Console())
    kind = regime(scenario.arms[scenario.baseline].resolved["workload"])
    notes.print(SAYS[kind], style="dim", highlight=False, soft_wrap=True)
    is_variant = bool(overrides or arms) or pairs is not None or seed is not None
    for path in report.save_charts(result, out / scenario.name, is_variant=is_variant):
        notes.print(f"wrote {path}", highlight=False, soft_wrap=True)
    return int(result.failures > 0)
