"""vLLM's automatic prefix cache: blocks found by content, one free queue in eviction order.

A request holds ``ceil(tokens / block)`` blocks. Full blocks are found by the chain of their contents; a block whose
last holder leaves goes to the tail of the free queue and keeps its content; allocation pops from the head and forgets
what was there. A request gives its blocks back in reverse order, so its tail goes first and prefixes live longest.
Never-used blocks, partial blocks and outputs that no prompt repeats stand in the same queue at their place.

Blocks are taken by counting alone: ``free`` falls. Blocks that were never used stand at the head of the queue and are
only counted, ``free - queued`` of them; where ``free`` is less than ``queued``, blocks of the queue are taken but not
yet popped. They are popped before anybody looks: a pop at the head and an append at the tail commute, so the queue is
the one that a pop at each step would leave.

A request that computes what another registered first (a fully cached prompt recomputes its last block) has a physical
copy of its own: there is no merging. Copies of a node stand in a list, oldest first; a look-up gives the oldest, and
content is forgotten when its last copy is popped.

Source: vllm-project/vllm ``vllm/v1/core/block_pool.py`` and ``kv_cache_manager.py``.
Left out: block hashes as numbers; cache salts; outputs are findable once their request has ended, not as blocks fill
(only a prompt that holds the answer of a request still running could tell).
"""

