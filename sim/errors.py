"""Errors that a user can cause, and laws that the program must keep."""


class ScenarioError(Exception):
    """What a user wrote, or a file they named, cannot be run: one readable line, exit code 1."""


class LawError(AssertionError):
    """A law of the simulation is broken: a fault of this program, with the numbers that show it."""
