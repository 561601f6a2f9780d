"""``windtunnel export``: files for the real benchmark."""

from pathlib import Path

import click

from sim.cli import _complete, _options


@click.command(short_help="Write a scenario's workload for the real benchmark.")
@_options.scenario
@click.option("-o", "--out", required=True, type=click.Path(), callback=_options.folder, help="Folder to write to.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(["windtunnel", "mooncake", "aiperf", "dynamo"]),
    default=("windtunnel",),
    show_default=True,
    help="Format of the trace. Repeatable.",
)
@click.option(
    "--pairs", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Pairs to write, a file each."
)
@_options.seed
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME",
    shell_complete=_complete.arm,
    help="Export for this arm beside the baseline. Repeatable.",
)
@click.option(
    "--block-tokens",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Tokens of a block, in formats that have blocks.",
)
@_options.overrides
def export(
    scenario: str,
    out: Path,
    formats: tuple[str, ...],
    pairs: int,
    seed: int | None,
    arms: tuple[str, ...],
    block_tokens: int,
    overrides: tuple[str, ...],
) -> None:
    """Write the requests of SCENARIO as traces that a load generator sends, with the keys of every arm and a manifest.

    ``windtunnel`` says a workload to the last token and reads back as the same; the other formats are those of load
    generators (docs/traces.md), and the manifest says what each leaves out.
    """
    from sim.export import Plan
    from sim.export import export as write
    from sim.scenario import load_scenario

    plan = Plan(tuple(dict.fromkeys(formats)), pairs, block_tokens)
    for path in write(load_scenario(scenario, overrides).select(seed=seed, arms=arms), out, plan):
        click.echo(str(path))