from policies._content import Content
from sim.engine._decodes import FAR
from sim.engine._tree import DEAD, OUT, Copy, Node, Tree
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

    def cached_tokens(self, content: Content) -> int:
        """Tokens of the longest cached prefix; leaves no trace."""
        return self.find(content, FAR)[1] // self.block * self.block

    def count_free_hits(self, node: Node, depth: int) -> int:
        """Blocks of the first ``depth`` tokens on the path to ``node`` that stand in the free queue."""
        block, blocks = self.block, 0
        end = depth
        step: Node | None = node
        while step is not None:
            if not step.refs:
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
        """Pop the blocks that were taken, forgetting what they held; some must be owed."""
        block, queue, owed = self.block, self.queue, self.queued - self.free
        self.queued = self.free
        while owed:
            entry = queue.after
            last = entry.end // block
            blocks = last - entry.start // block
            taken = blocks if blocks < owed else owed
            owed -= taken
            is_anonymous = entry.parent is None and entry.__class__ is Node
            if not is_anonymous:
                self.cached -= taken
                if entry.copies or entry.__class__ is Copy:
                    self._forget_copy(entry, (last - taken) * block)
                    continue
            if taken < blocks:
                entry.end = (last - taken) * block
                return
            queue.after = after = entry.after
            after.before = queue
            entry.before = entry.after = OUT
            if not is_anonymous:
                self.remove(entry)

    def _forget_copy(self, entry: Node, depth: int) -> None:
        """Pop one of several copies of a node's blocks beyond ``depth``; the content stays in the others."""
        node = entry.original if isinstance(entry, Copy) else entry
        if depth // self.block > node.start // self.block:
            self.split(node, depth)
        copies = node.copies
        assert copies is not None
        if isinstance(entry, Copy):
            self.unlink(entry)
            copies.remove(entry)
            return
        oldest = copies.pop(0)
        self.unlink(node)
        if oldest.holder is None:
            self.replace(oldest, node)
        else:
            node.refs = 1
            del oldest.holder.copies[node]

    def split(self, node: Node, depth: int) -> Node:
        """As in the tree; copies are cut alike."""
        upper = super().split(node, depth)
        if node.copies:
            for copy in node.copies:
                copy.start = depth
                self._copy_above(upper, copy)
            if node.end // self.block == node.start // self.block:
                self._drop_empty_copies(node)
        return upper

    def _copy_above(self, upper: Node, copy: Copy) -> None:
        """The part of a copy that a split moves to the upper node; who holds a node without blocks just counts."""
        holder = copy.holder
        if upper.end // self.block == upper.start // self.block:
            upper.refs += holder is not None
            return
        above = Copy(upper, holder)
        upper.copies = [*(upper.copies or ()), above]
        if holder is None:
            self._link(above, copy)
        else:
            holder.copies[upper] = above

    def _drop_empty_copies(self, node: Node) -> None:
        """A node that a split left without blocks has no copies; who held one just counts."""
        for copy in node.copies or ():
            if copy.holder is None:
                self.unlink(copy)
            else:
                del copy.holder.copies[node]
                node.refs += 1
        node.copies = None
        self._drop_if_bare(node)

    # -- registering and giving back --------------------------------------------------------------------------------

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """Make the full blocks among the first ``tokens`` of the content findable; the request holds them already."""
        depth = tokens // self.block * self.block
        leaf: Node = request.leaf
        at = leaf.end
        if at >= depth:
            return
        if leaf.source == DEAD:
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
                elif leaf.source == source and _is_own_tip(request, leaf):
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
        """Go down into content that another request registered first; this one has its own copy of the blocks."""
        if stop < child.end:
            child = self.split(child, stop)
        if child.end // self.block == child.start // self.block:
            child.refs += 1
            return child
        if request.copies is None:
            request.copies = {}
        request.copies[child] = copy = Copy(child, request)
        child.copies = [*(child.copies or ()), copy]
        return child

    def release(self, request: Request, held: int) -> None:
        """Give back the ``held`` blocks of a request, last block first."""
        block = self.block
        node: Node = request.leaf
        loose = held - node.end // block
        if loose > 0:
            self.free += loose
            self.queued += loose
            self.append(Node(None, -1, 0, loose * block))
        copies: dict[Node, Copy] | None = request.copies
        lower: Node | None = None
        step: Node | None = node
        while step is not None:
            parent = step.parent
            if copies and step in copies:
                self._give_up_copy(copies[step])
                lower = None
            else:
                step.refs = refs = step.refs - 1
                lower = None if refs or parent is None else self._give_up(step, lower)
            step = parent
        request.leaf = request.copies = None

    def _give_up_copy(self, copy: Copy) -> None:
        """Queue a copy that its request held; its content can still be found."""
        if copy.original.source == DEAD:
            self._give_up_dead(copy)
            return
        blocks = copy.end // self.block - copy.start // self.block
        copy.holder = None
        self.free += blocks
        self.queued += blocks
        self.cached += blocks
        self.append(copy)

    def _give_up(self, node: Node, lower: Node | None) -> Node | None:
        """Queue a node that lost its last holder; one that ``lower`` just continued is merged with it."""
        if node.source == DEAD:
            self._give_up_dead(node)
            return None
        block = self.block
        blocks = node.end // block - node.start // block
        self.free += blocks
        self.queued += blocks
        self.cached += blocks
        if lower is not None and _continues(lower, node):
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

    def _give_up_dead(self, held: Node) -> None:
        """Queue blocks whose content a flush forgot."""
        blocks = held.end // self.block - held.start // self.block
        if blocks:
            self.free += blocks
            self.queued += blocks
            self.append(Node(None, -1, held.start, held.end))

    def flush(self) -> None:
        """Forget all content. Free blocks keep their places in the queue; held ones are not found again."""
        if self.queued > self.free:
            self.settle()
        for entry in list(self.entries()):
            if entry.parent is not None or entry.__class__ is Copy:
                self.replace(entry, Node(None, -1, entry.start, entry.end))
        self.cached = 0
        self._bury()


class ForgettingBlockCache(BlockCache):
    """Prefix caching off: what is computed belongs to its request alone, and is freed with it."""

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """Nothing is ever found."""


def _is_own_tip(request: Request, leaf: Node) -> bool:
    """Whether a node ends here and is this request's alone, so that it can grow."""
    if leaf.refs != 1 or leaf.children or leaf.copies or leaf.parent is None:
        return False
    return not request.copies or leaf not in request.copies


def _continues(lower: Node, node: Node) -> bool:
    """Whether two nodes are one run: nothing else hangs on them, and both were given up together."""
    if lower.source != node.source or len(node.children) != 1 or lower.children:
        return False
    return not (lower.copies or node.copies)
