"""NVIDIA Dynamo's KV router: the lowest cost in blocks."""

from collections import Counter, deque
from dataclasses import dataclass
from typing import ClassVar, Literal

from policies._content import Content, cut
from policies._costs import softmax_lowest
from policies._prefix_index import PrefixIndex
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class KvRouter(Policy):
    """Lowest ``scale * max(0, prefill blocks - credit * overlap) + decode blocks + w * active requests``, ties uniform.

    prefill blocks: prompt tokens that the router thinks are still to be computed on the worker, and this prompt's, in
    blocks. overlap: this prompt's blocks in the worker's cache. decode blocks: blocks of the prompts under way there,
    and of this one. The credit is ``overlap_score_credit``, divided by ``1 + decay * excess prefill blocks / this
    prompt's blocks`` where the worker has more prefill to do than the least busy one. With ``router_temperature`` T >
    0 a draw with probability ``exp(-cost / (max - min) / T)``. Cost O(workers + nodes on the prompt's path).

    A worker's cache is known from its KV events (``use_kv_events``); without them it is what the router sent there in
    the last ``router_ttl_secs``. The prefill of a request counts from dispatch until its first token, as far as a
    router is told of first tokens, otherwise until its answer ends.

    Source: ai-dynamo/dynamo ``lib/kv-router/src/scheduling/selector/default.rs`` at 07a6c9ce3, ``config.rs`` at
    0243c51bb. Left out: caches on host, disk and shared (no overlap there), output blocks (off by default in the
    product), taints, and the queue that holds requests back; with ``shared_blocks: each``, what active prompts share.
    Known pathologies: the weights compare prefill and decode in blocks, so long contexts under way outweigh a match;
    with predicted caches evictions go unnoticed for the time to live; with ``shared_blocks: once`` copies of one prompt
    add no load and pile up.
    Checked against: decision tables from the source.
    """

    overlap_score_credit: float = 1.0
    """Blocks of prefill that a cached block saves."""
    overlap_score_credit_decay: float = 0.0
    """How fast the credit falls with the worker's excess of prefill."""
    prefill_load_scale: float = 1.0
    """Weight of a prefill block against a decode block."""
    decode_active_request_weight: float = 0.0
    """Blocks that each active request costs besides."""
    router_temperature: float = 0.0
    """0: the lowest cost; above: a draw by softmax."""
    block_size: int = 16
    """Tokens of a KV block."""
    use_kv_events: bool = True
    """Whether workers' KV events are believed; otherwise the router predicts."""
    router_ttl_secs: float = 120.0
    """Seconds for which a prediction holds."""
    shared_blocks: Literal["each", "once"] = "each"
    """``once``: a decode block that several active prompts of a worker share counts once, and a prompt that is active
    there already costs none, as in the product (``sequences/block_tracker.rs`` at 057096c31). ``each`` is kept as the
    default so that older scenarios give the numbers that they gave; ask for ``once`` to have the product."""

    reads_content: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.refuse_negative("overlap_score_credit", "overlap_score_credit_decay", "prefill_load_scale")
        self.refuse_negative("decode_active_request_weight", "router_temperature", "block_size", "router_ttl_secs")
        if self.block_size < 1:
            raise ValueError(f"block_size must be one or more, not {self.block_size}")
        self._index = PrefixIndex(self.block_size, ttl_s=self.router_ttl_secs)
        self._prefill: dict[EngineView, float] = {}
        """Prompt tokens thought to be still uncomputed, by worker."""
        self._decode: dict[EngineView, float] = {}
        """Blocks of prompts under way, by worker."""
        self._shared: dict[EngineView, Counter[Content]] = {}
        """The same, each whole block by the head of the prompt that ends with it."""
        self._work: dict[int, deque[tuple[EngineView, float]]] = {}
        """By request, for each of its attempts: worker and prefill tokens."""
        self._overlap = 0.0

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Forget its cache and its work."""
        self._index.forget([engine])
        self._prefill.pop(engine, None)
        self._decode.pop(engine, None)
        self._shared.pop(engine, None)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """Add its prefill, less what is cached, and its blocks."""
        tokens = max(0.0, request.prompt_tokens - self._overlap)
        self._prefill[engine] = self._prefill.get(engine, 0.0) + tokens
        self._decode[engine] = self._decode.get(engine, 0.0) + self._blocks(request)
        if self.shared_blocks == "once":
            self._shared.setdefault(engine, Counter()).update(self._heads(request))
        self._work.setdefault(request.id, deque()).append((engine, tokens))

    def first_token(self, request: RequestView, engine: EngineView) -> None:
        """Its prefill is over."""
        work = self._work.get(request.id)
        if work and work[0][0] is engine:
            self._add_prefill(engine, -work[0][1])
            work[0] = (engine, 0.0)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """Take its blocks away, and its prefill if it never began."""
        work = self._work.get(request.id)
        if not work:
            return
        self._add_prefill(engine, -work.popleft()[1])
        if engine in self._decode:
            self._decode[engine] -= self._blocks(request)
        if engine in self._shared:
            held = self._shared[engine]
            held.subtract(self._heads(request))
            self._shared[engine] = +held
        if not work:
            del self._work[request.id]

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the worker of lowest cost."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        overlaps = self._overlaps(request, available, now)
        chosen = softmax_lowest(available, self._costs(available, request, overlaps), self.router_temperature, pick)
        self._overlap = overlaps[chosen]
        self._index.add(request.content, chosen, now)
        return chosen, "overlap" if self._overlap else "no_overlap", int(self._overlap)

    def _overlaps(self, request: RequestView, available: list[EngineView], now: float) -> dict[EngineView, float]:
        """Tokens of the prompt in whole blocks that each worker has cached."""
        guessed = self._index.match(request.content, now)
        overlaps = {engine: guessed.get(engine, 0.0) for engine in available}
        if self.use_kv_events:
            for engine in available:
                if engine.cached_tokens is not None:
                    overlaps[engine] = self._index.whole(engine.cached_tokens(request.content))
        return overlaps

    def _costs(self, workers: list[EngineView], request: RequestView, overlaps: dict[EngineView, float]) -> list[float]:
        """Cost of the request on each worker, in blocks."""
        size, tokens, blocks = self.block_size, request.prompt_tokens, self._blocks(request)
        decay, active = self.overlap_score_credit_decay, self.decode_active_request_weight
        heads = self._heads(request) if self.shared_blocks == "once" else None
        waiting = [self._prefill.get(worker, 0.0) for worker in workers]
        least = min(waiting)
        costs = []
        for worker, queued in zip(workers, waiting, strict=True):
            credit = self.overlap_score_credit
            if decay:
                credit /= 1 + decay * (queued - least) / size / max(blocks, 1)
            prefill = (queued + tokens - credit * overlaps[worker]) / size
            cost = self.prefill_load_scale * prefill if prefill > 0 else 0.0
            if heads is None:
                decode = self._decode.get(worker, 0.0) + blocks
            else:
                held = self._shared.get(worker, Counter())
                decode = len(held) + sum(head not in held for head in heads)
            costs.append(cost + decode + active * worker.in_flight)
        return costs

    def _heads(self, request: RequestView) -> list[Content]:
        """The prompt up to the end of each of its whole blocks."""
        size = self.block_size
        return [cut(request.content, end) for end in range(size, request.prompt_tokens + 1, size)]

    def _blocks(self, request: RequestView) -> int:
        return -(-request.prompt_tokens // self.block_size)

    def _add_prefill(self, engine: EngineView, tokens: float) -> None:
        if engine in self._prefill:
            self._prefill[engine] += tokens
