"""``windtunnel run``: run with progress on stderr, show the result."""

from pathlib import Path

import click

from sim import interrupts
from sim.cli import _complete, _options


@click.command(short_help="Run the arms of a scenario and compare them.")
@_options.scenario
@click.option("--pairs", type=click.IntRange(1, 1_000_000), help="Replications of each arm; it replaces a stop rule.")
@_options.seed
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete.arm,
    help="Run this arm beside the baseline. Repeatable.",
)
@_options.overrides
@_options.jobs
@_options.results
@_options.fresh
@_options.tables_or_json
def run(
    scenario: str,
    pairs: int | None,
    seed: int | None,
    arms: tuple[str, ...],
    overrides: tuple[str, ...],
    jobs: int | None,
    out: Path,
    fresh: bool,
    as_json: bool,
) -> int:
    """Run every arm of SCENARIO on the same workloads and compare them with the baseline.

    SCENARIO is a file, or the name of a shipped scenario. Finished replications are stored at once: after any end the
    same command goes on where it stopped.
    """
    with interrupts.deferred():
        from rich.console import Console

        from sim import report
        from sim.cli._progress import progress_line
        from sim.report.settling import SAYS, regime
        from sim.scenario import load_scenario
        from sim.sweep import run as run_arms

    made = load_scenario(scenario, overrides).select(pairs=pairs, seed=seed, arms=arms)
    notes = Console(stderr=True)
    with progress_line(notes) as progress:
        task = progress.add_task(made.name, total=made.pairs * len(made.arms))
        result = run_arms(
            made,
            jobs=jobs,
            out=out,
            fresh=fresh,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    if as_json:
        click.echo(report.to_json(result), nl=False)
    else:
        report.print_result(result, Console())
    kind = regime(made.arms[made.baseline].resolved["workload"])
    notes.print(SAYS[kind], style="dim", highlight=False, soft_wrap=True)
    is_variant = bool(overrides or arms) or pairs is not None or seed is not None
    for path in report.save_charts(result, out / made.name, is_variant=is_variant):
        notes.print(f"wrote {path}", highlight=False, soft_wrap=True)
    return int(result.failures > 0)
