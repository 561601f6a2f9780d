"""AIBrix ``session-affinity``."""

from dataclasses import dataclass
from functools import lru_cache

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_OFFSET, _PRIME, _MASK = 14695981039346656037, 1099511628211, (1 << 64) - 1
_LONGEST_KEY = 256


@dataclass
class SessionAffinity(Policy):
    """The pod that served the session last, if its client says so; else the key's pod by rendezvous hashing; else any.

    The gateway keeps nothing: it answers with the pod's address in a header, and a client that sends it back
    (``client_echoes``) returns to that pod while it is ready. Otherwise the ready pod with the largest FNV-1a of key,
    a zero byte and address (``host:port``), the lower address on a tie. Without a key, or with one of more than 256
    bytes: a random pod. Cost O(pods).

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/simple_session_affinity.go`` at e3e10f9e4.
    Known pathologies: blind to load; a failed pod's sessions return to it only if their clients do not echo.
    Checked against: decision tables from the source, with the hash worked out byte by byte.
    """

    client_echoes: bool = False
    """Whether clients send back the header that names their pod."""

    key_headers = ("x-aibrix-session-key",)

    def __post_init__(self) -> None:
        self._last: dict[str, EngineView] = {}

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Nobody is at its address."""
        self._last = {key: last for key, last in self._last.items() if last is not engine}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the echoed address, by the key, or at random."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = request.headers.get("x-aibrix-session-key", "")
        if self.client_echoes and key:
            last = self._last.get(key)
            if last is not None and last.is_available:
                return last, "echoed", 0
        if not key or len(key.encode()) > _LONGEST_KEY:
            engine, branch = pick(available), "no_key"
        else:
            engine = min(available, key=lambda pod: (-_score(key, _address(pod.url)), _address(pod.url)))
            branch = "key"
        if self.client_echoes and key:
            self._last[key] = engine
        return engine, branch, 0


def _address(url: str) -> str:
    return url.rpartition("//")[2]


@lru_cache(1 << 16)
def _score(key: str, address: str) -> int:
    score = _OFFSET
    for byte in (*key.encode(), 0, *address.encode()):
        score = (score ^ byte) * _PRIME & _MASK
    return score
