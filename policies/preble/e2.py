"""Preble's E2: exploit a prefix where it is the larger part of a prompt, else explore for the cheapest GPU."""

from dataclasses import dataclass
from typing import ClassVar

from policies._content_tree import ContentTree, Node
from policies._node_window import NodeWindow
from policies._prefill_time import A6000
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_DECODE_TOKENS = 45
_SEEN = "seen"

Nodes = Node[str]


@dataclass
class E2(Policy):
    """The GPUs of the nearest allocated node if a prompt's new part is the smaller one; else the GPU of lowest cost.

    State: a radix tree over all prompts; each node has the GPUs it is allocated to and its requests under way by GPU.
    The new part of a prompt is its last node. If that is shorter than what comes before (strict), the prompt goes to
    the GPUs of the nearest node above that has any (none: all GPUs); of several, the one of lowest cost. Otherwise to
    the GPU of lowest cost. The last node and all above it are allocated to the GPUs it went to, all of them.

    Cost of a GPU in seconds, over the nodes that had requests in the last ``window_s`` (of each request, the lowest
    node on its path that is longer than all before it) and are allocated to it: ``share of new tokens * requests *
    prefill time / GPUs of the node + requests under way there * output tokens * time_per_token_s``. A node without
    requests in the window is no longer allocated. The window slides after each choice: the first one after a pause sees
    the costs from before it; the share of new tokens is that of the node's last request.

    With several GPUs the place of the cheapest within the set is taken for the GPU's number, as in the source;
    ``index_fix`` takes the cheapest itself. Cost O(nodes in the window).

    Source: WukLab/preble ``multi_node/global_scheduler_with_time.py`` at 0c962c4cf. Prefill times are those of an
    A6000 with Mistral 7B, whatever runs. Output tokens are the request's limit (45 without one), since a router here
    is not told the lengths and times of answers; the eviction cost (off by default) and rebalancing (commented out
    there) are left out. The product knows no failures: a GPU that is down is replaced by the cheapest that is up.
    Known pathologies: load is counted in a three-minute window by fitted times; sets of GPUs grow with every
    exploitation, so common prefixes end up on all; with the index as it is, sets without the first GPUs send work to
    GPUs outside them.
    Checked against: decision tables from the source.
    """

    window_s: float = 180.0
    """Seconds for which a request counts in the costs."""
    time_per_token_s: float = 0.15
    """Seconds that an output token takes."""
    index_fix: bool = False
    """Take the cheapest GPU of a set, not the GPU that has its place as a number."""

    reads_content: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.refuse_negative("window_s", "time_per_token_s")
        self._tree: ContentTree[str] = ContentTree()
        self._window = NodeWindow(self.window_s)
        self._gpus: dict[Nodes, list[EngineView]] = {}
        """GPUs that a node is allocated to, in the order of their numbers."""
        self._active: dict[Nodes, dict[EngineView, int]] = {}
        self._leaves: dict[int, list[Nodes]] = {}
        """Last nodes of requests under way, one for each attempt."""
        self._leaf: Nodes = self._tree.root

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """No node is allocated to it any more."""
        self._gpus = {node: [gpu for gpu in gpus if gpu is not engine] for node, gpus in self._gpus.items()}

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """Count it on its path."""
        self._leaves.setdefault(request.id, []).append(self._leaf)
        self._count(self._leaf, engine, 1)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """Uncount it."""
        leaves = self._leaves.get(request.id)
        if not leaves:
            return
        self._count(leaves.pop(0), engine, -1)
        if not leaves:
            del self._leaves[request.id]

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Exploit or explore."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        leaf, matched = self._insert(request)
        total, new = request.prompt_tokens, leaf.size
        if new < total - new:
            chosen, branch = self._allocated(leaf) or list(fleet.engines), "exploit"
        else:
            chosen, branch = [_cheapest(available, self._costs(available))], "explore"
        engine = self._take(chosen, fleet)
        important, depth = _important(leaf, total)
        self._window.add(now, important, depth, total, new, request.max_tokens or _DECODE_TOKENS)
        for node in self._window.expire(now):
            self._gpus.pop(node, None)
        above: Nodes | None = leaf
        while above is not None:
            known = self._gpus.get(above, [])
            self._gpus[above] = sorted({*known, *chosen}, key=lambda gpu: gpu.index)
            above = above.parent
        self._leaf = leaf
        return engine, branch, matched

    def _insert(self, request: RequestView) -> tuple[Nodes, int]:
        """The node where the prompt ends, made if need be, and the tokens that were known."""
        place = self._tree.find(request.content)
        lower = place[0] if place[1] < place[0].size else None
        place = self._tree.split(place)
        if lower is not None:
            upper = place[0]
            self._gpus[upper] = list(self._gpus.get(lower, []))
            self._active[upper] = dict(self._active.get(lower, {}))
            depth = place[4]
            if _is_large(upper, depth) and not _is_large(lower, depth + lower.size):
                self._window.rename(lower, upper)
        return self._tree.attach(place, request.content, _SEEN), place[4]

    def _allocated(self, node: Nodes | None) -> list[EngineView]:
        """GPUs of the nearest node, from here up, that has any."""
        while node is not None:
            gpus = self._gpus.get(node)
            if gpus:
                return gpus
            node = node.parent
        return []

    def _take(self, chosen: list[EngineView], fleet: FleetView) -> EngineView:
        """One GPU of the set."""
        if len(chosen) == 1:
            engine = chosen[0]
        else:
            costs = self._costs(chosen)
            cheapest = _cheapest(chosen, costs)
            numbered = sorted(fleet.engines, key=lambda gpu: gpu.index)
            engine = cheapest if self.index_fix else numbered[chosen.index(cheapest)]
        return engine if engine.is_available else _cheapest(fleet.available, self._costs(fleet.available))

    def _costs(self, engines: list[EngineView]) -> dict[EngineView, float]:
        """Seconds of work of each GPU, as far as the window knows."""
        costs = dict.fromkeys(engines, 0.0)
        for node, visits in self._window.visits.items():
            gpus = self._gpus.get(node)
            if not gpus:
                continue
            prefill = visits.prefill_s(node, A6000, visits.misses) / len(gpus)
            active = self._active.get(node, {})
            for gpu in gpus:
                if gpu in costs:
                    costs[gpu] += prefill + active.get(gpu, 0) * visits.decode * self.time_per_token_s
        return costs

    def _count(self, node: Nodes | None, engine: EngineView, change: int) -> None:
        while node is not None:
            active = self._active.setdefault(node, {})
            active[engine] = active.get(engine, 0) + change
            node = node.parent


def _is_large(node: Nodes, depth: int) -> bool:
    """Whether a node is longer than all that comes before it."""
    return node.size > depth - node.size


def _important(leaf: Nodes, depth: int) -> tuple[Nodes, int]:
    """The lowest node on the path, from the leaf up, that is longer than all before it, and where it ends."""
    node = leaf
    while node.parent is not None and not _is_large(node, depth):
        depth -= node.size
        node = node.parent
    return node, depth


def _cheapest(engines: list[EngineView], costs: dict[EngineView, float]) -> EngineView:
    return min(engines, key=lambda engine: costs[engine])
