"""KubeAI's PrefixHash: consistent hashing with bounded loads on the head of the prompt."""

from dataclasses import dataclass
from typing import ClassVar

from policies._bounded import limit_of
from policies._content import Content, cut
from policies._hash_ring import HashRing
from policies._hashes import content_u64, xxh64_u64
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class PrefixHash(Policy):
    """From the head's place on the ring clockwise, the first endpoint whose load is within the bound.

    The key is the first ``prefix_char_length`` characters of the first user message (or of the prompt). Ring of
    ``replication`` points an endpoint at xxHash64 of ``{name}{i}``; here the address is the name. An endpoint may
    serve while ``in flight <= mean_load_percentage / 100 * (total + 1) / N``, or while the total is 0; if none may,
    the first one visited does. Cost O(endpoints) for the total, and one bisection.

    Source: substratusai/kubeai ``internal/loadbalancer/balance_chwbl.go`` at 2f32ef498. Characters are not known here,
    so which endpoint a head maps to is arbitrary; equal heads map alike. Left out: adapters. Where the first user
    message begins is not known either: ``system_tokens`` says how much comes before it.
    Known pathologies: 100 characters of a common opening make all prompts one key, spread by the bound alone; two
    turns of a session agree in their first message, so sessions stick, and so do all samples of a group.
    Checked against: the description, by decision tables.
    """

    mean_load_percentage: float = 125
    """Percentage of the average load up to which an endpoint may serve."""
    replication: int = 256
    """Points of each endpoint on the ring."""
    prefix_char_length: int = 100
    """Characters of the head that are hashed."""
    system_tokens: int = 0
    """Tokens of a chat prompt before its first user message, which the product skips."""

    reads_content = True
    deciders: ClassVar[Led] = {"mean_load_percentage": ("spill",)}

    def __post_init__(self) -> None:
        self.refuse_negative("mean_load_percentage", "replication", "prefix_char_length", "system_tokens")
        if self.replication < 1:
            raise ValueError(f"replication must be one or more, not {self.replication}")
        self._ring = HashRing(self.replication, _label, xxh64_u64)

    def start(self, fleet: FleetView) -> None:
        """Put the endpoints on the ring."""
        self._ring.build(fleet.engines)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Add its points."""
        self._ring.build(fleet.engines)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Remove its points."""
        self._ring.build(fleet.engines)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the head and the bound."""
        if not fleet.available:
            return None, "no_engine", 0
        key = f"{content_u64(self._head(request)):016x}"
        engine, is_own = self._ring.find_within(key, limit_of(fleet.available, self.mean_load_percentage / 100))
        assert engine is not None, "an engine is available"
        return engine, "ring" if is_own else "spill", 0

    def _head(self, request: RequestView) -> Content:
        """The head of the first user message; a token counts if its first character is in the head."""
        skipped = self.system_tokens if request.encoding == "chat" else 0
        head = cut(request.content, skipped + int(-(-self.prefix_char_length // request.chars_per_token)))
        return _drop(head, skipped)


def _drop(content: Content, tokens: int) -> Content:
    """The content without its first tokens, told apart by where it was cut."""
    spans = []
    for source, length in content:
        if tokens < length:
            spans.append((source, tokens))
            spans.append((source, length))
        tokens = max(0, tokens - length)
    return tuple(spans)


def _label(url: str, point: int) -> str:
    return f"{url}{point}"
