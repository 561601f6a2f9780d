"""The commands. Each imports what it needs when it runs, so that ``--help`` and completion answer at once."""

import os
from importlib import metadata
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from sim.errors import ScenarioError

SHELLS = ("bash", "zsh", "fish")


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    try:
        click.echo(f"windtunnel {metadata.version('windtunnel')}")
    except metadata.PackageNotFoundError:
        click.echo("windtunnel (not installed, run from its source)")
    context.exit()


def _complete_scenario(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    """Names of shipped scenarios, and files."""
    from sim.scenario._find import shipped

    names = [CompletionItem(name) for name in shipped() if name.startswith(start)]
    return [*names, CompletionItem(start, type="file")]


def _complete_policy(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    from sim import registry

    members = registry.scan(registry.POLICY).items()
    return [CompletionItem(kind, help=registry.summary(cls)) for kind, cls in members if kind.startswith(start)]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def windtunnel() -> None:
    """A wind tunnel for request routing over fleets of LLM engines.

    Write the fleet, the workload and the policies in one YAML file; see which policy wins, by how much and how sure.
    """


_scenario = click.argument("scenario", shell_complete=_complete_scenario)
_overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Override a value, as in fleet.engines=4. Repeatable.",
)


@windtunnel.command(short_help="Run the arms of a scenario and compare them.")
@_scenario
@click.option("--pairs", type=click.IntRange(min=1), help="Replications of each arm.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of all random streams.")
@click.option("--arm", "arms", multiple=True, metavar="NAME", help="Run this arm beside the baseline. Repeatable.")
@_overrides
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder of results."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def run(
    scenario: str,
    pairs: int | None,
    seed: int | None,
    arms: tuple[str, ...],
    overrides: tuple[str, ...],
    jobs: int,
    out: Path,
    as_json: bool,
) -> None:
    """Run every arm of SCENARIO on the same workloads and compare them with the baseline.

    SCENARIO is a file, or the name of a shipped scenario.
    """
    from sim.cli._run import run_scenario

    run_scenario(scenario, overrides, pairs=pairs, seed=seed, arms=arms, jobs=jobs, out=out, as_json=as_json)


@windtunnel.command(short_help="Check a scenario without running it.")
@_scenario
@_overrides
def check(scenario: str, overrides: tuple[str, ...]) -> None:
    """Check SCENARIO without running it.

    Prints it with every default filled in (as YAML that can be run), what its arms differ in, and warnings.
    """
    from sim.cli._check import check_scenario

    check_scenario(scenario, overrides)


@windtunnel.command(short_help="Print the JSON Schema of a scenario.")
def schema() -> None:
    """Print the JSON Schema of a scenario, for editors that complete and check YAML."""
    import json

    from sim.scenario import schema as make_schema

    click.echo(json.dumps(make_schema(), indent=2))


@windtunnel.command(short_help="List the policies, or show one.")
@click.argument("kind", required=False, shell_complete=_complete_policy)
def policies(kind: str | None) -> None:
    """List the policies, or show KIND: what it does, its parameters and the headers it reads."""
    from sim.cli._policies import describe, listing

    click.echo(listing() if kind is None else describe(kind))


@windtunnel.command(short_help="Print a shell's completion script.")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion(shell: str | None) -> None:
    """Print the completion script of a shell, by default of $SHELL.

    For bash: eval "$(windtunnel completion bash)"
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise ScenarioError(f"$SHELL does not name a shell with completion; name one: {', '.join(SHELLS)}")
    made = get_completion_class(name)
    assert made is not None
    click.echo(made(windtunnel, {}, "windtunnel", "_WINDTUNNEL_COMPLETE").source())
