"""AIBrix ``prefix-cache-preble``."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._content_tree import ContentTree, Node
from policies._costs import lowest
from policies._load import all_least
from policies._node_window import NodeWindow
from policies._prefill_time import A6000, V100
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_THRESHOLD = 0.5


@dataclass
class PrefixCachePreble(Policy):
    """Pods of the deepest known node if over half of the prompt is known, fewest requests first; else the lowest cost.

    While running requests of the pods are more than ``imbalance_abs`` apart (strict), only those with fewest are
    candidates. State: a radix tree over prompts and their pods. Matched share ``> 0.5`` (strict): of the available pods
    at the deepest node that has any, the one with fewest requests in the window, ties uniform; a request of a node
    counts for each of its pods. Otherwise, or without such a pod: the pod of lowest cost, first on a tie. Cost of a pod
    in seconds, over the nodes where requests of the last ``sliding_window_minutes`` ended and that it has: ``share of
    new tokens * requests * prefill time / pods of the node + decoding_length * 0.15``. The prompt's node and all above
    it get the chosen pod. Cost O(nodes in the window * pods).

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/prefix_cache_preble.go`` at e3e10f9e4. Prefill times
    are those of Mistral 7B on the named GPU. Left out: eviction of old nodes from the tree.
    Known pathologies: load is what was sent in three minutes, not what is under way: finished requests count as much
    as queued ones; a common prefix of over half goes to few pods.
    Checked against: decision tables from the source.
    """

    target_gpu: Literal["V100", "A6000"] = "V100"
    """GPU whose prefill times are used."""
    decoding_length: int = 45
    """Output tokens that a request is taken for."""
    sliding_window_minutes: float = 3
    """Minutes for which a request counts."""
    imbalance_abs: int = 8
    """Running requests between extremes above which only the least loaded pods are candidates."""

    reads_content: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.refuse_negative("decoding_length", "sliding_window_minutes", "imbalance_abs")
        self._tree: ContentTree[EngineView] = ContentTree()
        self._window = NodeWindow(60 * self.sliding_window_minutes)
        self._time = V100 if self.target_gpu == "V100" else A6000

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Delete it from every node."""
        self._tree.remove(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by match or by cost."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        self._window.expire(now)
        running = [pod.in_flight for pod in available]
        if is_uneven := max(running) - min(running) > self.imbalance_abs:
            available = all_least(available)
        place = self._tree.split(self._tree.find(request.content))
        matched, total = place[4], request.prompt_tokens
        pods = _pods_of(place[0], available) if matched > _THRESHOLD * total else []
        if pods:
            loads = self._loads(pods)
            least = min(loads.values())
            tied = [pod for pod in pods if loads[pod] == least]
            engine, branch = (tied[0] if len(tied) == 1 else pick(tied)), "match"
        else:
            costs = self._costs(available)
            cheapest = lowest(available, costs.__getitem__)
            # The candidates of an uneven pool come in an arbitrary order.
            engine, branch = (pick(cheapest) if is_uneven and len(cheapest) > 1 else cheapest[0]), "cost"
        node = self._tree.attach(place, request.content, engine)
        self._window.add(now, node, total, total, node.size, self.decoding_length)
        return engine, branch, matched

    def _loads(self, pods: list[EngineView]) -> dict[EngineView, int]:
        """Requests in the window of all nodes that each pod has."""
        loads = dict.fromkeys(pods, 0)
        for node, visits in self._window.visits.items():
            for pod in pods:
                if pod in node.tenants:
                    loads[pod] += visits.count
        return loads

    def _costs(self, pods: list[EngineView]) -> dict[EngineView, float]:
        """Seconds of work of each pod, as far as the window knows."""
        costs = dict.fromkeys(pods, 0.0)
        for node, visits in self._window.visits.items():
            if not node.tenants:
                continue
            seconds = visits.prefill_s(node, self._time, visits.misses_now) / len(node.tenants) + visits.decode * 0.15
            for pod in pods:
                if pod in node.tenants:
                    costs[pod] += seconds
        return costs


def _pods_of(node: Node[EngineView] | None, available: list[EngineView]) -> list[EngineView]:
    """Available pods at the nearest node, from here up, that has any."""
    while node is not None:
        pods = [pod for pod in available if pod in node.tenants]
        if pods:
            return pods
        node = node.parent
    return []
