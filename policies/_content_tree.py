"""The prefix tree that cache-aware routers keep over the prompts they have sent, and for whom.

Edges hold content (spans). Each node knows its tenants, the engines whose prompts passed through it, with a last-access
number from one counter, and remembers one tenant, ``last``::

    root {e0, e1}
     +-- system, 11000 tokens  {e0: 0, e1: 0}  last e0        split from e0's first prompt, so e0 owns it
          +-- session 1, 900   {e0: 3}         last e0
          +-- session 2, 1200  {e1: 4}         last e1

* insert: a partly shared edge is split, the new upper node copying tenants and ``last`` of the lower one; the tenant
  is added to every node on the path (with number 0 if new there) and the node where the content ends gets a fresh
  number. A node made by the insert has ``last`` = the tenant; adding a tenant to a node does not change ``last``.
* find: as deep as symbols agree. The deepest node entered counts even if only part of its edge agrees.

Tenants of a node are tenants of all nodes above it.

Each turn of a session adds a node below that of the turn before, so walks would grow with the turns. Hence fingers: for
a source that prompts keep going on with, the node where the last of them ended; a walk starts there if what comes
before agrees. Cost of find and insert is O(spans and nodes below the finger), whatever the length.

Source: smg-project/smg ``src/policies/tree.rs`` at c7f9bf9f5. Left out: locks, and the text itself.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from policies._content import Content

T = TypeVar("T")

_GOES_ON: Final = -2
"""Key of the child whose edge goes on with the source that its parent's edge ends in; other children start a source."""


class Node(Generic[T]):
    """An edge and the place it leads to."""

    __slots__ = ("children", "edge", "key", "last", "parent", "size", "tenants")

    def __init__(self, parent: "Node[T] | None", key: int, edge: Content, size: int) -> None:
        self.parent = parent
        self.key = key
        self.edge = edge
        self.size = size
        self.children: dict[int, Node[T]] = {}
        self.tenants: dict[T, int] = {}
        self.last: T | None = None

    def is_leaf_of(self, tenant: T) -> bool:
        """Whether the tenant's content ends here: it has the node and none of its children."""
        return tenant in self.tenants and not any(tenant in child.tenants for child in self.children.values())


Place = tuple[Node[T], int, int, int, int]
"""Where content leaves the tree: deepest node entered, tokens of its edge that agree, span and offset within it where
the content goes on, tokens agreed in all. Good until the tree changes."""


