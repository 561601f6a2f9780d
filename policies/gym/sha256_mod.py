"""The endpoint that NeMo Gym's client picks for a session."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class Sha256Mod(Policy):
    """``int(sha256(session id)[:8], big endian) mod N`` over the configured list of endpoints.

    Cost O(1). The same in every process; blind to load, content and membership: N is the configured number, and a
    session whose endpoint is unavailable gets no other. Gym's sessions always have an id; a request without one is a
    session of its own here, hence placed at random.

    Source: NVIDIA-NeMo/Gym ``responses_api_models/vllm_model/app.py`` at 07d6b0d07 (since c84b7ed4b, 2026-08-07).
    Known pathologies: the split of sessions is multinomial (610 over 12: about 36 to 68); a change of N moves nearly
    all.
    Checked against: the definition, computed by hand.
    """

    key_headers = ("x-session-id", "x-smg-routing-key")
    places_by_hash = True
    may_refuse = True

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the session id alone."""
        engines = fleet.engines
        if not fleet.available:
            return None, "no_engine", 0
        key = request.headers.get("x-session-id") or request.headers.get("x-smg-routing-key")
        engine = engines[_place(key) % len(engines)] if key else pick(engines)
        if not engine.is_available:
            return None, "unavailable", 0
        return engine, "key" if key else "no_key", 0


@lru_cache(1 << 16)
def _place(key: str) -> int:
    return int.from_bytes(sha256(key.encode()).digest()[:8], "big")
