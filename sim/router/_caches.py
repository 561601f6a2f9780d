"""What routers know of the engines' prefix caches by KV events that take their time.

An engine tells what its cache stores and forgets when it does; a router knows it ``lag`` later, and keeps the blocks
that it knows of in a tree for each engine. So what is looked up is the cache as it was ``lag`` ago.

A node of the tree is a run of whole blocks::

    root -- 4 blocks of source 0 -- 1 block across sources 0 and 7 -- 9 blocks of source 7

Caches evict from the ends, so where a block is forgotten, all below it is gone. Cost of an event or a look O(spans of
the content and nodes on its path). Left out: events that are lost.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from functools import partial

from policies._content import Content
from sim.engine.shell import Engine
from sim.instants import Clock

Key = tuple[int, Hashable]
"""What tells a block from others at its place: source and offset, or -1 and its parts where it has several sources."""
_ACROSS = -1


def runs(content: Content, block: int) -> Iterator[tuple[int, Key]]:
    """The whole blocks of a content as runs: how many, and the first of them."""
    parts: tuple[tuple[int, int, int], ...] = ()
    filled = 0
    for source, length in content:
        at = 0
        if filled:
            at = min(length, block - filled)
            parts = (*parts, (source, 0, at))
            filled += at
            if filled < block:
                continue
            yield 1, (_ACROSS, parts)
            parts, filled = (), 0
        blocks = (length - at) // block
        if blocks:
            yield blocks, (source, at)
            at += blocks * block
        if at < length:
            parts, filled = ((source, at, length - at),), length - at


class Node:
    """A run of blocks, the first of them, and what follows it."""

    __slots__ = ("blocks", "children", "first")

    def __init__(self, blocks: int, first: Key) -> None:
        self.blocks = blocks
        self.first = first
        self.children: dict[Key, Node] = {}


class KnownCache:
    """The blocks of one engine that routers know of."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.root = Node(0, (_ACROSS, ()))

    def match(self, content: Content) -> int:
        """Tokens of the longest known prefix in whole blocks."""
        return self._walk(content)[2] * self.block

    def store(self, content: Content) -> None:
        """Know all whole blocks of a content."""
        node, inside, known = self._walk(content)
        for blocks, first in runs(content, self.block):
            if known >= blocks:
                known -= blocks
                continue
            if inside < node.blocks:
                self._split(node, inside)
            key, more = self._later(first, known), blocks - known
            if node is not self.root and not node.children and key == self._later(node.first, node.blocks):
                node.blocks += more
            else:
                node.children[key] = node = Node(more, key)
            known, inside = 0, node.blocks

    def forget(self, content: Content, before: int) -> None:
        """Know no block of a content from a depth on, and none below; without a content, none at all."""
        if not content:
            self.root = Node(0, self.root.first)
            return
        kept = before // self.block
        node, inside, known = self._walk(content, kept)
        if known < kept:
            return
        for blocks, first in runs(content, self.block):
            if kept < blocks:
                key = self._later(first, kept)
                if inside == node.blocks:
                    node.children.pop(key, None)
                elif key == self._later(node.first, inside):
                    node.blocks = inside
                    node.children = {}
                return
            kept -= blocks

    def _walk(self, content: Content, most: int | None = None) -> tuple[Node, int, int]:
        """Deepest node on the way of a content, blocks of it that agree, blocks that agree in all; ``most`` at most."""
        node, inside, known = self.root, 0, 0
        for blocks, first in runs(content, self.block):
            taken = 0
            while taken < blocks and known != most:
                key = self._later(first, taken)
                if inside == node.blocks:
                    child = node.children.get(key)
                    if child is None:
                        return node, inside, known
                    node, inside = child, 0
                elif key != self._later(node.first, inside):
                    return node, inside, known
                step = min(blocks - taken, node.blocks - inside)
                if most is not None:
                    step = min(step, most - known)
                inside, taken, known = inside + step, taken + step, known + step
        return node, inside, known

    def _later(self, first: Key, blocks: int) -> Key:
        """The block that comes so many after another one in its run."""
        source, at = first
        return first if source == _ACROSS else (source, at + blocks * self.block)  # type: ignore[operator]

    def _split(self, node: Node, inside: int) -> None:
        lower = Node(node.blocks - inside, self._later(node.first, inside))
        lower.children = node.children
        node.blocks = inside
        node.children = {lower.first: lower}


class LaggedCaches:
    """The caches of all engines as every replica of a router knows them."""

    def __init__(self, env: Clock, lag: int) -> None:
        self.env = env
        self.lag = lag
        self.known: dict[int, KnownCache] = {}
        """By engine."""
        self.coming: deque[tuple[int, int, bool, Content, int]] = deque()
        """What is told and not yet known: tick when it is, engine, whether stored, content, and where that begins."""

    def watch(self, engine: Engine) -> None:
        """Hear what an engine tells, from before its first request on."""
        if engine.index not in self.known:
            self.known[engine.index] = KnownCache(engine.scheduler.block)
            engine.listen(partial(self._hear, engine.index))

    def _hear(self, index: int, now: int, is_stored: bool, content: Content, before: int) -> None:
        self.coming.append((now + self.lag, index, is_stored, content, before))

    def cached_tokens(self, index: int, content: Content) -> int:
        """Tokens of a prompt that an engine held a lag ago."""
        now, coming, known = self.env._now, self.coming, self.known
        while coming and coming[0][0] <= now:
            _, engine, is_stored, told, before = coming.popleft()
            if is_stored:
                known[engine].store(told)
            else:
                known[engine].forget(told, before)
        return known[index].match(content)
