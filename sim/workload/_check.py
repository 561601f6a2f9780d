"""Refusals shared by the kinds of workload: the message is the rule, and names the value that broke it."""

from typing import Final

from sim.errors import ScenarioError

MOST_TOKENS: Final = 1_000_000_000
"""Most tokens of one length: far above any context, far below where sums of int64 could overflow."""
MOST_SECONDS: Final = 1_000_000_000.0
"""Longest time, about 30 years: nanoseconds still fit an int64."""
MOST_REQUESTS: Final = 20_000_000
"""Most requests of one workload; its columns then take about 1 GB."""


def within(name: str, value: float, least: float, most: float = MOST_TOKENS) -> None:
    """Refuse a value outside ``least .. most``; a value that is not a number is outside."""
    if not least <= value <= most:
        raise ScenarioError(f"{name} must be from {least:,} to {most:,}, not {value:,}")


def positive(name: str, value: float) -> None:
    """Refuse what is not a finite number above zero."""
    if not 0 < value < float("inf"):
        raise ScenarioError(f"{name} must be above 0 and finite, not {value:,}")
