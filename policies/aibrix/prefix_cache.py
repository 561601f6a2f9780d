"""AIBrix ``prefix-cache``."""

from dataclasses import dataclass
from statistics import stdev
from typing import ClassVar

from policies._load import random_least
from policies._prefix_index import PrefixIndex
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class PrefixCache(Policy):
    """The best prefix match that is not much busier than the mean; without one the fewest running requests.

    In this order, over the available pods:

    1. ``max - min > imbalance`` of running requests (strict): only the pods with fewest are candidates.
    2. Candidates with a match, by matched percentage (whole percent, highest first), equal ones by running requests,
       equal ones again at random: the first with ``running <= mean + factor * standard deviation`` over all pods (of
       the sample: divided by pods - 1).
    3. none: the pod with fewest running requests, ties uniform.

    The prompt is noted for whoever was taken: blocks of ``block_chars`` characters, at most ``capacity_blocks`` of
    them for all pods together, each dropped 20 minutes after its last use. Cost O(pods + nodes on the prompt's path).

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/prefix_cache.go`` at e3e10f9e4. The capacity is split
    evenly over the pods here.
    Known pathologies: the gate of step 1 ends locality for all while one pod is 9 requests ahead; with two pods the
    busier is always within a standard deviation: ``(a - b) / 2`` above the mean, which is ``(a - b) / sqrt(2)``.
    Checked against: decision tables from the source; where prompts share nothing, least load with random ties.
    """

    imbalance_abs: int = 8
    """Running requests between extremes above which only the least loaded pods are candidates."""
    std_dev_factor: float = 1.0
    """Standard deviations above the mean up to which a matched pod serves."""
    block_chars: int = 4
    """Characters of a block."""
    capacity_blocks: int = 200_000
    """Blocks that the index holds."""
    ttl_s: float = 1200.0
    """Seconds after its last use when a block is dropped."""

    reads_content: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "aibrix.least_request"

    def __post_init__(self) -> None:
        self.refuse_negative("imbalance_abs", "std_dev_factor", "block_chars", "capacity_blocks", "ttl_s")
        self._index: PrefixIndex | None = None

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Drop what was noted for it."""
        if self._index is not None:
            self._index.forget([engine])

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by match, or by load."""
        pods = fleet.available
        if not pods:
            return None, "no_engine", 0
        index = self._index = self._index or self._make_index(request.chars_per_token, len(fleet.engines))
        matched = index.match(request.content, now)
        engine = self._best_match(request, pods, matched, index, pick)
        branch = "match" if engine else "match_too_busy" if any(pod in matched for pod in pods) else "no_match"
        chosen = engine or random_least(pods, pick)
        index.add(request.content, chosen, now)
        return chosen, branch, int(matched.get(chosen, 0))

    def _make_index(self, chars_per_token: float, pods: int) -> PrefixIndex:
        """Blocks of at least one token: what is smaller cannot be told apart here."""
        tokens = max(self.block_chars / chars_per_token, 1.0)
        return PrefixIndex(tokens, capacity_tokens=self.capacity_blocks * tokens / pods, ttl_s=self.ttl_s)

    def _best_match(
        self,
        request: RequestView,
        pods: list[EngineView],
        matched: dict[EngineView, float],
        index: PrefixIndex,
        pick: Pick,
    ) -> EngineView | None:
        running = [pod.in_flight for pod in pods]
        least, most = min(running), max(running)
        is_uneven = most - least > self.imbalance_abs
        deviation = stdev(running) if len(running) > 1 else 0.0
        limit = sum(running) / len(running) + self.std_dev_factor * deviation
        blocks = max(request.prompt_tokens // index.block_tokens, 1)
        ranked: dict[tuple[int, int], list[EngineView]] = {}
        for pod in pods:
            tokens = matched.get(pod, 0.0)
            if tokens and pod.in_flight <= limit and (not is_uneven or pod.in_flight == least):
                percent = int(100 * (tokens // index.block_tokens) / blocks)
                ranked.setdefault((-percent, pod.in_flight), []).append(pod)
        if not ranked:
            return None
        best = ranked[min(ranked)]
        chosen: EngineView = best[0] if len(best) == 1 else pick(best)
        return chosen
