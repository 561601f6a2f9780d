"""The command ``windtunnel`` and its commands, one file each.

Each imports what it needs when it runs, so that ``--help`` and completion answer at once.
"""

import click

from sim.cli._calibrate import calibrate
from sim.cli._check import check
from sim.cli._compare import compare
from sim.cli._completion import completion
from sim.cli._conform import conform
from sim.cli._export import export
from sim.cli._ls import ls
from sim.cli._policies import policies
from sim.cli._power import power
from sim.cli._profiles import profiles
from sim.cli._review import review
from sim.cli._run import run
from sim.cli._schema import schema
from sim.cli._score import score
from sim.cli._seal import seal
from sim.cli._show import show
from sim.cli._steps import steps
from sim.cli._sweep import sweep
from sim.cli._timeline import timeline
from sim.cli._trace import trace
from sim.cli._tune import tune
from sim.cli._validate import validate
from sim.cli._workload import workload

COMMANDS = (
    run,
    sweep,
    tune,
    ls,
    show,
    timeline,
    check,
    workload,
    schema,
    policies,
    calibrate,
    steps,
    profiles,
    review,
    compare,
    power,
    trace,
    export,
    seal,
    score,
    validate,
    conform,
    completion,
)


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from importlib import metadata

    try:
        click.echo(f"windtunnel {metadata.version('windtunnel')}")
    except metadata.PackageNotFoundError:
        click.echo("windtunnel (not installed, run from its source)")
    context.exit()


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


for _command in COMMANDS:
    windtunnel.add_command(_command)
