"""Routing by the head of the prompt, or the key, as smg 1.13.0 has it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._bounded import least_within, limit_of
from policies._content import cut
from policies._hash_ring import HashRing
from policies._hashes import blake3_u64, content_u64, xxh3_u64
from policies._load import first_least
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView
from policies.sglang._ring import POINTS, label
from policies.smg._headers import routing_key


@dataclass
class PrefixHash(Policy):
    """Ring with bounded loads for requests with a routing key; over HTTP all others go to the least loaded engine.

    Over HTTP only a routing key (``X-SMG-Routing-Key``) is hashed (XXH3-64, as 16 hexadecimal digits) and looked up on
    a ring of 150 points an engine; text and token ids are not, and go to the engine with fewest requests in flight,
    first on a tie. Over gRPC the first ``prefix_token_count`` tokens are the key of requests without one. The ring's
    engine serves if its requests in flight are at most ``max(factor * average, average + margin)``, average being
    ``(total + 1) / available``, or the total is 0; else the least loaded engine within the limit, first on a tie; if
    none is, the ring's engine. Cost O(engines).

    Source: smg-project/smg ``model_gateway/src/policies/prefix_hash.rs`` at f8daa8835; behaviour over HTTP measured on
    smg 1.13.0. Token values are not known here, so which engine a head maps to over gRPC is arbitrary.
    Known pathologies: over HTTP without keys it is least load without any locality.
    Checked against: recorded decisions of smg 1.13.0: text, token ids, routing keys, and load beyond the limit.
    """

    prefix_token_count: int = 256
    """Tokens of the head that are hashed over gRPC."""
    prefix_hash_load_factor: float = 1.25
    """Times the average load that an engine may have."""
    prefix_hash_balance_abs_threshold: float = 10
    """Requests above the average that it may have anyway."""
    connection: Literal["http", "grpc"] = "http"
    """How engines are reached; only gRPC hands tokens to the policy."""

    key_headers = ("x-smg-routing-key",)
    reads_content = True
    arbitrary_order = True
    fallback = "least_load"
    deciders: ClassVar[Led] = dict.fromkeys(
        ("prefix_hash_load_factor", "prefix_hash_balance_abs_threshold"), ("overflow", "all_full")
    )

    def __post_init__(self) -> None:
        self.refuse_negative("prefix_token_count", "prefix_hash_load_factor", "prefix_hash_balance_abs_threshold")
        self._ring = HashRing(POINTS, label, blake3_u64)

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
        """Choose by key, by head over gRPC, or by load."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = routing_key(request)
        if key:
            place = xxh3_u64(key)
        elif self.connection == "grpc":
            place = content_u64(cut(request.content, self.prefix_token_count))
        else:
            return first_least(available), "no_key", 0
        own = self._ring.find(f"{place:016x}")
        assert own is not None, "an engine is available"
        limit = limit_of(available, self.prefix_hash_load_factor, self.prefix_hash_balance_abs_threshold)
        engine, branch = least_within(available, own, limit)
        return engine, branch, 0
