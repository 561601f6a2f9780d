"""The order in which an SGLang engine looks at its waiting queue, and whom it holds back behind a sibling.

========== ============================================================================================================
fcfs       as they came, retracted requests at the end
lpm        longest cached prefix first; as they came while more than 128 wait
dfs-weight the order of the tree, deepest first, of two branches the one below which more requests wait
lof        largest token limit first
random     shuffled at every decision
routing-key keys that are frequent among the running requests first, then the others by key
========== ============================================================================================================

``lpm`` and ``dfs-weight`` match every waiting request at every decision, which refreshes what they match. A request
that matches little in the cache and shares more with one before it in the queue is a sibling: ``lpm`` puts siblings at
the end of the queue, where what is left of the budgets may still take them, as the product does. With visibility
``deferred`` they are held: they take no part in the decision.

Source: sgl-project/sglang ``python/sglang/srt/managers/schedule_policy.py`` (``SchedulePolicy``).
Left out: priorities, ``hrrn`` and ``shortest-prefill-first``.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from policies._content import Content, common_prefix
from sim.engine._decodes import FAR
from sim.engine._tree import Node
from sim.engine.radix_cache import RadixCache
from sim.engine.request import Request
from sim.engine.spec import KEY_HEADER, EngineSpec

MOST_MATCHED = 128
"""``lpm``: more waiting requests than this are not matched."""
IN_BATCH_TOKENS = 32
"""IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD and ..._DEPRIORITIZE_THRESHOLD."""

Shuffle = Callable[[list[Request]], None]
NOBODY: frozenset[Request] = frozenset()


class QueueOrder:
    """Sorts the waiting queue of one engine before each decision."""

    def __init__(self, spec: EngineSpec, cache: RadixCache, shuffle: Shuffle | None) -> None:
        if spec.queue_order == "random" and shuffle is None:
            raise ValueError("queue_order random needs a source of chance")
        self.name = spec.queue_order
        self.cache = cache
        self.shuffle = shuffle
        self.holds = spec.visibility == "deferred"
        check, defer = spec.in_batch_check_tokens, spec.in_batch_defer_tokens
        self.check = IN_BATCH_TOKENS if check is None else check
        self.defer = IN_BATCH_TOKENS if defer is None else defer

    def skips(self, waiting: int) -> bool:
        """Whether a decision that admits nobody leaves no trace: it neither matches nor shuffles the queue."""
        if self.name == "lpm" and waiting > MOST_MATCHED:
            return True
        return self.name != "random" and not self._is_matching

    @property
    def can_overtake(self) -> bool:
        """Whether a request may come before others that have waited longer, without being matched or shuffled."""
        return self.name in ("lof", "routing-key")

    @property
    def _is_matching(self) -> bool:
        return self.holds or self.name in ("lpm", "dfs-weight")

    def arrange(self, waiting: deque[Request], running: Iterable[Request]) -> frozenset[Request]:
        """Sort the queue in place; returns who is held back this time."""
        if self.name == "lpm" and len(waiting) > MOST_MATCHED:
            return NOBODY
        queue = list(waiting)
        siblings: set[Request] = set()
        hits: dict[Request, tuple[Node, int]] = {}
        if self._is_matching:
            for request in queue:
                hits[request] = self.cache.find(request, request.target)
            siblings = self._siblings(hits)
        if self.name == "lpm":
            queue.sort(key=lambda each: FAR if each in siblings else -min(hits[each][1], each.target - 1))
        elif self.name == "dfs-weight":
            queue = by_tree(self.cache, queue, [hits[request] for request in queue])
        elif self.name == "lof":
            queue.sort(key=lambda each: -each.max_tokens)
        elif self.name == "random":
            assert self.shuffle is not None
            self.shuffle(queue)
        elif self.name == "routing-key":
            queue = by_key(queue, running)
        waiting.clear()
        waiting.extend(queue)
        return frozenset(siblings) if self.holds else NOBODY

    def _siblings(self, hits: dict[Request, tuple[Node, int]]) -> set[Request]:
        """Requests that find little in the cache and share more with one before them that is no sibling itself."""
        siblings: set[Request] = set()
        firsts: dict[int, list[Content]] = {}
        for request, (_, hit) in hits.items():
            if hit <= self.check:
                others = firsts.setdefault(request.content[0][0], [])
                if any(common_prefix(request.content, other) >= self.defer for other in others):
                    siblings.add(request)
                else:
                    others.append(request.content)
        return siblings


def by_key(queue: list[Request], running: Iterable[Request]) -> list[Request]:
    """Requests whose key runs, most frequent first; then the others by key."""
    counts = Counter(key for request in running if (key := key_of(request)))
    if not counts:
        return queue

    def place(request: Request) -> tuple[int, str]:
        key = key_of(request)
        return -counts[key], key

    return sorted(queue, key=place)


def key_of(request: Request) -> str:
    """Routing key of a request, empty if it carries none."""
    return request.view.headers.get(KEY_HEADER, "")


def by_tree(cache: RadixCache, queue: Sequence[Request], hits: Sequence[tuple[Node, int]]) -> list[Request]:
    """Depth first: heavier branches first, of equals the one inserted first; who ends at a branch comes after it."""
    root = cache.root
    here: dict[Node, list[Request]] = {}
    weights: Counter[Node] = Counter()
    below: dict[Node, list[Node]] = {}
    for request, (node, hit) in zip(queue, hits, strict=True):
        node = cache.owner(node, hit)
        here.setdefault(node, []).append(request)
        while node is not root:
            weights[node] += 1
            above = cache.above(node)
            if weights[node] == 1:
                below.setdefault(above, []).append(node)
            node = above
    backwards: list[Request] = []
    stack = [root]
    while stack:
        node = stack.pop()
        backwards += reversed(here.get(node, ()))
        stack += sorted(below.get(node, ()), key=lambda each: (-weights[each], each.born))
    return backwards[::-1]
