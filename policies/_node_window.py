"""What Preble's scheduler remembers of the nodes that requests led to in the last minutes."""

from collections import deque
from typing import Any

from policies._content_tree import Node
from policies._prefill_time import PrefillTime

Nodes = Node[Any]


class Visits:
    """Requests that led to a node within the window."""

    __slots__ = ("context", "count", "decode", "depth", "hits", "misses")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        """Tokens from the root to the node's end."""
        self.count = 0
        self.context = 0
        """Prompt tokens of those requests."""
        self.hits = 0
        """Of them, tokens above the node where each request's content ends."""
        self.decode = 0.0
        """Output tokens that the last of them asked for."""
        self.misses = 1.0
        """Share of new tokens as it was when the last of them came."""

    @property
    def misses_now(self) -> float:
        """Share of new tokens of the requests that are in the window."""
        return 1 - self.hits / self.context if self.context else 1.0

    def prefill_s(self, node: Nodes, time: PrefillTime, misses: float) -> float:
        """Requests times the share of their prompts that was new times the time to prefill the node."""
        return misses * self.count * time.seconds(node.size, self.depth)


class NodeWindow:
    """Visits by node over a window of so many seconds."""

    def __init__(self, window_s: float) -> None:
        self._window = window_s
        self.visits: dict[Nodes, Visits] = {}
        self._entries: deque[tuple[float, Nodes, int, int]] = deque()
        """Time, node, prompt tokens and hit tokens of each request."""

    def add(self, now: float, node: Nodes, depth: int, context: int, new_tokens: int, decode: float) -> None:
        """A request led to a node; its content ends in a node of ``new_tokens`` tokens."""
        visits = self.visits.setdefault(node, Visits(depth))
        visits.count += 1
        visits.context += context
        visits.hits += context - new_tokens
        visits.decode = decode
        visits.misses = visits.misses_now
        self._entries.append((now, node, context, context - new_tokens))

    def expire(self, now: float) -> list[Nodes]:
        """Forget what is older than the window; returns the nodes that have no visits left."""
        gone = []
        while self._entries and self._entries[0][0] < now - self._window:
            _, node, context, hits = self._entries.popleft()
            visits = self.visits[node]
            visits.count -= 1
            visits.context -= context
            visits.hits -= hits
            if visits.count == 0:
                del self.visits[node]
                gone.append(node)
        return gone

    def rename(self, old: Nodes, new: Nodes) -> None:
        """A node was split, and what it had is its upper part's now."""
        visits = self.visits.pop(old, None)
        if visits is not None:
            visits.depth -= old.size
            self.visits[new] = visits
            self._entries = deque(
                (at, new if node is old else node, context, hits) for at, node, context, hits in self._entries
            )
