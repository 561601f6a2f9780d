"""verl's global load balancer: a trajectory stays where its first request went."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._hashes import xxh3_u64
from policies._keys import HEADERS, key_of
from policies._load import first_least, is_uneven, random_least
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class GlobalLoadBalancer(Policy):
    """A known request id keeps its server; a new one goes to the server with fewest requests in flight.

    The id is one per trajectory. The map holds ``max_cache_size`` ids, the least recently used one dropping out.
    Entries of a server that was removed or is down are replaced when they are met; adding a server moves nothing. With
    ``full_determinism`` the server of a new id is ``hash(id) mod N``, whatever the load, and margins are ignored. Two
    margins, off by default, un-stick known ids: ``affinity_break_margin`` one whose own server is that far above the
    least loaded; ``balance_abs_threshold`` every one while ``max - min`` exceeds it and ``max`` exceeds
    ``balance_rel_threshold * min``, both strictly. Cost O(1) for a known id, O(engines) for a new one or with a margin.

    Source: verl-project/verl ``verl/workers/rollout/llm_server.py`` at 1dda039b9; ``random`` ties since its change 7613
    (2026-08-30), ``affinity_break_margin`` from the open pull request 7435, ``balance_abs_threshold`` from the open
    pull request 6533. Left out: the explicit call that clears the map. Python's hash of a text differs in each process;
    XXH3-64 stands for it. A request without an id is one of its own.
    Known pathologies: with ``first``, sessions that start one by one on an idle pool all go to the first server and
    stay there; placement is never revised unless the margin is set; counts of requests are not work.
    Checked against: decision tables by hand, and 200 sequential sessions of which 200 go to one server.
    """

    tie: Literal["first", "random"] = "first"
    """Among servers with equal counts: the first in insertion order, or a random one."""
    max_cache_size: int = 10000
    """Ids that are remembered."""
    full_determinism: bool = False
    """Place by the id's hash alone."""
    affinity_break_margin: int | None = None
    """Requests in flight above the least loaded server beyond which a known id moves there; null: it never does."""
    balance_abs_threshold: int = 0
    """Requests between the most and the least loaded server above which known ids are placed anew; 0: never."""
    balance_rel_threshold: float = 1.0
    """Ratio of the most to the least loaded server that must be exceeded as well."""

    key_headers = HEADERS
    deciders: ClassVar[Led] = dict.fromkeys(
        ("affinity_break_margin", "balance_abs_threshold", "balance_rel_threshold"), ("moved_id",)
    )

    def __post_init__(self) -> None:
        self.refuse_negative("max_cache_size", "balance_abs_threshold", "balance_rel_threshold")
        if self.affinity_break_margin is not None:
            self.refuse_negative("affinity_break_margin")
        self._servers: dict[str, EngineView] = {}

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its entries mean nothing any more."""
        self._servers = {key: server for key, server in self._servers.items() if server is not engine}

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the id's server, or place it."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = key_of(request) or f"request {request.id}"
        server = self._servers.pop(key, None)
        if server is not None and server.is_available and not self._breaks(server, available):
            self._servers[key] = server
            return server, "known_id", 0
        if self.full_determinism:
            engine = available[xxh3_u64(key) % len(available)]
        else:
            engine = random_least(available, pick) if self.tie == "random" else first_least(available)
        self._servers[key] = engine
        if len(self._servers) > self.max_cache_size:
            del self._servers[next(iter(self._servers))]
        branch = "hash" if self.full_determinism else "new_id"
        return engine, branch if server is None else "moved_id", 0

    def _breaks(self, server: EngineView, available: list[EngineView]) -> bool:
        if self.full_determinism:
            return False
        margin = self.affinity_break_margin
        if margin is not None and server.in_flight - first_least(available).in_flight > margin:
            return True
        spread = self.balance_abs_threshold
        return spread > 0 and is_uneven(available, spread, self.balance_rel_threshold)
