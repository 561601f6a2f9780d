"""vLLM's automatic prefix cache: blocks found by content, one free queue in eviction order.

A request holds ``ceil(tokens / block)`` blocks. Full blocks are found by the chain of their contents; a block whose
last holder leaves goes to the tail of the free queue and keeps its content; allocation pops from the head and forgets
what was there. A request gives its blocks back in reverse order, so its tail goes first and prefixes live longest.
Never-used blocks, partial blocks and outputs that no prompt repeats stand in the same queue at their place.

Blocks are taken by counting alone: ``free`` falls. Blocks that were never used stand at the head of the queue and are
only counted, ``free - queued`` of them; where ``free`` is less than ``queued``, blocks of the queue are taken but not
yet popped. They are popped before anybody looks: a pop at the head and an append at the tail commute, so the queue is
the one that a pop at each step would leave.

Source: vllm-project/vllm ``vllm/v1/core/block_pool.py`` and ``kv_cache_manager.py``.
Left out: a second physical copy of a registered block (a fully cached prompt recomputes its last block) is held by its
request but never found; block hashes as numbers; cache salts.
"""

from policies._content import Content
from sim.engine._tree import OUT, Node, Tree
from sim.engine.request import Request


class BlockCache(Tree):
    """A pool of ``capacity`` blocks of ``block`` tokens."""

    def __init__(self, capacity: int, block: int) -> None:
        super().__init__(block)
        self.capacity = capacity
        self.free = capacity
        """Blocks that nobody holds, cached or not. Who takes some lowers it, having asked whether there are enough."""
        self.cached = 0
        """Of them, blocks with content that can be found."""
        self.queued = 0
        """Blocks of all entries of the queue."""

    @property
    def unused(self) -> int:
        """Of the free, blocks never used: they stand at the head of the queue."""
        return max(0, self.free - self.queued)

    @property
    def owed(self) -> int:
        """Blocks of the queue that are taken but not yet popped."""
        return max(0, self.queued - self.free)

    def usage(self) -> tuple[int, int]:
        """Blocks that requests hold, and cached blocks that nobody holds."""
        if self.queued > self.free:
            self.settle()
        return self.capacity - self.free, self.cached

    # -- looking and taking ---------------------------------------------------------------------------------------

    def find(self, content: Content, limit: int) -> tuple[Node, int]:
        """``match`` on the settled cache; what matches nothing needs no settling."""
        if content[0][0] not in self.root.children:
            return self.root, 0
        if self.queued > self.free:
            self.settle()
        return self.match(content, limit)

    def count_free_hits(self, node: Node, depth: int) -> int:
        """Blocks of the first ``depth`` tokens on the path to ``node`` that stand in the free queue."""
        block, blocks = self.block, 0
        end = depth
        step: Node | None = node
        while step is not None and not step.refs:
            blocks += end // block - step.start // block
            end = step.start
            step = step.parent
        return blocks

    def hold(self, request: Request, node: Node, depth: int) -> None:
        """Take the path to ``depth`` that ``find`` gave for a request."""
        if depth < node.end and node.parent is not None:
            node = self.split(node, depth)
        request.leaf = node
        block = self.block
        while True:
            if not node.refs:
                blocks = node.end // block - node.start // block
                if blocks:
                    self.free -= blocks
                    self.queued -= blocks
                    self.cached -= blocks
                    self.unlink(node)
            node.refs += 1
            parent = node.parent
            if parent is None:
                return
            node = parent

    def take(self, blocks: int) -> None:
        """Allocate blocks from the head of the free queue; there must be enough."""
        self.free -= blocks

    def settle(self) -> None:
        """Pop the blocks that were taken, forgetting what they held."""
        block, queue, owed = self.block, self.queue, self.owed
        self.queued -= owed
        while owed:
            entry = queue.after
            last = entry.end // block
            blocks = last - entry.start // block
            if blocks > owed:
                entry.end = (last - owed) * block
                if entry.parent is not None:
                    self.cached -= owed
                return
            owed -= blocks
            queue.after = after = entry.after
            after.before = queue
            entry.before = entry.after = OUT
            if entry.parent is not None:
                self.cached -= blocks
                self.remove(entry)

    # -- registering and giving back --------------------------------------------------------------------------------

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """Make the full blocks among the first ``tokens`` of the content findable; the request holds them already."""
        depth = tokens // self.block * self.block
        leaf: Node = request.leaf
        at = leaf.end
        if at >= depth:
            return
        if self.queued > self.free and (leaf.parent is not None or content[0][0] in leaf.children):
            self.settle()
        span_end = 0
        for source, length in content:
            span_end += length
            if span_end <= at:
                continue
            stop = span_end if span_end < depth else depth
            while at < stop:
                child = leaf.children.get(source)
                if child is not None:
                    leaf = self._join(request, child, stop)
                elif leaf.source == source and leaf.refs == 1 and not leaf.children and leaf.parent is not None:
                    leaf.end = stop
                else:
                    child = Node(leaf, source, at, stop)
                    child.refs = 1
                    leaf.children[source] = child
                    leaf = child
                at = leaf.end
            if at >= depth:
                break
        request.leaf = leaf

    def _join(self, request: Request, child: Node, stop: int) -> Node:
        """Go down into content that another request registered first; this one keeps its own copy of the blocks."""
        if stop < child.end:
            child = self.split(child, stop)
        blocks = child.end // self.block - child.start // self.block
        if child.refs:
            request.duplicates += blocks
        elif blocks:
            self.replace(child, Node(None, -1, 0, blocks * self.block))
            self.cached -= blocks
        child.refs += 1
        return child

    def release(self, request: Request, held: int) -> None:
        """Give back the ``held`` blocks of a request, last block first."""
        block = self.block
        node: Node = request.leaf
        loose = held - node.end // block + request.duplicates
        if loose > 0:
            self.free += loose
            self.queued += loose
            self.append(Node(None, -1, 0, loose * block))
        lower: Node | None = None
        step: Node | None = node
        while step is not None:
            step.refs = refs = step.refs - 1
            parent = step.parent
            lower = None if refs or parent is None else self._give_up(step, lower)
            step = parent
        request.leaf = None
        request.duplicates = 0

    def _give_up(self, node: Node, lower: Node | None) -> Node | None:
        """Queue a node that lost its last holder; one that ``lower`` just continued is merged with it."""
        block = self.block
        blocks = node.end // block - node.start // block
        self.free += blocks
        self.queued += blocks
        self.cached += blocks
        if lower is not None and lower.source == node.source and len(node.children) == 1 and not lower.children:
            if lower.after is not OUT:
                self.unlink(lower)
            node.children.clear()
            node.end = lower.end
            lower.parent = None
            blocks = node.end // block - node.start // block
        if blocks:
            self.append(node)
        elif not node.children:
            self.remove(node)
            return None
        return node
