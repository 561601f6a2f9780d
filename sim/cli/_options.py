"""Arguments and options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sim.cli import _complete

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def folder(_: click.Context, __: click.Parameter, value: str) -> Path:
    """The folder that an option names."""
    if not value:
        raise click.BadParameter("an empty name; the current folder is .")
    return Path(value)


def folder_or_none(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """The folder that an option names, if it is given."""
    return None if value is None else folder(context, option, value)


def together(*options: Option) -> Option:
    """Several options as one, shown in the order given."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


scenario = click.argument("scenario", shell_complete=_complete.scenario)
stored = click.argument("hash", metavar="ID")
overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    shell_complete=_complete.setting,
    help="Override a value, as in fleet.engines=4. Repeatable.",
)
pairs = click.option("--pairs", type=click.IntRange(1, 1_000_000), help="Replications of each arm.")
seed = click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of all random streams.")
fresh = click.option("--fresh", is_flag=True, help="Run again what is stored already.")
jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="Worker processes; by default one a core, where that is worth their start.",
)
every_core = click.option("--jobs", type=click.IntRange(min=1), help="Worker processes; by default one a core.")
results = click.option(
    "--out",
    type=click.Path(),
    default="results",
    show_default=True,
    callback=folder,
    help="Folder of results.",
)
tables_or_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")


def formats(says: str) -> Option:
    """Formats of exported traces, ``sim.export.FORMATS``."""
    return click.option(
        "--format",
        "formats",
        multiple=True,
        type=click.Choice(["windtunnel", "mooncake", "aiperf", "dynamo"]),
        default=("windtunnel",),
        show_default=True,
        help=f"{says} Repeatable.",
    )


share = click.FloatRange(0, 1, min_open=True, max_open=True)
lines = together(
    click.option("--equal", type=share, default=0.02, show_default=True, help="Shares that count as equal."),
    click.option("--harm", type=share, default=0.03, show_default=True, help="Loss that counts as harm."),
    click.option("--interest", type=share, default=0.05, show_default=True, help="Smallest interesting gain."),
)
