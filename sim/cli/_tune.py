"""``windtunnel tune``: good values of an arm's parameters, and what keeps them from being sure."""

from pathlib import Path

import click

from sim import interrupts
from sim.cli import _complete, _options


@click.command(short_help="Find good values of an arm's parameters.")
@_options.scenario
@click.option(
    "--param",
    "parameters",
    multiple=True,
    required=True,
    metavar="PATH=LOW..HIGH[:log]",
    shell_complete=_complete.setting,
    help="A number and its range, as in router.policy.cache_threshold=0.1..0.9. Repeatable.",
)
@click.option(
    "--arm", metavar="NAME", shell_complete=_complete.arm, help="The arm that is tuned; by default the only candidate."
)
@click.option("--metric", help="What is to be best; by default the scenario's first metric.")
@click.option(
    "--budget",
    type=click.IntRange(1, 1_000_000),
    default=200,
    show_default=True,
    help="Replications, those of the baseline included.",
)
@_options.seed
@_options.overrides
@_options.jobs
@_options.results
@_options.fresh
def tune(
    scenario: str,
    parameters: tuple[str, ...],
    arm: str | None,
    metric: str | None,
    budget: int,
    seed: int | None,
    overrides: tuple[str, ...],
    jobs: int | None,
    out: Path,
    fresh: bool,
) -> int:
    """Find the best values of numbers of one arm of SCENARIO, compared with the baseline on the same pairs.

    A quarter of the budget measures what was found anew, on pairs that the search has not seen. Warns where the optimum
    is inside the noise, or at an end of its range. Finished replications are stored at once: after any end the same
    command goes on where it stopped.
    """
    with interrupts.deferred():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from sim.cli.text.tune import digest, print_tuning
        from sim.files import write_whole
        from sim.scenario.tuning import load_tuning
        from sim.sweep.tune_charts import save_tune_charts
        from sim.sweep.tuning import tune as find_values

    made = load_tuning(scenario, parameters, arm=arm, overrides=overrides)
    if seed is not None:
        made = made.reseeded(seed)
    notes = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as progress:
        task = progress.add_task(f"{made.scenario.name}: {made.arm}", total=budget)
        result = find_values(
            made,
            metric=metric,
            budget=budget,
            jobs=jobs,
            out=out,
            fresh=fresh,
            progress=lambda done, _: progress.update(task, completed=done),
        )
    print_tuning(result, Console())
    folder, stem = out / made.scenario.name, f"tune-{digest(result)}"
    path = folder / f"{stem}.csv"
    write_whole(path, result.table.write_csv())
    for each in (path, *save_tune_charts(result, folder, stem=stem)):
        notes.print(f"wrote {each}", highlight=False, soft_wrap=True)
    return int(result.failures > 0)
