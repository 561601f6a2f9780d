"""Prefix-aware routing of vLLM's production-stack."""

from dataclasses import dataclass
from typing import ClassVar

from policies._content import Content, cut
from policies._content_tree import ContentTree, Node
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from policies._qps import Qps

_CHUNK_CHARS = 128
_TAIL = -10
"""Source of the marks for the last, partial chunks of prompts; from here downwards."""


@dataclass
class Prefixaware(Policy):
    """A random one of the engines recorded at the deepest known chunk of the prompt that has an available one.

    A trie over hashes of chunks of 128 characters. Each node records the engines whose prompts passed through it;
    nothing is evicted. The walk ends at the first chunk that is unknown or has no available engine: the engines of the
    node before serve, one at random; at the root, all available ones. A last, shorter chunk matches only an equal one.
    With ``prefix_min_match_length``, a shorter match goes to the lowest request rate. The prompt is recorded for
    whoever was taken. Cost O(spans and nodes on the prompt's path).

    Source: vllm-project/production-stack ``src/vllm_router/routers/routing_logic.py`` and ``prefix/hashtrie.py`` at
    a6c01db05. Characters are counted by ``chars_per_token``; a chunk that is no whole number of tokens is rounded.
    Known pathologies: load is ignored; prompts that agree in less than one chunk are random over all; a system prompt
    of more than a chunk makes all sessions one family, whose engines grow by chance alone.
    Checked against: decision tables from the source; where prompts share nothing, uniformly random.
    """

    prefix_min_match_length: int = 0
    """Characters matched below which the request rate decides."""
    request_stats_window_s: float = 60.0
    """Seconds over which the request rate is counted."""

    reads_content: ClassVar[bool] = True
    fallback: ClassVar[str | None] = "random"

    def __post_init__(self) -> None:
        self.refuse_negative("prefix_min_match_length", "request_stats_window_s")
        self._tree: ContentTree[EngineView] = ContentTree()
        self._tails: dict[Content, int] = {}
        self._qps = Qps(self.request_stats_window_s)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """It is available no more; what was recorded for it goes."""
        self._tree.remove(engine)
        self._qps.forget(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose among the engines of the deepest match."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        chunk = max(1, round(_CHUNK_CHARS / request.chars_per_token))
        content = self._in_chunks(request, chunk)
        engines, matched = self._walk(content, request.prompt_tokens, chunk, available)
        # A partial chunk counts as a whole one.
        if -(-matched // chunk) * _CHUNK_CHARS < self.prefix_min_match_length:
            engine, branch = self._qps.lowest(available, now), "short_match"
        else:
            engine, branch = pick(engines), "match" if matched else "no_match"
        self._tree.insert(content, engine)
        self._qps.sent(engine, now)
        return engine, branch, matched

    def _in_chunks(self, request: RequestView, chunk: int) -> Content:
        """The whole chunks of a prompt, and a mark of one token that stands for the partial one behind them."""
        whole = request.prompt_tokens // chunk * chunk
        if whole == request.prompt_tokens:
            return request.content
        head = cut(request.content, whole)
        tail = self._tails.setdefault(request.content[max(len(head) - 1, 0) :], _TAIL - len(self._tails))
        return (*head, (tail, 1))

    def _walk(
        self, content: Content, tokens: int, chunk: int, available: list[EngineView]
    ) -> tuple[list[EngineView], int]:
        """Available engines at the deepest node that has any, and tokens matched there."""
        place = self._tree.find(content)
        matched, start = place[4], place[4] - place[1]
        has_tail = tokens % chunk > 0 and matched == tokens // chunk * chunk + 1
        depth = matched if has_tail else matched // chunk * chunk
        node: Node[EngineView] | None = place[0]
        while node is not None and depth > 0:
            if depth > start:
                engines = [engine for engine in available if engine in node.tenants]
                if engines:
                    return engines, tokens if has_tail and depth == matched else depth
            # Nobody is available at this chunk: the node above, up to where its last whole chunk ends.
            depth = min(depth, start // chunk * chunk)
            node = node.parent
            start -= node.size if node is not None else 0
        return available, 0
