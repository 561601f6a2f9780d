"""The router of SkyRL's agent services."""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_WEIGHTS = 100


@dataclass
class AgentService(Policy):
    """In turn, as smooth weighted round robin has it; with ``sticky`` a trajectory keeps the server that it was given.

    In turn: the available servers have weights of 100 in all, as equal as whole numbers can be, the first ones larger;
    each is credited its weight, the one with most credit serves, first on a tie, and pays 100. A change of what is
    available begins anew. Sticky (header ``X-Trajectory-ID``): a known trajectory keeps its server while that is
    available; otherwise the server with the largest ``SHA-1(id + address) / (1 + load_beta * requests in flight)``,
    of whose hash the first eight bytes count, and it stays there. A request is in flight from the head of its answer
    on, which without ``streaming`` comes at its end: the load is 0 then. Without an id: in turn. Cost O(servers), O(1)
    for a known trajectory.

    Source: NovaSky-AI/SkyRL ``skyrl-agent/services/router_simple.py`` at a9564572e. Left out: preferred targets (off by
    default), standby servers, and the failed request that disables a server for good after two.
    Known pathologies: every turn goes elsewhere, and that is the default; sticky divides a uniform hash by the load, so
    a loaded server is avoided only on average, and without streaming not at all.
    Checked against: decision tables from the source.
    """

    sticky: bool = False
    """Whether a trajectory keeps its server; off in the product unless SUMMARY_DISABLE_STICKY is 0."""
    streaming: bool = False
    """Whether answers are streamed."""
    load_beta: float = 0.5
    """How much each streamed request in flight takes from the hash of a new trajectory."""

    key_headers = ("x-trajectory-id",)

    def __post_init__(self) -> None:
        self.refuse_negative("load_beta")
        self._homes: dict[str, EngineView] = {}
        self._credit: dict[EngineView, int] = {}

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its trajectories are new when they return."""
        self._homes = {key: home for key, home in self._homes.items() if home is not engine}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by trajectory, or in turn."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = request.headers.get("x-trajectory-id")
        if not (self.sticky and key):
            return self._next(available), "turn", 0
        home = self._homes.get(key)
        if home is not None and home.is_available:
            return home, "sticky", 0
        beta = self.load_beta if self.streaming else 0.0
        best = max(available, key=lambda server: _hash(key, server.url) / (1.0 + beta * server.in_flight))
        self._homes[key] = best
        return best, "new_key" if home is None else "moved_key", 0

    def _next(self, available: list[EngineView]) -> EngineView:
        """The server whose turn it is."""
        if self._credit.keys() != set(available):
            self._credit = dict.fromkeys(available, 0)
        base, larger = divmod(_WEIGHTS, len(available))
        for place, server in enumerate(available):
            self._credit[server] += base + (place < larger)
        best = max(available, key=lambda server: self._credit[server])
        self._credit[best] -= _WEIGHTS
        return best


@lru_cache(1 << 16)
def _hash(key: str, url: str) -> int:
    return int.from_bytes(sha1(f"{key}{url}".encode(), usedforsecurity=False).digest()[:8], "big")
