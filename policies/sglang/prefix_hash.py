"""Routing by the head of the prompt, as sglang-router 0.3.2 has it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._bounded import least_within, limit_of
from policies._content import cut
from policies._hash_ring import HashRing
from policies._hashes import blake3_u64, content_u64
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView
from policies.sglang._ring import POINTS, label


@dataclass
class PrefixHash(Policy):
    """Over HTTP every request is refused with 503. Over gRPC: the head's engine on a ring, with bounded loads.

    Over HTTP the router hands this policy no tokens, and it refuses. Over gRPC: the first ``prefix_token_count`` tokens
    are hashed (XXH3-64, as 16 hexadecimal digits) and looked up on a ring of 150 points an engine. That engine serves
    if its requests in flight are at most ``prefix_hash_load_factor * (total + 1) / available``, or the total is 0;
    else the least loaded engine within the limit does, first on a tie; if none is, the ring's engine after all. Cost
    O(engines).

    Source: smg-project/smg ``src/policies/prefix_hash.rs`` at c7f9bf9f5 (sglang-router 0.3.2). Token values are not
    known here, so which engine a head maps to is arbitrary; equal heads map alike.
    Known pathologies: refuses everything over HTTP; over gRPC a system prompt longer than ``prefix_token_count`` makes
    all prompts one key, and only the load bound spreads them.
    Checked against: recorded decisions over HTTP (all 503); decision tables from the source over gRPC.
    """

    prefix_token_count: int = 256
    """Tokens of the head that are hashed."""
    prefix_hash_load_factor: float = 1.25
    """Times the average load that an engine may have."""
    connection: Literal["http", "grpc"] = "http"
    """How engines are reached; only gRPC hands tokens to the policy."""

    reads_content = True
    arbitrary_order = True
    may_refuse = True
    deciders: ClassVar[Led] = dict.fromkeys(("prefix_hash_load_factor",), ("overflow", "all_full"))

    def __post_init__(self) -> None:
        self.refuse_negative("prefix_token_count", "prefix_hash_load_factor")
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
        """Choose by the head of the prompt, if it is known."""
        if not fleet.available:
            return None, "no_engine", 0
        if self.connection == "http":
            return None, "no_tokens", 0
        head = cut(request.content, self.prefix_token_count)
        own = self._ring.find(f"{content_u64(head):016x}")
        assert own is not None, "an engine is available"
        engine, branch = least_within(fleet.available, own, limit_of(fleet.available, self.prefix_hash_load_factor))
        return engine, branch, 0
