"""The two prefix caches written plainly, block by block and token by token: no spans, no queue of runs, no laziness."""

from collections import deque
from itertools import groupby


def tokens_of(content, count=None):
    """A content as a list of tokens; a token is its source and its place in it."""
    tokens = [(source, place) for source, length in content for place in range(length)]
    return tokens if count is None else tokens[:count]


class NaiveBlocks:
    """vLLM's pool: physical blocks, a hash table from chains of content to blocks, a free queue.

    As in the model under test, a block whose content another request holds registered is held but never found, goes
    first when given back, and its request holds the registered one too.
    """

    def __init__(self, capacity, size):
        self.size = size
        self.free = deque(range(capacity))
        self.known = {}
        self.chain = {}
        self.holders = dict.fromkeys(range(capacity), 0)

    def find(self, tokens, limit):
        """Blocks that hold the first tokens, whole blocks within the limit only."""
        found = []
        while (len(found) + 1) * self.size <= min(limit, len(tokens)):
            block = self.known.get(tuple(tokens[: (len(found) + 1) * self.size]))
            if block is None:
                break
            found.append(block)
        return found

    def take(self, count):
        """New blocks from the head of the queue; what they held is forgotten."""
        taken = [self.free.popleft() for _ in range(count)]
        for block in taken:
            self._forget(block)
            self.holders[block] = 1
        return taken

    def _forget(self, block):
        chain = self.chain.pop(block, None)
        if chain is not None:
            del self.known[chain]

    def hold(self, blocks):
        """Take found blocks, out of the queue where nobody holds them."""
        for block in blocks:
            if not self.holders[block]:
                self.free.remove(block)
            self.holders[block] += 1

    def register(self, held, tokens):
        """Make the whole blocks of a request findable. ``held``: its ``path`` by place, and ``loose`` blocks."""
        for place in range(len(held.path), len(tokens) // self.size):
            chain = tuple(tokens[: (place + 1) * self.size])
            own = held.loose.pop(0)
            other = self.known.get(chain)
            if other is not None and self.holders[other]:
                held.loose.append(own)
                self.holders[other] += 1
                own = other
            else:
                if other is not None:
                    self._forget(other)
                self.known[chain], self.chain[own] = own, chain
            held.path.append(own)

    def release(self, held):
        """Give back last blocks first."""
        for block in [*held.loose, *reversed(held.path)]:
            self.holders[block] -= 1
            if not self.holders[block]:
                self.free.append(block)

    @property
    def cached(self):
        """Free blocks with content."""
        return sum(block in self.chain for block in self.free)


class Held:
    """What a request holds of a naive pool."""

    def __init__(self, path):
        self.path = path
        self.loose = []


class Run:
    """A node of the naive radix tree: a run of pages below its parent."""

    def __init__(self, parent, pages):
        self.parent = parent
        self.pages = pages
        self.children = []
        self.locks = 0
        self.accessed = 0


class NaiveRadix:
    """SGLang's tree: runs of whole pages, split where a match ends, least recently accessed unlocked leaf goes first.

    As in the model under test, what is inserted at once becomes a run for each source, where the product has one run.
    """

    def __init__(self, capacity, size):
        self.size = size
        self.free = capacity
        self.root = Run(None, [])
        self.clock = 0

    def _pages(self, tokens):
        return [tuple(tokens[i : i + self.size]) for i in range(0, len(tokens) - self.size + 1, self.size)]

    def match(self, tokens, limit):
        """The node at which the longest match ends, splitting one where needed; refreshes the path."""
        self.clock += 1
        return self._walk(self._pages(tokens[:limit]))[0]

    def _walk(self, pages):
        node, place = self.root, 0
        while place < len(pages):
            child = next((child for child in node.children if child.pages[0] == pages[place]), None)
            if child is None:
                break
            same = 0
            while same < len(child.pages) and place + same < len(pages) and child.pages[same] == pages[place + same]:
                same += 1
            if same < len(child.pages):
                child = self._split(child, same)
            child.accessed = self.clock
            node, place = child, place + same
        return node, place

    def _split(self, node, pages):
        upper = Run(node.parent, node.pages[:pages])
        upper.locks, upper.accessed, upper.children = node.locks, node.accessed, [node]
        upper.parent.children[upper.parent.children.index(node)] = upper
        node.parent, node.pages = upper, node.pages[pages:]
        return upper

    def common(self, tokens):
        """Pages found, looked at from outside: nothing is split or refreshed."""
        pages = self._pages(tokens)
        paths = [self.path(node) for node in self.nodes()]
        return max((self._same(pages, path) for path in paths), default=0)

    @staticmethod
    def _same(one, other):
        return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

    def path(self, node):
        """Pages from the root to the end of a node."""
        return (self.path(node.parent) if node.parent else []) + node.pages

    def insert(self, tokens):
        """Put the whole pages of a prompt into the tree; returns the last node and how many were there before."""
        self.clock += 1
        pages = self._pages(tokens)
        node, place = self._walk(pages)
        for _, run in groupby(pages[place:], key=lambda page: page[-1][0]):
            leaf = Run(node, list(run))
            leaf.accessed = self.clock
            node.children.append(leaf)
            node = leaf
        return node, place

    def lock(self, node, by):
        """Lock or unlock a path."""
        while node is not self.root:
            node.locks += by
            node = node.parent

    def depth(self, node):
        """Number of pages from the root to the end of a node."""
        return len(self.path(node))

    def nodes(self, node=None):
        """All nodes but the root."""
        for child in (node or self.root).children:
            yield child
            yield from self.nodes(child)

    @property
    def evictable(self):
        """Pages that nobody locks."""
        return sum(len(node.pages) for node in self.nodes() if not node.locks)

    def take(self, pages):
        """Allocate, giving up whole leaves until there is enough."""
        if self.free < pages:
            freed = 0
            while freed < pages:
                leaves = [node for node in self.nodes() if not node.children and not node.locks]
                if not leaves:
                    break
                leaf = min(leaves, key=lambda leaf: leaf.accessed)
                leaf.parent.children.remove(leaf)
                freed += len(leaf.pages)
            self.free += freed
        self.free -= pages
