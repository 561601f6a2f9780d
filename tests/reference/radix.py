"""SGLang's radix tree, page by page: real nodes with real tokens.

Source: sgl-project/sglang ``python/sglang/srt/mem_cache/radix_cache.py``.
"""


class Node:
    """A run of pages that follows its parent's; a page is a tuple of tokens."""

    def __init__(self, parent, pages, accessed):
        self.parent = parent
        self.pages = pages
        self.children = []
        self.locks = 0
        self.is_dead = False
        self.accessed = accessed

    def path(self):
        """The nodes from the first below the root to this one."""
        return [] if self.parent is None else [*self.parent.path(), self]


class Radix:
    """The tree, and the free pages of the pool."""

    def __init__(self, pages, size):
        self.size = size
        self.free = pages
        self.version = 0
        self.roots = {0: Node(None, [], 0)}
        self.clock = 0

    @property
    def root(self):
        """Of what the present weights computed."""
        return self.roots.setdefault(self.version, Node(None, [], 0))

    def flush(self):
        """Unlocked pages are free; locked ones will be."""
        for node in self.nodes():
            if node.locks:
                node.is_dead = True
            else:
                self.free += len(node.pages)
        self.roots = {}

    def pages_of(self, tokens):
        """The whole pages of a list of tokens."""
        return [tuple(tokens[at : at + self.size]) for at in range(0, len(tokens) - self.size + 1, self.size)]

    def nodes(self, node=None):
        """All nodes but the roots."""
        for parent in [node] if node else list(self.roots.values()):
            for child in parent.children:
                yield child
                yield from self.nodes(child)

    def match(self, tokens):
        """Where the longest match of the tokens ends (a node is split there) and how many tokens match."""
        node, depth = self._walk(self.root, self.pages_of(tokens))
        return node, depth * self.size

    def _walk(self, node, pages):
        """Go down as far as the pages agree; every node on the way is accessed now, a part that is split off too."""
        self.clock += 1
        depth = 0
        while depth < len(pages):
            child = next((child for child in node.children if child.pages[0] == pages[depth]), None)
            if child is None:
                break
            child.accessed = self.clock
            same = 0
            while same < len(child.pages) and depth + same < len(pages) and child.pages[same] == pages[depth + same]:
                same += 1
            if same < len(child.pages):
                child = self._split(child, same)
            node, depth = child, depth + same
        return node, depth

    def _split(self, node, same):
        upper = Node(node.parent, node.pages[:same], self.clock)
        upper.locks, upper.children = node.locks, [node]
        upper.parent.children[upper.parent.children.index(node)] = upper
        node.parent, node.pages = upper, node.pages[same:]
        return upper

    def insert(self, tokens, version=0):
        """Put the whole pages of the tokens into the tree, what is new as ONE node.

        Returns the last node and how many pages were there before.
        """
        pages = self.pages_of(tokens)
        node, depth = self._walk(self.roots.setdefault(version, Node(None, [], 0)), pages)
        if depth < len(pages):
            leaf = Node(node, pages[depth:], self.clock)
            node.children.append(leaf)
            node = leaf
        return node, depth

    def lock(self, node, by):
        """Lock (1) or unlock (-1) the path to a node."""
        for each in node.path():
            each.locks += by
            if each.is_dead and not each.locks:
                self.free += len(each.pages)

    @property
    def evictable(self):
        """Pages of nodes that nobody locks."""
        return sum(len(node.pages) for node in self.nodes() if not node.locks)

    def make_room(self, pages):
        """If fewer than these are free, evict as many: not only those that lack.

        Unlocked leaves go, least recently accessed first.
        """
        if self.free >= pages:
            return
        evicted = 0
        while evicted < pages:
            leaves = [node for node in self.nodes() if not node.children and not node.locks]
            if not leaves:
                return
            leaf = min(leaves, key=lambda leaf: leaf.accessed)
            leaf.parent.children.remove(leaf)
            self.free += len(leaf.pages)
            evicted += len(leaf.pages)

    def contents(self):
        """What can be found: the tokens from the start to the end of every page."""
        found = set()
        for node in self.nodes(self.root):
            tokens = [token for each in node.path()[:-1] for page in each.pages for token in page]
            for page in node.pages:
                tokens = [*tokens, *page]
                found.add(tuple(tokens))
        return found
