"""Runs a command and turns whatever ends it into one line and an exit code.

0 done; 1 what a user wrote or named cannot be used; 2 wrong usage of the command; 130 interrupted. A broken law of the
simulation keeps its traceback: it is a fault of the program. Results go to stdout, everything else to stderr.
"""

import codecs
import os
import sys
from pathlib import Path

import click

from sim.cli._commands import windtunnel
from sim.errors import ScenarioError

PLAINER = {"±": "+-", "↑": "^", "↓": "v", "–": "-", "×": "x", "…": "...", "●": "*"}
"""What stands for signs that the terminal's encoding lacks."""


def run_command(arguments: list[str] | None) -> int:
    """Run one command and give its exit code; KeyboardInterrupt is the caller's."""
    _prepare_streams()
    try:
        code = windtunnel.main(args=arguments, prog_name="windtunnel", standalone_mode=False)
        sys.stdout.flush()
    except ScenarioError as error:
        return _fail(str(error))
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter must not complain of that at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    """Output that cannot be encoded is written plainer; output that was closed goes nowhere."""
    codecs.register_error("plainer", _plainer)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="plainer")


def _plainer(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(PLAINER.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _fail(message: str) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return 1
