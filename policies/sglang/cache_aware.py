"""Cache-aware routing of sglang-router 0.3.2: a prefix belongs to whoever sent it first."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._content_tree import ContentTree
from policies._costs import random_lowest
from policies._load import first_least, is_uneven
from policies._passes import Passes
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class CacheAware(Policy):
    """The prefix's owner if enough of the prompt is known; the least loaded engine if not, or while the pool is uneven.

    State: one prefix tree over what was sent to whom. In this order:

    1. ``max - min > balance_abs_threshold`` and ``max > balance_rel_threshold * min`` (both strict, of requests in
       flight on available engines): the least loaded engine, first on a tie; the prompt is inserted for it.
    2. matched share of the prompt ``> cache_threshold`` (strict): the remembered tenant of the deepest node reached;
       inserted for it. If it is unavailable it is deleted from the whole tree, the first available engine is taken
       and nothing inserted.
    3. otherwise the least loaded engine, first on a tie; inserted for it. Up to 0.2.3 (sgl-project/sglang pull request
       14650) it was the one with the smallest tree, and the first available one if that was down.

    Cost O(engines + nodes on the prompt's path). The product counts characters; here tokens stand for them at
    ``chars_per_token`` each, so shares are equal and only the tree's size is converted. Decimal ids that start with the
    same digit share characters in the product; that partial agreement is left out.

    Source: smg-project/smg ``src/policies/cache_aware.rs`` and ``tree.rs`` at c7f9bf9f5 (sglang-router 0.3.2). Which
    tenant answers where the remembered one is gone depends on a hash map's order there, and is random here.
    Known pathologies: on an idle pool every miss goes to the first engine (400 of 400); siblings and sessions with a
    common system prompt over the threshold are one family on one engine until the spread exceeds 64; while it does,
    no request gets locality. Up to 0.2.3 misses go to the engine with the smallest tree, however long its queue is:
    one that serves few long prompts for long is sent everything.
    Checked against: recorded decisions: sequential, under load, imbalance, two owners, threshold edges, unicode,
    chat, token ids, churn and eviction.
    """

    cache_threshold: float = 0.3
    """Share of the prompt, 0..1, above which its owner is preferred."""
    balance_abs_threshold: int = 64
    """Requests between the most and the least loaded engine above which the pool may be uneven."""
    balance_rel_threshold: float = 1.5
    """Ratio of the most to the least loaded engine above which it may be."""
    eviction_interval_secs: float = 60
    """Seconds between eviction passes; 0: never."""
    max_tree_size: int = 1 << 26
    """Characters of its own that each engine may keep in the tree."""
    miss: Literal["least_loaded", "smallest_tree"] = "least_loaded"
    """Where a miss goes; ``smallest_tree``, of all engines, is the rule up to 0.2.3."""

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
        """Choose the least loaded engine, or the owner of the prompt's prefix."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        tree, content = self._tree, request.content
        if self._passes.are_due(now):
            tree.evict(self.max_tree_size / request.chars_per_token)
        place = tree.find(content)
        if is_uneven(available, self.balance_abs_threshold, self.balance_rel_threshold):
            engine = first_least(available)
            tree.attach(place, content, engine)
            return engine, "imbalanced", 0
        node, matched = place[0], place[4]
        owner = tree.touch(node, pick)
        if owner is not None and matched > 0 and matched / request.prompt_tokens > self.cache_threshold:
            if not owner.is_available:
                tree.remove(owner)
                return available[0], "stale_owner", matched
            tree.attach(place, content, owner)
            return owner, "hit", matched
        engine = first_least(available) if self.miss == "least_loaded" else self._smallest(fleet, pick)
        if not engine.is_available:
            return available[0], "smallest_down", matched
        tree.attach(place, content, engine)
        return engine, "miss", matched

    def _smallest(self, fleet: FleetView, pick: Pick) -> EngineView:
        """The engine with the smallest tree, available or not; of equal ones any."""
        return random_lowest(fleet.engines, lambda engine: self._tree.sizes.get(engine, 0), pick)
