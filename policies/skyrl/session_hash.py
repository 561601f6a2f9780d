"""Session routing of SkyRL's sample integration."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class SessionHash(Policy):
    """``sha256(session id)[:8] mod N`` over the list of engines; without a session id each in turn.

    Cost O(1); blind to load. The first eight bytes are one number, big endian. The list is the configured one: a
    request whose engine is down gets no other. SkyRL's default is different: it starts vllm-router with
    ``vllm.consistent_hash`` and sends ``X-Session-ID``.

    Source: NovaSky-AI/SkyRL ``examples/train/thunder_agent/skyrl_integration/router.py`` at a9564572e.
    Known pathologies: the split of sessions is multinomial; a change of N moves 1 - 1/N of them.
    Checked against: the definition, computed by hand.
    """

    key_headers = ("x-session-id",)
    places_by_hash = True
    may_refuse = True

    def __post_init__(self) -> None:
        self._turn = 0

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the session id alone."""
        engines = fleet.engines
        if not fleet.available:
            return None, "no_engine", 0
        key = request.headers.get("x-session-id")
        if not key:
            self._turn += 1
            engine, branch = engines[(self._turn - 1) % len(engines)], "no_session"
        else:
            engine, branch = engines[_place(key) % len(engines)], "session"
        return (engine, branch, 0) if engine.is_available else (None, "unavailable", 0)


@lru_cache(1 << 16)
def _place(key: str) -> int:
    return int.from_bytes(sha256(key.encode()).digest()[:8], "big")
