"""Routing by session header on a hash ring, as vllm-router 0.1.17 does it."""

from dataclasses import dataclass
from typing import ClassVar

from policies._hash_ring import HashRing
from policies._hashes import furc_u64
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_POINTS = 160
_NO_KEY = "request:"


@dataclass
class ConsistentHash(Policy):
    """The key's successor on a ring of 160 points an engine; if that engine is unavailable, the first available one.

    Point i of an engine is ``F("{url}:{i}")`` with F of the furc hash (2^23 values). The key is
    ``header:{name}:{value}`` of the first non-empty header of ``key_headers``, so the same id under another header maps
    elsewhere. Without one the key is the constant ``request:``: body fields and text do not reach the policy in this
    version. Cost O(log engines).

    Source: vllm-project/router ``src/policies/consistent_hash.rs`` at 080589a0b, ``hash_key.rs`` at 335c57e2e; the
    constant key was measured on vllm-router 0.1.17.
    Known pathologies: requests without a session header all go to one engine; all keys of an unavailable engine pile
    onto the first available one; blind to load.
    Checked against: recorded decisions with every header and with body fields.
    """

    places_by_hash = True
    key_headers: ClassVar[tuple[str, ...]] = (
        "x-session-id",
        "x-user-id",
        "x-tenant-id",
        "x-correlation-id",
        "x-request-id",
        "x-trace-id",
    )
    arbitrary_order = True

    def __post_init__(self) -> None:
        self._ring = HashRing(_POINTS, _label, furc_u64)

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
        """Choose by the first session header, or by the constant key."""
        if not fleet.available:
            return None, "no_engine", 0
        key, branch = _NO_KEY, "no_key"
        for name in self.key_headers:
            value = request.headers.get(name)
            if value:
                key, branch = f"header:{name}:{value}", "key"
                break
        engine = self._ring.owner(key)
        if engine.is_available:
            return engine, branch, 0
        return fleet.available[0], "first_available", 0


def _label(url: str, point: int) -> str:
    return f"{url}:{point}"
