"""Hashing with bounded loads: a key's own engine, unless that has more than its share of the load.

With ``average = (total in flight + 1) / engines``, an engine may take one more request while its load is at most
``factor * average`` (or a margin above the average, where a product has one), and always while nothing is in flight.

Source of the rule: Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads" (SODA 2018); the products
compare the load before the request is added, so a bound of c lets an engine hold up to ``c * average + 1``.
"""

from collections.abc import Sequence

from policies._load import first_least
from policies._protocol import EngineView


def limit_of(available: Sequence[EngineView], factor: float, margin: float | None = None) -> float:
    """Requests in flight up to which an engine may take one more."""
    total = 0
    for engine in available:
        total += engine.in_flight
    if total == 0:
        return 0.0
    average = (total + 1) / len(available)
    return factor * average if margin is None else max(factor * average, average + margin)


def least_within(available: Sequence[EngineView], own: EngineView, limit: float) -> tuple[EngineView, str]:
    """The key's own engine if it is within the limit, else the least loaded one that is, first on a tie, else its own.

    The least loaded engine of all is within the limit whenever any is.
    """
    if own.in_flight <= limit:
        return own, "ring"
    least = first_least(available)
    return (least, "overflow") if least.in_flight <= limit else (own, "all_full")
