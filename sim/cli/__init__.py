"""The command line: what a person types, and what the exit code says of it."""

from sim.cli._main import main

__all__ = ["main"]
