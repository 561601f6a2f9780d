"""Cache-aware routing of smg 1.13.0: the least loaded engine that knows the prefix, unless it is far above the mean."""

import math
from dataclasses import dataclass
from typing import ClassVar

from policies._content import Content, cut
from policies._content_tree import ContentTree, Node
from policies._load import random_least
from policies._passes import Passes
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView

_PAGE = 16


@dataclass
class CacheAware(Policy):
    """The least loaded tenant of the prompt's prefix, if not far above the mean load; else the least loaded of all.

    In this order:

    1. matched share of the prompt ``> cache_threshold`` (strict): of all available tenants of the deepest node reached
       the least loaded, ties uniform. If its load exceeds ``balance_rel_threshold * m`` and
       ``m + min(balance_abs_threshold, max(4, ceil(2 * sqrt(m))))`` (both strict), m being the mean load of available
       engines, the least loaded engine of all serves instead, ties uniform.
    2. otherwise, or if no tenant is available: the least loaded engine, ties uniform.

    The prompt is inserted for whoever was taken. Texts and token ids have a tree each; ids match in whole pages of 16
    tokens, so shorter prompts always miss. Every ``eviction_interval_secs`` each tree is cut to ``max_tree_size`` in
    all, oldest leaves first. Cost O(engines + nodes on the prompt's path). The product counts characters of texts;
    here tokens stand for them at ``chars_per_token`` each.

    Source: measured on smg 1.13.0; smg-project/smg ``model_gateway/src/policies/cache_aware.rs`` and
    ``crates/kv_index/src`` at f8daa8835. Left out: the modes with KV events, hash index, load reports.
    Known pathologies: the margin is measured against the mean, so a hot prefix spreads to one more engine only when its
    owners are far above it, and cold engines stay cold; on misses it is least load.
    Checked against: recorded decisions: sequential, under load, imbalance, spill margin, one hot prefix, two owners,
    threshold edges, unicode, chat, token ids, churn and eviction; counts on an idle pool.
    """

    cache_threshold: float = 0.3
    """Share of the prompt, 0..1, above which engines that know it are preferred."""
    balance_abs_threshold: int = 64
    """Most requests above the mean load that an engine with the prefix may have."""
    balance_rel_threshold: float = 1.5
    """Times the mean load that it may have in any case."""
    eviction_interval_secs: float = 60
    """Seconds between eviction passes; 0: never."""
    max_tree_size: int = 1 << 26
    """Characters, or tokens, that a tree may hold for all engines together."""

    reads_content: ClassVar[bool] = True
    arbitrary_order: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "smg.least_load"
    deciders: ClassVar[Led] = {"balance_abs_threshold": ("spill",), "balance_rel_threshold": ("spill",)}
    vetoes: ClassVar[Led] = {"cache_threshold": ("miss",)}

    def __post_init__(self) -> None:
        self.refuse_negative("cache_threshold", "balance_abs_threshold", "balance_rel_threshold")
        self.refuse_negative("eviction_interval_secs", "max_tree_size")
        self._texts: ContentTree[EngineView] = ContentTree()
        self._ids: ContentTree[EngineView] = ContentTree()
        self._passes = Passes(self.eviction_interval_secs)

    def start(self, fleet: FleetView) -> None:
        """Make all engines tenants of the empty prompt."""
        for engine in fleet.engines:
            self.joined(engine, fleet)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Make it a tenant of the empty prompt."""
        self._texts.insert((), engine)
        self._ids.insert((), engine)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Delete it from every node."""
        self._texts.remove(engine)
        self._ids.remove(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose an engine that knows the prefix and is not far above the mean, or the least loaded one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if self._passes.are_due(now):
            self._texts.evict_all(self.max_tree_size / request.chars_per_token)
            self._ids.evict_all(self.max_tree_size)
        if request.encoding == "input_ids":
            tree, content = self._ids, cut(request.content, request.prompt_tokens // _PAGE * _PAGE)
            node, matched = _whole_pages(tree, content)
        else:
            tree, content = self._texts, request.content
            place = tree.find(content)
            node, matched = place[0], place[4]
        engine, branch = self._decide(node, matched, request.prompt_tokens, available, pick)
        tree.insert(content, engine)
        return engine, branch, matched

    def _decide(
        self, node: Node[EngineView], matched: int, tokens: int, available: list[EngineView], pick: Pick
    ) -> tuple[EngineView, str]:
        if matched and matched / tokens > self.cache_threshold:
            owners = [engine for engine in available if engine in node.tenants]
            if owners:
                owner = random_least(owners, pick)
                if not self._is_far_above(owner.in_flight, available):
                    return owner, "hit"
                return random_least(available, pick), "spill"
        return random_least(available, pick), "miss"

    def _is_far_above(self, load: int, available: list[EngineView]) -> bool:
        total = 0
        for engine in available:
            total += engine.in_flight
        mean = total / len(available)
        margin = min(self.balance_abs_threshold, max(4, math.ceil(2 * math.sqrt(mean))))
        return load > self.balance_rel_threshold * mean and load > mean + margin


def _whole_pages(tree: ContentTree[EngineView], content: Content) -> tuple[Node[EngineView], int]:
    """The deepest node that whole pages of the content reach, and their tokens."""
    place = tree.find(content)
    pages = place[4] // _PAGE * _PAGE
    if pages == place[4]:
        return place[0], pages
    return tree.find(cut(content, pages))[0], pages
