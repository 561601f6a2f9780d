"""llm-d's endpoint picker: a weighted sum of scores, and a picker."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._keys import key_of
from policies._prefix_index import PrefixIndex
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

_BLOCK_TOKENS = 16
_MOST_BLOCKS = 256
_BLOCKS_PER_SERVER = 31_250
_WAITING_LIMIT = 128


@dataclass
class EndpointPicker(Policy):
    """Each scorer gives every pod 0..1; the weighted sum decides: the highest (ties uniform), or a draw.

    - ``prefix_cache``: blocks of the prompt that the pod holds over its blocks. Exact where there are KV events, else
    by the picker's own index: blocks of 16 tokens, the first 256 of a prompt, 31,250 blocks a server, least recently
    used out. - ``queue``: ``(max - waiting) / (max - min)``; 1 where all are equal. ``kv_cache_utilization``: 1 -
    usage. - ``load_aware``: 0.5 if nothing waits, else ``0.5 * (1 - min(waiting, 128) / 128)``. - ``active_request``:
    1 if the picker has nothing in flight there, else ``(max - n) / max * max_busy_score``. - ``session_affinity``: 1
    for the pod that the picker gave this session last (it returns a token that the client sends back in
    ``x-session-token``; here any client with a key does). - ``no_hit_lru``: for prompts that no pod holds any of, pods
    in order of their last such prompt, the longest ago (or never) 1, the latest 0; for others 0.5 everywhere. Pods that
    are down keep their place in that order, and what falls below 0 is 0.

    A pod without metrics counts as empty. ``picker``: ``max_score``, ``random`` (scores do not matter),
    ``weighted_random`` (probability proportional to the score). Cost O(pods + nodes on the prompt's path).

    Source: llm-d/llm-d-inference-scheduler ``pkg/epp/framework/plugins`` at 520af4789; the default weights are those
    of its sample configurations (precise: prefix 10). Left out: saturation filters, profiles for prefill and decode
    pools.
    Known pathologies: queue, load and KV scores are scraped and lag, so a burst of equal prompts herds; equal queues
    score 1, as much as a match; the index does not see evictions.
    Checked against: decision tables from the description; without reports and shared prompts, uniformly random.
    """

    prefix_cache: float = 2.0
    """Weight of the prompt's share that the pod holds."""
    queue: float = 1.0
    """Weight of a short reported queue."""
    kv_cache_utilization: float = 0.0
    """Weight of a low reported KV use."""
    load_aware: float = 0.0
    """Weight of an empty reported queue."""
    active_request: float = 0.0
    """Weight of few requests in flight from this picker."""
    session_affinity: float = 0.0
    """Weight of the session's last pod."""
    no_hit_lru: float = 0.0
    """Weight of not having had a cold prompt for long."""
    max_busy_score: float = 1.0
    """Most that a pod with requests in flight may score in ``active_request``."""
    picker: Literal["max_score", "random", "weighted_random"] = "max_score"
    """How a pod is taken from the scores."""

    key_headers = ("x-session-token", "x-session-id", "x-smg-routing-key")
    reads_content: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "random"

    def __post_init__(self) -> None:
        self.refuse_negative("prefix_cache", "queue", "kv_cache_utilization", "load_aware", "active_request")
        self.refuse_negative("session_affinity", "no_hit_lru", "max_busy_score")
        self._index = PrefixIndex(
            _BLOCK_TOKENS,
            capacity_tokens=_BLOCK_TOKENS * _BLOCKS_PER_SERVER,
            longest_tokens=_BLOCK_TOKENS * _MOST_BLOCKS,
        )
        self._last: dict[str, EngineView] = {}
        self._cold: dict[EngineView, int] = {}
        self._cold_serial = 0

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """It holds nothing any more."""
        self._index.forget([engine])
        self._cold.pop(engine, None)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Score the pods and pick one."""
        pods = fleet.available
        if not pods:
            return None, "no_engine", 0
        held = self._held(request, pods)
        key = request.headers.get("x-session-token") or key_of(request)
        scores = self._score(request, pods, held, key)
        chosen = self._pick(pods, scores, pick)
        self._index.add(request.content, chosen)
        if key:
            self._last[key] = chosen
        if not any(held.values()):
            self._cold_serial += 1
            self._cold[chosen] = self._cold_serial
        return chosen, self.picker, int(held[chosen])

    def _held(self, request: RequestView, pods: list[EngineView]) -> dict[EngineView, float]:
        """Tokens of the prompt in whole blocks that each pod holds."""
        guessed = self._index.match(request.content)
        held = {pod: guessed.get(pod, 0.0) for pod in pods}
        for pod in pods:
            if pod.cached_tokens is not None:
                held[pod] = float(pod.cached_tokens(request.content) // _BLOCK_TOKENS * _BLOCK_TOKENS)
        return held

    def _score(
        self, request: RequestView, pods: list[EngineView], held: dict[EngineView, float], key: str
    ) -> dict[EngineView, float]:
        whole = self._index.whole(request.prompt_tokens)
        if any(pod.cached_tokens for pod in pods):
            whole = request.prompt_tokens // _BLOCK_TOKENS * _BLOCK_TOKENS
        scale = self.prefix_cache / max(whole, 1)
        scores = {pod: scale * held[pod] for pod in pods}
        if self.queue or self.load_aware:
            self._add_waiting(scores)
        if self.kv_cache_utilization:
            for pod in pods:
                scores[pod] += self.kv_cache_utilization * (1 - (pod.report.kv_share if pod.report else 0.0))
        if self.active_request:
            busiest = max(pod.in_flight for pod in pods)
            for pod in pods:
                free = (busiest - pod.in_flight) / busiest * self.max_busy_score if pod.in_flight else 1.0
                scores[pod] += self.active_request * free
        if self.no_hit_lru:
            ranks = dict.fromkeys(pods, 0.5) if any(held.values()) else self._ranks(pods)
            for pod in pods:
                scores[pod] += self.no_hit_lru * ranks[pod]
        last = self._last.get(key)
        if last in scores:
            scores[last] += self.session_affinity
        return scores

    def _add_waiting(self, scores: dict[EngineView, float]) -> None:
        """Add what the reported queues score."""
        waiting = {pod: pod.report.waiting if pod.report else 0 for pod in scores}
        least, most = min(waiting.values()), max(waiting.values())
        for pod, length in waiting.items():
            score = self.queue * ((most - length) / (most - least) if most > least else 1.0)
            score += self.load_aware * 0.5 * (1 - min(length, _WAITING_LIMIT) / _WAITING_LIMIT)
            scores[pod] += score

    def _ranks(self, pods: list[EngineView]) -> dict[EngineView, float]:
        """1 for the pod whose last cold prompt is longest ago, 0 for the latest; no such prompt is longest ago."""
        if len(pods) == 1:
            return {pods[0]: 1.0}
        never = [pod for pod in pods if pod not in self._cold]
        # Pods that are down keep their place among those that had one.
        places = {pod: len(never) + place for place, pod in enumerate(sorted(self._cold, key=self._cold.__getitem__))}
        places.update((pod, place) for place, pod in enumerate(never))
        return {pod: max(0.0, 1 - places[pod] / (len(pods) - 1)) for pod in pods}

    def _pick(self, pods: list[EngineView], scores: dict[EngineView, float], pick: Pick) -> EngineView:
        chosen: EngineView
        if self.picker == "max_score":
            best = max(scores.values())
            tied = [pod for pod in pods if scores[pod] == best]
            chosen = tied[0] if len(tied) == 1 else pick(tied)
        elif self.picker == "weighted_random" and any(scores.values()):
            chosen = pick(pods, [scores[pod] for pod in pods])
        else:
            chosen = pick(pods)
        return chosen
