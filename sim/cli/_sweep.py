"""``windtunnel sweep``: run with the best so far on stderr, show where the winner changes."""

from contextlib import ExitStack
from pathlib import Path

import click

from sim import interrupts, registry
from sim.cli import _complete, _options
from sim.errors import ScenarioError


@click.command(short_help="Run the variants of a scenario; see where the winner changes.")
@_options.scenario
@click.option(
    "--vary",
    multiple=True,
    metavar="PATH=A,B,C",
    shell_complete=_complete.setting,
    help="Vary a field, in place of the scenario's sweep block: a list, or {first: 1, last: 8, steps: 4, scale: log}. "
    "Repeated: a grid.",
)
@click.option("--metric", help="What the table shows; by default the scenario's first metric.")
@_options.pairs
@_options.seed
@_options.overrides
@_options.jobs
@click.option(
    "--executor",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    show_default=True,
    help="Where replications run: on this machine, or on a Ray cluster (needs windtunnel[ray]).",
)
@click.option("--address", help="Address of the Ray cluster; absent: a Ray of this machine alone.")
@_options.results
@click.option("--tables", "keep_tables", is_flag=True, help="Store every request and decision, as run does.")
@_options.fresh
def sweep(
    scenario: str,
    vary: tuple[str, ...],
    metric: str | None,
    pairs: int | None,
    seed: int | None,
    overrides: tuple[str, ...],
    jobs: int | None,
    executor: str,
    address: str | None,
    out: Path,
    keep_tables: bool,
    fresh: bool,
) -> int:
    """Run every arm of every variant of SCENARIO, and compare the arms variant by variant.

    Variants are named by the scenario's sweep block, or by --vary. Finished replications are stored at once: after any
    end the same command goes on where it stopped.
    """
    with interrupts.deferred():
        from rich.console import Console

        from sim.cli._progress import progress_line
        from sim.cli.text.sweep import BestSoFar, print_sweep, verdict
        from sim.files import write_whole
        from sim.report.result import Result
        from sim.scenario import load_sweep
        from sim.sweep import sweep as run_variants
        from sim.sweep.charts import save_sweep_charts

    made = load_sweep(scenario, overrides, vary).select(pairs=pairs, seed=seed)
    shown = metric or made.scenario.metrics[0]
    if shown not in made.scenario.metrics:
        known = registry.suggest(shown, made.scenario.metrics)
        raise ScenarioError(f"--metric {shown}: not among the scenario's metrics; {known}")
    if address is not None and executor != "ray":
        raise ScenarioError("--address has no effect without --executor ray")
    notes = Console(stderr=True)
    with ExitStack() as stack:
        pool = None
        if executor == "ray":
            from sim.sweep._ray import ray_pool

            pool = stack.enter_context(ray_pool(address, jobs))
        progress = stack.enter_context(progress_line(notes))
        task = progress.add_task(made.scenario.name, total=None)

        best = BestSoFar(shown)

        def decided(variant: str, result: Result) -> None:
            progress.console.print(f"{variant}: {verdict(result, shown)}", highlight=False, soft_wrap=True)
            progress.update(task, description=f"{made.scenario.name} {best.hear(variant, result)}".rstrip())

        result = run_variants(
            made,
            jobs=jobs,
            out=out,
            keep_tables=keep_tables,
            fresh=fresh,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
            decided=decided if notes.is_terminal else None,
            pool=pool,
        )
    print_sweep(result, shown, Console())
    # A sweep that the command line changed has a name of its own.
    path = out / made.scenario.name / f"{f'sweep-{result.digest()}' if vary or overrides else 'sweep'}.csv"
    write_whole(path, result.table.write_csv())
    for each in (path, *save_sweep_charts(result, shown, path.parent, stem=path.stem)):
        notes.print(f"wrote {each}", highlight=False, soft_wrap=True)
    return int(result.failures > 0)