class ContentTree(Generic[T]):
    """Which tenants have seen which content."""

    def __init__(self) -> None:
        self.root: Node[T] = Node(None, _GOES_ON, (), 0)
        self.sizes: dict[T, int] = {}
        """Tokens of all nodes that a tenant has."""
        self._number = 0
        self._fingers: dict[int, tuple[Node[T], Content, int]] = {}
        """By source: the node where content that went on with it last ended, the spans before, and how far it went."""

    def find(self, content: Content) -> Place[T]:
        """Walk down as far as the content agrees. Does not modify the tree."""
        node, at, offset, matched = self._enter(content)
        inside, spans = node.size, len(content)
        while at < spans:
            child = node.children.get(_GOES_ON if offset else content[at][0])
            if child is None:
                break
            node = child
            inside, at, offset = _agree(child.edge, content, at, offset)
            matched += inside
            if inside < child.size:
                break
        return node, inside, at, offset, matched

    def _enter(self, content: Content) -> tuple[Node[T], int, int, int]:
        """Where to start the walk: the node, the span and offset there, and tokens agreed; the finger, or the root."""
        finger = self._fingers.get(content[-1][0]) if content else None
        if finger is not None:
            node, before, reached = finger
            last = len(content) - 1
            if reached <= content[last][1] and before == content[:last]:
                matched = reached + sum(span[1] for span in before)
                return (node, last, reached, matched) if reached < content[last][1] else (node, last + 1, 0, matched)
        return self.root, 0, 0, 0

    def touch(self, node: Node[T], choose: Callable[[list[T]], T]) -> T | None:
        """Tenant that a match at this node belongs to; None where nobody is a tenant.

        It is ``last`` while that is a tenant, else a chosen one, which becomes ``last``. A match whose number divides
        by eight refreshes the tenant's number.
        """
        number = self._next()
        tenants = node.tenants
        if not tenants:
            return None
        if node.last is None or node.last not in tenants:
            node.last = choose(list(tenants)) if len(tenants) > 1 else next(iter(tenants))
        if number & 7 == 0:
            tenants[node.last] = number
        return node.last

    def insert(self, content: Content, tenant: T) -> None:
        """Add content for a tenant; the empty content makes the tenant known."""
        self.attach(self.find(content), content, tenant)

    def split(self, place: Place[T]) -> Place[T]:
        """Make the place the end of a node of its own; returns it as it then is."""
        node, inside, at, offset, matched = place
        return (self._split(node, inside), inside, at, offset, matched) if inside < node.size else place

    def attach(self, place: Place[T], content: Content, tenant: T) -> Node[T]:
        """Insert content at the place that ``find`` gave for it; returns the node where the content ends."""
        node, inside, at, offset, _ = place
        if inside < node.size:
            node = self._split(node, inside)
        self._claim(node, tenant)
        if at < len(content):
            source, length = content[at]
            edge = ((source, length - offset), *content[at + 1 :])
            size = sum(span[1] for span in edge)
            key = _GOES_ON if offset else source
            node.children[key] = leaf = Node(node, key, edge, size)
            leaf.last = tenant
            self.sizes[tenant] += size
            if offset and at == len(content) - 1:
                self._fingers[source] = (leaf, content[:at], length)
            node = leaf
        node.tenants[tenant] = self._next()
        return node

    def matches(self, place: Place[T]) -> dict[T, int]:
        """Tokens that each tenant shares with the content whose place this is. Stops when all tenants are met."""
        shared: dict[T, int] = {}
        node: Node[T] | None = place[0]
        depth, inside = place[4], place[1]
        while node is not None and len(shared) < len(self.sizes):
            for tenant in node.tenants:
                if tenant not in shared:
                    shared[tenant] = depth
            depth -= inside
            node = node.parent
            inside = node.size if node is not None else 0
        return shared

    def expire(self, node: Node[T], tenant: T, number: int) -> None:
        """Take a node and those above it from a tenant, as far as they are its leaves of at most ``number``."""
        while node.parent is not None and node.tenants.get(tenant, number + 1) <= number and node.is_leaf_of(tenant):
            node = self._drop(node, tenant)

    def remove(self, tenant: T) -> None:
        """Delete a tenant from every node, and the nodes that nobody has then."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node.tenants.pop(tenant, None) is None:
                continue
            stack.extend(node.children.values())
            if not node.tenants and node.parent is not None:
                self._detach(node, node.parent)
        self.sizes.pop(tenant, None)

    def evict(self, most: float) -> None:
        """Drop leaves, lowest number first, of each tenant with more than ``most`` (0 or more) tokens until it fits."""
        for tenant, size in self.sizes.items():
            if size > most:
                self.shrink(tenant, most)

    def evict_all(self, most: float) -> None:
        """Drop leaves, lowest number first, whoever has them, until the tenants have ``most`` tokens together."""
        total = sum(self.sizes.values())
        if total <= most:
            return
        found = [(leaf[0], tenant, leaf[2]) for tenant in self.sizes for leaf in self._leaves(tenant)]
        # Of equal numbers (0) the one found first goes first: tenants have no order.
        leaves = [(number, serial, tenant, node) for serial, (number, tenant, node) in enumerate(found) if node.parent]
        heapify(leaves)
        serial = len(found)
        while leaves and total > most:
            _, _, tenant, node = heappop(leaves)
            parent = self._drop(node, tenant)
            total -= node.size
            if parent.parent is not None and parent.is_leaf_of(tenant):
                heappush(leaves, (parent.tenants[tenant], serial, tenant, parent))
                serial += 1

    def _drop(self, node: Node[T], tenant: T) -> Node[T]:
        """Take a leaf from a tenant; returns the node above."""
        parent = node.parent
        assert parent is not None, "the root is no leaf to drop"
        del node.tenants[tenant]
        self.sizes[tenant] -= node.size
        if not node.tenants:
            self._detach(node, parent)
        return parent

    def shrink(self, tenant: T, most: float) -> None:
        """Drop leaves of one tenant, lowest number first, until it has ``most`` tokens."""
        leaves = self._leaves(tenant)
        heapify(leaves)
        serial = len(leaves)
        while leaves and self.sizes[tenant] > most:
            parent = self._drop(heappop(leaves)[2], tenant)
            if parent.is_leaf_of(tenant):
                heappush(leaves, (parent.tenants[tenant], serial, parent))
                serial += 1

    def _leaves(self, tenant: T) -> list[tuple[int, int, Node[T]]]:
        """(number, serial, node) of each leaf of a tenant."""
        leaves: list[tuple[int, int, Node[T]]] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            below = [child for child in node.children.values() if tenant in child.tenants]
            stack.extend(below)
            if not below and tenant in node.tenants:
                leaves.append((node.tenants[tenant], len(leaves), node))
        return leaves

    def _claim(self, node: Node[T], tenant: T) -> None:
        """Add a tenant to a node and to all above it, with number 0 where it is new."""
        self.sizes.setdefault(tenant, 0)
        above: Node[T] | None = node
        while above is not None and tenant not in above.tenants:
            above.tenants[tenant] = 0
            self.sizes[tenant] += above.size
            above = above.parent

    def _split(self, node: Node[T], inside: int) -> Node[T]:
        """Put a new node where ``inside`` tokens of the edge end; returns it."""
        upper_edge, lower_edge, goes_on = _divide(node.edge, inside)
        upper: Node[T] = Node(node.parent, node.key, upper_edge, inside)
        upper.tenants = dict(node.tenants)
        upper.last = node.last
        assert node.parent is not None, "the root has no edge"
        node.parent.children[node.key] = upper
        node.parent, node.edge, node.size = upper, lower_edge, node.size - inside
        node.key = _GOES_ON if goes_on else lower_edge[0][0]
        upper.children[node.key] = node
        return upper

    def _detach(self, node: Node[T], parent: Node[T]) -> None:
        """Take a node that nobody has any more out of the tree."""
        del parent.children[node.key]
        node.parent = None
        source = node.edge[-1][0]
        if source in self._fingers and self._fingers[source][0] is node:
            del self._fingers[source]

    def _next(self) -> int:
        number = self._number
        self._number += 1
        return number


def _agree(edge: Content, content: Content, at: int, offset: int) -> tuple[int, int, int]:
    """Tokens of an edge that agree with the content from a span and offset on, and where the content then stands."""
    inside = 0
    for source, length in edge:
        if at == len(content) or content[at][0] != source:
            break
        left = content[at][1] - offset
        if length < left:
            # The edge leaves this source earlier than the content does: it ends here, or what follows differs.
            return inside + length, at, offset + length
        inside += left
        at, offset = at + 1, 0
        if left < length:
            break
    return inside, at, offset


def _divide(edge: Content, tokens: int) -> tuple[Content, Content, bool]:
    """An edge's first tokens, the rest (there is one), and whether the cut lies within a span."""
    at = 0
    while tokens >= edge[at][1]:
        tokens -= edge[at][1]
        at += 1
    if tokens == 0:
        return edge[:at], edge[at:], False
    source, length = edge[at]
    return (*edge[:at], (source, tokens)), ((source, length - tokens), *edge[at + 1 :]), True
