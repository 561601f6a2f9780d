"""Ray Serve LLM's PrefixCacheAffinityRouter."""

from dataclasses import dataclass
from typing import ClassVar

from policies._content_tree import ContentTree, Node
from policies._load import first_least
from policies._passes import Passes
from policies._protocol import Choice, EngineView, FleetView, Led, Pick, Policy, RequestView


@dataclass
class PrefixAware(Policy):
    """Replicas that know a tenth of the prompt, else those with the smallest tree; of these the shortest queue.

    In this order, over the available replicas:

    1. ``max - min > imbalanced_threshold`` of the queue lengths (strict; null: never): two random replicas, the
       shorter queue, the first drawn on a tie.
    2. matched share of the prompt ``>= match_rate_threshold``: the replicas at the deepest node that any available one
       has.
    3. otherwise the replicas with the fewest characters in the tree, of all that are in it; if none of those is
       available, two random ones as in 1.

    Of the set the shortest queue serves, first in order on a tie. The prompt is inserted for it. Eviction, off by
    default: every ``eviction_interval_secs`` a replica with more than ``eviction_threshold_chars`` is cut to
    ``eviction_target_chars``, oldest first. Cost O(replicas + nodes on the prompt's path).

    Source: ray-project/ray ``python/ray/llm/_internal/serve/routing_policies/prefix_aware/prefix_aware_router.py`` and
    ``prefix_tree.py`` at 06c16f2f2. The queue length is the router's own count; probing replicas and their limit
    of ongoing requests are left out. Eviction is by leaf here, by node there.
    Known pathologies: load is ignored on a match by default; on an idle pool misses are levelled by characters ever
    sent, not by work under way, and a replica that joins empty gets every miss until it has caught up.
    Checked against: decision tables from the source.
    """

    imbalanced_threshold: float | None = None
    """Queue length between the longest and the shortest above which locality is dropped; null: never."""
    match_rate_threshold: float = 0.1
    """Share of the prompt, 0..1, from which the replicas that know it are preferred."""
    do_eviction: bool = False
    """Whether the tree is ever cut."""
    eviction_threshold_chars: int = 400_000
    """Characters of a replica above which it is cut."""
    eviction_target_chars: int = 360_000
    """Characters that it is cut to."""
    eviction_interval_secs: float = 10
    """Seconds between eviction passes."""

    reads_content: ClassVar[bool] = True
    deciders: ClassVar[Led] = {"imbalanced_threshold": ("imbalanced",)}
    vetoes: ClassVar[Led] = {"match_rate_threshold": ("smallest_tree", "no_candidate")}

    def __post_init__(self) -> None:
        self.refuse_negative("match_rate_threshold", "eviction_threshold_chars", "eviction_target_chars")
        self.refuse_negative("eviction_interval_secs")
        if self.imbalanced_threshold is not None:
            self.refuse_negative("imbalanced_threshold")
        self._tree: ContentTree[EngineView] = ContentTree()
        self._passes = Passes(self.eviction_interval_secs if self.do_eviction else 0)

    def start(self, fleet: FleetView) -> None:
        """Make all replicas tenants."""
        for engine in fleet.engines:
            self._tree.insert((), engine)

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Make it a tenant with nothing."""
        self._tree.insert((), engine)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Delete it from the tree."""
        self._tree.remove(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the shortest queue of the set that the prompt leads to."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if self._passes.are_due(now):
            self._evict(request.chars_per_token)
        engine, branch, matched = self._decide(request, available, pick)
        self._tree.insert(request.content, engine)
        return engine, branch, matched

    def _decide(self, request: RequestView, available: list[EngineView], pick: Pick) -> tuple[EngineView, str, int]:
        if self.imbalanced_threshold is not None:
            queues = [engine.in_flight for engine in available]
            if max(queues) - min(queues) > self.imbalanced_threshold:
                return _better_of_two(available, pick), "imbalanced", 0
        node, matched = self._deepest(request, available)
        if matched / max(request.prompt_tokens, 1) >= self.match_rate_threshold:
            owners = [engine for engine in available if engine in node.tenants]
            return first_least(owners), "match", matched
        least = min(self._tree.sizes.values())
        smallest = [engine for engine in available if self._tree.sizes[engine] == least]
        if smallest:
            return first_least(smallest), "smallest_tree", matched
        return _better_of_two(available, pick), "no_candidate", matched

    def _deepest(self, request: RequestView, available: list[EngineView]) -> tuple[Node[EngineView], int]:
        """The deepest node on the prompt's path that an available replica has, and tokens matched there."""
        place = self._tree.find(request.content)
        node, inside, depth = place[0], place[1], place[4]
        while node.parent is not None and not any(engine in node.tenants for engine in available):
            depth -= inside
            node = node.parent
            inside = node.size
        return node, depth

    def _evict(self, chars_per_token: float) -> None:
        threshold, target = (
            self.eviction_threshold_chars / chars_per_token,
            self.eviction_target_chars / chars_per_token,
        )
        for engine, tokens in list(self._tree.sizes.items()):
            if tokens > threshold:
                self._tree.shrink(engine, target)


def _better_of_two(available: list[EngineView], pick: Pick) -> EngineView:
    """The shorter queue of two random replicas, the first drawn on a tie."""
    count = len(available)
    if count == 1:
        return available[0]
    place: int = pick(range(count))
    one, other = available[place], available[(place + pick(range(1, count))) % count]
    return one if one.in_flight <= other.in_flight else other
