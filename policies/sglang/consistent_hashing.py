"""Routing by key in sglang-router 0.3.2: named for a ring, in effect a modulo."""

from dataclasses import dataclass

from policies._hashes import blake3_u64
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView

_IMPLICIT = ("authorization", "x-forwarded-for", "cookie")


@dataclass
class ConsistentHashing(Policy):
    """``available[H(key) mod len(available)]`` in the router's own order; H is the first 8 bytes of BLAKE3.

    Cost O(1), no state; reads headers only. In this order: ``X-SMG-Target-Worker`` is an index into the available
    engines (anything else: refused with 503, whatever other headers say); ``X-SMG-Routing-Key`` is the key; else the
    first present of ``Authorization``, ``X-Forwarded-For``, ``Cookie`` is; else the engine is random. Empty headers
    count as absent, keys with characters beyond visible ASCII too.

    The designed ring of 150 points is never found in the normal single-model HTTP mode: it is stored under the model's
    name and fetched under "unknown". Workers whose model cannot be learned do get the ring; that case is not modelled.

    Source: smg-project/smg ``src/policies/consistent_hashing.rs`` at c7f9bf9f5 (sglang-router 0.3.2).
    Known pathologies: the order is arbitrary and drawn at each start, so the mapping differs after a restart and
    between two routers; one engine joining or leaving moves nearly all keys, about (N-1)/N; blind to load, so few
    heavy keys split binomially.
    Checked against: recorded decisions with keys, odd keys, target and implicit headers, and through churn.
    """

    key_headers = ("x-smg-routing-key",)
    places_by_hash = True
    may_refuse = True
    arbitrary_order = True

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by target, key, implicit key, or chance."""
        available = fleet.available
        if not available:
            return None, "no_healthy_workers", 0
        headers = request.headers
        if headers.get("x-smg-target-worker"):
            return _target(headers["x-smg-target-worker"], fleet)
        key = headers.get("x-smg-routing-key")
        if key and _is_readable(key):
            return available[blake3_u64(key) % len(available)], "routing_key_hit", 0
        key = next((headers[name] for name in _IMPLICIT if name in headers), None)
        if key and _is_readable(key):
            return available[blake3_u64(key) % len(available)], "implicit_key_hit", 0
        return pick(available), "random_fallback", 0


def _is_readable(value: str) -> bool:
    return value.isascii()


def _target(text: str, fleet: FleetView) -> Choice:
    """An index into the available engines; refused if it is anything else."""
    digits = text.removeprefix("+")
    if digits.isascii() and digits.isdigit() and int(digits) < len(fleet.available):
        return fleet.available[int(digits)], "target_worker_hit", 0
    return None, "target_worker_miss", 0
