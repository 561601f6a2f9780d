"""``windtunnel export``: files for the real benchmark."""

from pathlib import Path

import click
from click.core import ParameterSource

from policies._products import PRODUCTS
from sim.cli import _complete, _options


@click.command(short_help="Write a scenario's workload for the real benchmark.")
@_options.scenario
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder to write to.")
@click.option("--check", "checks", is_flag=True, help="Check the exported folder that stands in place of SCENARIO.")
@_options.formats("Format of the trace.")
@click.option(
    "--pairs", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Pairs to write, a file each."
)
@click.option(
    "--first-pair",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    help="Number of the first pair to write; those before it are left out.",
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
@click.option("--product", type=click.Choice(PRODUCTS), help="Configure this router, where it has the policy.")
@click.option(
    "--engine",
    "urls",
    multiple=True,
    metavar="URL",
    help="Address of a real engine, in order: keys are planned for them. Repeatable.  [default: named at the start]",
)
@_options.overrides
def export(
    scenario: str,
    out: Path | None,
    checks: bool,
    formats: tuple[str, ...],
    pairs: int,
    first_pair: int,
    seed: int | None,
    arms: tuple[str, ...],
    block_tokens: int,
    product: str | None,
    urls: tuple[str, ...],
    overrides: tuple[str, ...],
) -> None:
    """Write what the real benchmark of SCENARIO needs: traces, a configuration of every arm, the order of runs.

    Traces hold the requests with the keys of every arm: ``windtunnel`` says a workload to the last token and reads back
    as the same; the other formats are those of load generators, and the manifest says what each leaves out. An arm's
    folder starts its router and its engines. What a product cannot have is a warning. docs/real_runs.md has more.

    ``windtunnel export --check FOLDER`` exits 1 if a file of an export is missing or was changed, or if its arms differ
    in more than the one field that the scenario declares.
    """
    from sim.campaign import refuse_sealed
    from sim.export import Plan, check_export, read_manifest, warnings
    from sim.export import export as write
    from sim.scenario import load_scenario

    if checks:
        _refuse_options_beside_check()
        manifest = check_export(Path(scenario))
        click.echo(f"{scenario}: {len(manifest['files'])} files as exported; arms differ as declared")
        return
    if out is None:
        raise click.UsageError("Missing option '-o' / '--out': a folder to write to.")
    refuse_sealed(out)
    chosen = load_scenario(scenario, overrides).select(seed=seed, arms=arms)
    plan = Plan(tuple(dict.fromkeys(formats)), pairs, block_tokens, product, urls, first_pair)
    for path in write(chosen, out, plan):
        click.echo(str(path))
    for line in warnings(read_manifest(out)):
        click.echo(f"warning: {line}", err=True)


def _refuse_options_beside_check() -> None:
    """A folder is checked as it is: no option changes that."""
    context = click.get_current_context()
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if given and parameter.name not in ("scenario", "checks"):
            raise click.UsageError(f"{parameter.opts[0]} has no effect beside --check")
