"""``windtunnel power``: how many real pairs a stored comparison calls for."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from sim.cli import _options


@click.command(short_help="Say how many real pairs would show an effect.")
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", metavar="NAME", help="The metric that decides.  [default: samples_per_s]")
@click.option(
    "--effect",
    type=click.FloatRange(-0.9, 10),
    default=0.05,
    show_default=True,
    help="The effect to show, as a share.",
)
@click.option("--power", "wanted", type=_options.share, default=0.8, show_default=True, help="Probability to show it.")
@click.option(
    "--noise",
    type=_options.share,
    help="Relative SD of one real run of one arm.  [default: real_run_noise of the scenario, 0.018]",
)
@click.option(
    "--overhead-min",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Minutes of boot, warm-up and drain of a run.",
)
@click.option(
    "--failures",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Share of runs that fail and are repeated.",
)
@_options.tables_or_json
def power(
    results: tuple[Path, ...],
    metric: str | None,
    effect: float,
    wanted: float,
    noise: float | None,
    overhead_min: float,
    failures: float,
    as_json: bool,
) -> None:
    """Say how many pairs on real GPUs would show an effect, and what they cost, from stored RESULTS of two arms.

    RESULTS are two results, baseline first, or one folder that holds two. The real system's noise is added to the
    simulated spread; without it no number is a plan.
    """
    from rich.console import Console

    from sim.cli.text.power import print_plan
    from sim.report.contrast import chosen_metrics
    from sim.report.plan import plan
    from sim.report.sides import of_two_arms

    baseline, candidate = of_two_arms(results)
    [name, *_] = chosen_metrics(baseline, candidate, [metric] if metric else [])
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
        print_plan(found, baseline, candidate, Console())
