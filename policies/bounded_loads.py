"""Consistent hashing with bounded loads."""

import math
from dataclasses import dataclass
from typing import ClassVar

from policies._hash_ring import HashRing
from policies._hashes import xxh3_u64
from policies._keys import HEADERS, key_of
from policies._load import first_least
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class BoundedLoads(Policy):
    """From the key clockwise, the first available engine that then holds at most ``c`` times the average in flight.

    Ring of ``points`` points an engine at XXH3-64 of ``{url}#{i}``, key at XXH3-64(key). An engine may take a request
    if it holds at most ``ceil(c * (total + 1) / available)`` with it, total before it: the bound of the source. For c
    of at least 1 there is always such an engine; below 1 the key's own engine serves when there is none. A request
    without a key goes to the least loaded engine, first on a tie. Cost O(engines) for the total, and one bisection.

    Source: Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018. Products with their
    own hashes, which compare the load without the request and so hold one more where the bound is a whole number:
    ``kubeai.prefix_hash``, ``smg.prefix_hash`` (which does not walk on but takes the least loaded).
    Known pathologies: a key that spills loses its prefix for that request, and returns to its own engine for the next;
    at high load requests of hot keys are scattered over the ring's successors.
    Checked against: the bound and the monotone ring, by property tests.
    """

    c: float = 1.25
    """Times the average load that an engine may have."""
    points: int = 150
    """Points of each engine on the ring."""

    key_headers = HEADERS
    deciders: ClassVar[Led] = {"c": ("spill",)}

    def __post_init__(self) -> None:
        self.refuse_negative("c", "points")
        if self.points < 1:
            raise ValueError(f"points must be one or more, not {self.points}")
        self._ring = HashRing(self.points, _label, xxh3_u64)

    def start(self, fleet: FleetView) -> None:
        """Put the engines on the ring."""
        self._ring.build(fleet.engines)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Add its points."""
        self._ring.build(fleet.engines)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Remove its points."""
        self._ring.build(fleet.engines)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by key and bound."""
        if not fleet.available:
            return None, "no_engine", 0
        key = key_of(request)
        if not key:
            return first_least(fleet.available), "no_key", 0
        engine, is_own = self._ring.find_within(key, self._limit(fleet.available))
        assert engine is not None, "an engine is available"
        if is_own:
            return engine, "key", 0
        return engine, "spill", 0

    def _limit(self, available: list[EngineView]) -> int:
        """Requests in flight up to which an engine may take one more."""
        total = 1
        for engine in available:
            total += engine.in_flight
        # Rounded first: 1.1 * 10 is a little more than 11.
        return math.ceil(round(self.c * total / len(available), 9)) - 1


def _label(url: str, point: int) -> str:
    return f"{url}#{point}"
