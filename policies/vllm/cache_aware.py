"""Cache-aware routing of vllm-router 0.1.17: any engine that has seen the prefix, the least loaded of them."""

from dataclasses import dataclass
from typing import ClassVar

from policies._content_tree import ContentTree, Node
from policies._load import first_least, is_uneven
from policies._passes import Passes
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class CacheAware(Policy):
    """Least loaded of the engines that know enough of the prompt, or of all; of all, too, while the pool is uneven.

    For chat the router has an engine tokenize the prompt and matches token ids in a prefix tree. In this order:

    1. ``max - min > balance_abs_threshold`` and ``max > balance_rel_threshold * min`` (both strict, of requests in
       flight on available engines): the least loaded engine, first on a tie.
    2. matched share of the prompt ``> cache_threshold`` (strict): the least loaded of **all** tenants of the deepest
       node reached, first in the router's order on a tie.
    3. otherwise, or if none of those is available: the least loaded engine, first on a tie.

    The prompt is inserted for whoever was taken. Prompts that are not chat are not tokenized: plain least load, nothing
    inserted. Cost O(engines + nodes on the prompt's path).

    Source: the rule was measured on vllm-router 0.1.17; thresholds and tree as in vllm-project/router
    ``src/policies/cache_aware.rs`` at 2f2db0d9a. Left out: the exact session map of later versions, and the time that
    tokenizing takes.
    Known pathologies: without working tokenization it is least load, silently; a session header does not keep a
    session; on an idle pool every miss goes to the first engine.
    Checked against: recorded decisions: chat, sequential, under load, imbalance, with session headers, and
    ``/generate``.
    """

    cache_threshold: float = 0.3
    """Share of the prompt, 0..1, above which engines that know it are preferred."""
    balance_abs_threshold: int = 64
    """Requests between the most and the least loaded engine above which the pool may be uneven."""
    balance_rel_threshold: float = 1.5
    """Ratio of the most to the least loaded engine above which it may be."""
    eviction_interval_secs: float = 120
    """Seconds between eviction passes; 0: never."""
    max_tree_size: int = 1 << 25
    """Tokens of its own that each engine may keep in the tree."""
    can_tokenize: bool = True
    """Whether engines answer the router's requests to tokenize."""

    reads_content: ClassVar[bool] = True
    arbitrary_order: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "least_load"
    deciders: ClassVar[Led] = {"balance_abs_threshold": ("imbalanced",), "balance_rel_threshold": ("imbalanced",)}
    vetoes: ClassVar[Led] = {"cache_threshold": ("miss",)}

    def __post_init__(self) -> None:
        self.refuse_negative("cache_threshold", "balance_abs_threshold", "balance_rel_threshold")
        self.refuse_negative("eviction_interval_secs", "max_tree_size")
        self._tree: ContentTree[EngineView] = ContentTree()
        self._passes = Passes(self.eviction_interval_secs)

    def start(self, fleet: FleetView) -> None:
        """Make all engines tenants of the empty prompt."""
        for engine in fleet.engines:
            self._tree.insert((), engine)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Make it a tenant of the empty prompt."""
        self._tree.insert((), engine)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Delete it from every node."""
        self._tree.remove(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the least loaded engine, of those that know the prompt's prefix if there are any."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if request.encoding != "chat" or not self.can_tokenize:
            return first_least(available), "not_tokenized", 0
        tree, content = self._tree, request.content
        if self._passes.are_due(now):
            tree.evict(self.max_tree_size)
        place = tree.find(content)
        engine, branch, matched = self._decide(place[0], place[4], request.prompt_tokens, available)
        tree.attach(place, content, engine)
        return engine, branch, matched

    def _decide(
        self, node: Node[EngineView], matched: int, tokens: int, available: list[EngineView]
    ) -> tuple[EngineView, str, int]:
        if is_uneven(available, self.balance_abs_threshold, self.balance_rel_threshold):
            return first_least(available), "imbalanced", 0
        if matched and matched / tokens > self.cache_threshold:
            owners = [engine for engine in available if engine in node.tenants]
            if owners:
                return first_least(owners), "hit", matched
        return first_least(available), "miss", matched
