"""AReaL's choice of a server: round robin for new request ids, the last 128 of which keep theirs."""

from dataclasses import dataclass

from policies._keys import HEADERS, key_of
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class StickyRoundRobin(Policy):
    """A request id among the last ``rid_cache_size`` new ones keeps its server; others get the next address in turn.

    Ids leave in the order in which they came (FIFO), used or not. The turn starts at a random address. The id is one
    per trajectory; a request without one is new. Servers that fail are not looked at by the product, which retries;
    here the turn skips them, and an id whose server is down gets the next one. Cost O(1).

    Source: inclusionAI/AReaL ``areal/infra/remote_inf_engine.py`` at 4aef98d8d. How many rollouts run is decided by the
    client: at most ``min(max_concurrent_rollouts - running, (max_head_offpolicyness + version + 1) *
    consumer_batch_size - (accepted + running))`` new ones, which is ``max_sessions_in_flight`` here.
    Known pathologies: beyond 128 live ids the affinity is lost: with 129 in rotation no turn finds its server. Blind
    to load.
    Checked against: decision tables by hand.
    """

    rid_cache_size: int = 128
    """Ids that are remembered."""

    key_headers = HEADERS

    def __post_init__(self) -> None:
        self.refuse_negative("rid_cache_size")
        self._servers: dict[str, EngineView] = {}
        self._turn: int | None = None

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its ids are new when they return."""
        self._servers = {key: server for key, server in self._servers.items() if server is not engine}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the id's server, or the next one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = key_of(request) or f"request {request.id}"
        server = self._servers.get(key)
        if server is not None and server.is_available:
            return server, "known_id", 0
        if self._turn is None:
            self._turn = pick(range(len(fleet.engines)))
        count = len(fleet.engines)
        # Through the list of all addresses, so that a failure does not shift the turn.
        step = next(step for step in range(count) if fleet.engines[(self._turn + step) % count].is_available)
        engine = fleet.engines[(self._turn + step) % count]
        self._turn = (self._turn + step + 1) % count
        self._servers[key] = engine
        if len(self._servers) > self.rid_cache_size:
            del self._servers[next(iter(self._servers))]
        return engine, "new_id" if server is None else "moved_id", 0
