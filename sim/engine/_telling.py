"""Prefix caches that tell what they store and forget, as the KV events of vLLM and SGLang do.

An event names content, a prefix, and how many of its first tokens it is not about: the rest of it was stored, or is
gone. Content that is stored again (a second copy) is told again; a copy that goes while another stays is not told.
Tokens that no prompt repeats are not told. All content goes at once, ``((), 0)``, with a flush, with other weights and
with the engine.

Source: vllm-project/vllm ``vllm/distributed/kv_events.py``; sgl-project/sglang ``disaggregation/kv_events.py``.
Left out: hashes, and that events travel in batches.
"""

from collections.abc import Callable

from policies._content import Content, canonical, cut
from sim.engine._tree import Node, Tree
from sim.engine.block_cache import BlockCache
from sim.engine.radix_cache import RadixCache
from sim.engine.request import Request

Tell = Callable[[bool, Content, int], None]
"""Whether it was stored or removed, the content, and the first tokens of it that are not meant."""


class Telling(Tree):
    """What is told alike by both caches."""

    tell: Tell

    def _tell(self, is_stored: bool, node: Node, before: int) -> None:
        """Whole blocks to the end of a node and beyond ``before`` tokens, up to the first that no prompt repeats.

        What was computed by weights of another version is not found, and not told.
        """
        spans = []
        while node.parent is not None:
            spans.append((node.source, node.end - node.start))
            node = node.parent
        if node is not self.root:
            return
        content = canonical(reversed(spans))
        block, tokens = self.block, 0
        for source, length in content:
            if source < 0:
                break
            tokens += length
        tokens, before = tokens // block * block, before // block * block
        if tokens > before:
            self.tell(is_stored, cut(content, tokens), before)

    def flush(self) -> None:
        """As in the plain cache."""
        super().flush()  # type: ignore[misc]
        self.tell(False, (), 0)

    def set_version(self, version: int) -> None:
        """As in the plain cache; for who listens, weights of another version are an empty cache."""
        if version != self.version:
            self.tell(False, (), 0)
        super().set_version(version)


class TellingBlockCache(Telling, BlockCache):
    """vLLM's cache, talking."""

    def __init__(self, capacity: int, block: int, tell: Tell) -> None:
        BlockCache.__init__(self, capacity, block)
        self.tell = tell

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """As in the plain cache; what was not findable by this request before is told."""
        before: int = request.leaf.end
        super().register(request, content, tokens)
        self._tell(True, request.leaf, before)

    def settle(self) -> None:
        """As in the plain cache, entry by entry: what an entry loses is told before it is gone."""
        free = self.free
        while self.queued > free:
            entry = self.queue.after
            last = entry.end // self.block
            taken = min(self.queued - free, last - entry.start // self.block)
            if entry.parent is not None and not entry.copies:
                self._tell(False, entry, (last - taken) * self.block)
            self.free = self.queued - taken
            super().settle()
        self.free = free


class TellingRadixCache(Telling, RadixCache):
    """SGLang's cache, talking."""

    def __init__(self, capacity: int, block: int, tell: Tell) -> None:
        RadixCache.__init__(self, capacity, block)
        self.tell = tell

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """As in the plain cache; what was not findable by this request before is told."""
        before: int = request.leaf.end
        super().register(request, content, tokens)
        self._tell(True, request.leaf, before)

    def _whole(self, node: Node) -> list[Node]:
        """As in the plain cache, which is about to forget them."""
        whole = super()._whole(node)
        self._tell(False, node, whole[-1].start)
        return whole
