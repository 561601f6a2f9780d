"""``windtunnel completion``: the script that makes a shell complete."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from sim.cli import _complete
from sim.errors import ScenarioError

SHELLS = ("bash", "zsh", "fish")
_complete.register()


@click.command(short_help="Print a shell's completion script.")
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
    click.echo(made(click.get_current_context().find_root().command, {}, "windtunnel", "_WINDTUNNEL_COMPLETE").source())
