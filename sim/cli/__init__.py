"""The command line: what a person types, and what the exit code says of it.

Nothing but the standard library is imported before ``main`` is called: Ctrl-C is answered from the first moment on.
"""

import signal
import sys
from collections.abc import Sequence

INTERRUPTED = "interrupted: nothing half-written is left"

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``windtunnel``."""
    try:
        from sim import interrupts

        interrupts.install()
        from sim.cli._main import run_command

        code = run_command(None if arguments is None else list(arguments))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed again, it would end the exit in a traceback
        sys.stderr.write(f"\n{INTERRUPTED}\n")
        code = 130
    sys.exit(code)
