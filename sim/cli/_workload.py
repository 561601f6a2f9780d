"""``windtunnel workload``: what a workload holds, before anything runs."""

from pathlib import Path

import click

from sim.cli import _complete, _options


def _blocks(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    try:
        blocks = [int(each) for each in value.split(",")]
    except ValueError:
        raise click.BadParameter("tokens of a block, as in 1,16,64") from None
    if min(blocks) < 1:
        raise click.BadParameter("a block has 1 token or more")
    return blocks


@click.command(short_help="Describe what a workload holds.")
@click.argument("name", metavar="SCENARIO|PRESET|FILE", shell_complete=_complete.workload)
@_options.overrides
@click.option("--engines", type=click.IntRange(1, 100_000), help="Engines that keys are spread over; else the fleet's.")
@_options.seed
@click.option(
    "--replication", type=click.IntRange(0, 999_999), default=0, show_default=True, help="Which replication to draw."
)
@click.option(
    "--blocks", default="1,16,64,2080", show_default=True, callback=_blocks, help="Block sizes of the reuse ceiling."
)
@_options.tables_or_json
@click.option("--chart", type=click.Path(path_type=Path), metavar="STEM", help="Write STEM.png and STEM.html.")
def workload(
    name: str,
    overrides: tuple[str, ...],
    engines: int | None,
    seed: int | None,
    replication: int,
    blocks: list[int],
    as_json: bool,
    chart: Path | None,
) -> None:
    """Draw one replication of a workload and say what it holds; nothing is run.

    The workload of a scenario (of each arm that has its own), a preset by name, or a trace file. Values are overridden
    as in a scenario: --set workload.groups=32.

    Prints percentiles of prompts, of what they share, of answers, turns and gaps; the largest request; how much of the
    work a hundredth of the sessions has; the best hit rate that any cache could have; how evenly a good hash would
    spread the routing keys.
    """
    from sim.cli.text.workload import show

    show(
        name,
        overrides,
        engines=engines,
        seed=seed,
        replication=replication,
        blocks=blocks,
        as_json=as_json,
        chart=chart,
    )
