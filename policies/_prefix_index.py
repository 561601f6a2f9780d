"""A router's own guess at what each engine has cached: the prompts it sent there, as far as they fit and are fresh.

Prompts match in whole blocks. Each engine has a capacity; what was used longest ago goes first, in lumps: an engine
that is over its capacity by a 32nd is cut back to it. With a time to live, a prompt that was not sent again for so
long is forgotten.

Left out: engines' real evictions, which such an index cannot see.
"""

from collections import deque
from collections.abc import Iterable

from policies._content import Content, cut
from policies._content_tree import ContentTree, Node
from policies._protocol import EngineView


class PrefixIndex:
    """Prompts by engine. Cost of a match or an insert O(spans and nodes on the prompt's path)."""

    def __init__(
        self,
        block_tokens: float = 1,
        *,
        capacity_tokens: float = float("inf"),
        longest_tokens: float = float("inf"),
        ttl_s: float = float("inf"),
    ) -> None:
        self.block_tokens = block_tokens
        self._capacity = capacity_tokens
        self._longest = longest_tokens
        self._ttl = ttl_s
        self._tree: ContentTree[EngineView] = ContentTree()
        self._sent: deque[tuple[float, Node[EngineView], EngineView, int]] = deque()

    def whole(self, tokens: float) -> float:
        """Tokens of the whole blocks in so many tokens, up to the longest head that is indexed."""
        size = self.block_tokens
        return min(tokens, self._longest) // size * size

    def match(self, content: Content, now: float = 0.0) -> dict[EngineView, float]:
        """Tokens in whole blocks that each engine shares with a prompt; engines that share none are left out."""
        while self._sent and now - self._sent[0][0] >= self._ttl:
            _, node, engine, number = self._sent.popleft()
            self._tree.expire(node, engine, number)
        shared = self._tree.matches(self._tree.find(content))
        whole = {engine: self.whole(tokens) for engine, tokens in shared.items() if tokens >= self.block_tokens}
        return {engine: tokens for engine, tokens in whole.items() if tokens > 0}

    def add(self, content: Content, engine: EngineView, now: float = 0.0) -> None:
        """Note that a prompt was sent to an engine."""
        tree = self._tree
        if self._longest != float("inf"):
            content = cut(content, int(self._longest))
        node = tree.attach(tree.find(content), content, engine)
        if self._ttl != float("inf"):
            self._sent.append((now, node, engine, node.tenants[engine]))
        if tree.sizes[engine] > self._capacity * 33 / 32:
            tree.evict(self._capacity)

    def size(self, engine: EngineView) -> int:
        """Tokens noted for an engine."""
        return self._tree.sizes.get(engine, 0)

    def forget(self, engines: Iterable[EngineView]) -> None:
        """Drop what was sent to engines that are gone."""
        for engine in engines:
            self._tree.remove(engine)
