"""The tree of cached content, on spans.

A node holds a run of tokens of one source, ``start`` to ``end`` counted from the beginning of the prompt. Its children
continue it: with the same source (after a split) or with another. KV comes in blocks of ``block`` tokens; the block
that ends at depth d belongs to the node whose run holds depth d, so a node owns ``end // block - start // block`` of
them, and a block that lies across a branch is owned once by each branch, as in hash-chained caches.

Nodes that nobody holds stand in one queue in the order in which they are given up; anonymous entries (blocks without
content that can be found) stand in it too. Cost of a match or an insertion is O(nodes on the path), about three.
"""

from collections.abc import Iterator
from typing import Any, Final

from policies._content import Content


class Node:
    """A run of cached tokens; ``parent`` is None for the root and for anonymous entries of the queue."""

    __slots__ = (
        "after", "before", "born", "children", "copies", "end", "parent", "refs", "run", "source", "stamp", "start",
    )  # fmt: skip

    before: "Node"
    after: "Node"

    def __init__(self, parent: "Node | None", source: int, start: int, end: int) -> None:
        self.parent = parent
        self.source = source
        self.start = start
        self.end = end
        self.refs = 0
        self.children: dict[int, Node] = {}
        self.before = self.after = OUT
        self.stamp = 0
        self.copies: list[Copy] | None = None
        """Further physical copies of its blocks, oldest first (hash-chained caches)."""
        self.born = 0
        """When its content was inserted (radix trees): the order of branches."""
        self.run = 0
        """Number of the insertion that made it (radix trees): nodes of one insertion are one node of the product."""

    def __repr__(self) -> str:
        return f"Node({self.source}: {self.start}-{self.end}, refs={self.refs})"


class Copy(Node):
    """A further physical copy of a node's blocks, held by one request or standing in the queue."""

    __slots__ = ("holder", "original")

    def __init__(self, original: Node, holder: Any) -> None:
        super().__init__(None, original.source, original.start, original.end)
        self.original = original
        self.holder = holder
        """The request that holds it; None while it stands in the queue."""


OUT: Node = object.__new__(Node)
"""Neighbour of a node that does not stand in the queue."""


DEAD: Final = -(1 << 62)
"""Source of nodes that a flush left to those that hold them: nothing is found below, nothing is added to them."""


class Tree:
    """Content held in a pool of blocks, and the queue of what may be given up."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.root = _new_root()
        self.version = 0
        """Version of the weights that compute content from now on."""
        self.roots = {0: self.root}
        """By version of the weights, what was computed with them; only that of the present version is found."""
        self.queue = queue = Node(None, -1, 0, 0)
        queue.before = queue.after = queue

    # -- weights ------------------------------------------------------------------------------------------------

    def set_version(self, version: int) -> None:
        """Find and keep apart what weights of this version compute; who runs stays with the version it began with."""
        self.version = version
        self.roots = {each: root for each, root in self.roots.items() if root.children or root.refs > 1}
        self.root = self.roots.setdefault(version, _new_root())

    def _bury(self) -> None:
        """Nothing that is held now can be found any more."""
        for node in [*self.nodes(), *self.roots.values()]:
            node.source = DEAD
        self.root = _new_root()
        self.roots = {self.version: self.root}

    # -- content ------------------------------------------------------------------------------------------------

    def match(self, content: Content, limit: int) -> tuple[Node, int]:
        """Deepest node that agrees with the first ``limit`` tokens of the content, and the depth of agreement.

        Does not modify the tree; the depth may lie inside the node.
        """
        node = self.root
        if limit <= 0:
            return node, 0
        depth = span_end = 0
        for source, length in content:
            span_end += length
            while depth < span_end:
                child = node.children.get(source)
                if child is None:
                    return node, depth
                node = child
                depth = child.end
                if depth > span_end or depth >= limit:
                    return node, min(depth, span_end, limit)
        return node, depth

    def split(self, node: Node, depth: int) -> Node:
        """Cut a node at a depth inside it; returns the new upper part, which inherits holders and queue place."""
        parent = node.parent
        assert parent is not None
        upper = Node(parent, node.source, node.start, depth)
        upper.refs = node.refs
        upper.stamp = node.stamp
        upper.born = node.born
        upper.run = node.run
        upper.children[node.source] = node
        parent.children[node.source] = upper
        node.parent = upper
        node.start = depth
        if node.after is not OUT:
            if upper.end // self.block > upper.start // self.block:
                self._link(upper, node)
            if node.end // self.block == node.start // self.block:
                self.unlink(node)
        self._drop_if_bare(node)
        return upper

    def _drop_if_bare(self, node: Node) -> None:
        """Forget a part that a split left without block, holder and child: below what is given up it would be found."""
        parent, block = node.parent, self.block
        if parent is None or node.refs or node.children or node.copies or node.end // block > node.start // block:
            return
        del parent.children[node.source]
        node.parent = None

    def remove(self, node: Node) -> None:
        """Take a childless node out of the tree, and ancestors that own no block and lead nowhere any more."""
        parent = node.parent
        block = self.block
        while parent is not None:
            children = parent.children
            del children[node.source]
            node.parent = None
            if children or parent.refs or parent.end // block > parent.start // block:
                return
            node, parent = parent, parent.parent

    # -- queue --------------------------------------------------------------------------------------------------

    def _link(self, node: Node, before: Node) -> None:
        after = before.after
        before.after = node
        node.before = before
        node.after = after
        after.before = node

    def append(self, node: Node) -> None:
        """Put a node at the end of the queue: it is given up last."""
        queue = self.queue
        last = queue.before
        last.after = node
        node.before = last
        node.after = queue
        queue.before = node

    def unlink(self, node: Node) -> None:
        """Take a node out of the queue."""
        before, after = node.before, node.after
        before.after = after
        after.before = before
        node.before = node.after = OUT

    def replace(self, node: Node, other: Node) -> None:
        """Put another entry at the place of a node in the queue."""
        self._link(other, node)
        self.unlink(node)

    def entries(self) -> Iterator[Node]:
        """The queue, first given up first (for tests and reports)."""
        node = self.queue.after
        while node is not self.queue:
            yield node
            node = node.after

    def nodes(self) -> Iterator[Node]:
        """All nodes that content was put into, of all versions, but the roots."""
        stack = [node for root in self.roots.values() for node in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())


def _new_root() -> Node:
    root = Node(None, -1, 0, 0)
    root.refs = 1
    return root
