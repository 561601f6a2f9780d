"""Runs a command and turns whatever ends it into one line and an exit code.

0 done; 1 what a user wrote or named cannot be used; 2 wrong usage of the command; 130 interrupted. A broken law of the
simulation keeps its traceback: it is a fault of the program. Results go to stdout, everything else to stderr.
"""

import os
import sys
from collections.abc import Sequence

import click

from sim.cli._commands import windtunnel
from sim.errors import ScenarioError


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``windtunnel``."""
    sys.exit(_run(None if arguments is None else list(arguments)))


def _run(arguments: list[str] | None) -> int:
    try:
        code = windtunnel.main(args=arguments, prog_name="windtunnel", standalone_mode=False)
        sys.stdout.flush()
    except ScenarioError as error:
        return _fail(str(error))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("\ninterrupted: nothing half-written is left", err=True)
        return 130
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter must not complain of that at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return 1
