"""SGLang's radix cache: runs of tokens in a tree, whole unlocked leaves evicted by last access.

A running request locks the path it hit; tokens it computes belong to it until they are inserted, after a prefill and at
its end, where a part that another request inserted first is freed as a duplicate. Eviction is asked for a number of
tokens and gives up whole leaves, least recently accessed first, so more may go; a parent becomes a leaf when its last
child goes. Every match and every insertion refreshes the access of the whole path.

The queue holds unlocked nodes by access, a child before its parent, so its head is always the leaf to evict. Access of
a locked node matters only once it is unlocked; it is carried by the request (``stamp``) and written then.

Source: sgl-project/sglang ``python/sglang/srt/mem_cache/radix_cache.py``.
Left out: eviction rules other than LRU, host tiers, the separate tree for each LoRA.
"""

from policies._content import Content
from sim.engine._decodes import FAR
from sim.engine._tree import DEAD, OUT, Node, Tree
from sim.engine.request import Request


class RadixCache(Tree):
    """A pool of ``capacity`` pages of ``block`` tokens; ``free + evictable`` is what admission counts."""

    def __init__(self, capacity: int, block: int) -> None:
        super().__init__(block)
        self.capacity = capacity
        self.free = capacity
        self.evictable = 0
        """Pages of unlocked nodes."""
        self.clock = 0
        self.runs = 0

    def pages(self, node: Node) -> int:
        """Pages that a node owns."""
        return node.end // self.block - node.start // self.block

    def usage(self) -> tuple[int, int]:
        """Pages held by running requests, and evictable ones."""
        return self.capacity - self.free - self.evictable, self.evictable

    # -- looking and locking --------------------------------------------------------------------------------------

    def find(self, request: Request, limit: int) -> tuple[Node, int]:
        """Longest match of a request's content, a node boundary; refreshes the access of its path."""
        node, depth = self.match(request.content, limit)
        if depth < node.end and node.parent is not None:
            node = self.split(node, depth)
        self.clock = request.stamp = clock = self.clock + 1
        if node.run and node.children:
            self._part(node)
        queue = self.queue
        step: Node | None = node
        while step is not None:  # ``_access`` of the whole path, a node for each turn of a session
            step.stamp = clock
            after = step.after
            if after is not OUT:
                before = step.before
                before.after = after
                after.before = before
                step.before = last = queue.before
                step.after = queue
                last.after = queue.before = step
            step = step.parent
        return node, node.end // self.block * self.block

    def cached_tokens(self, content: Content) -> int:
        """Tokens of the longest cached prefix; leaves no trace."""
        return self.match(content, FAR)[1] // self.block * self.block

    def _access(self, node: Node) -> None:
        """A node is used now: it is evicted after all others."""
        node.stamp = self.clock
        if node.after is not OUT:
            self.unlink(node)
            self.append(node)

    @staticmethod
    def _next_of_run(node: Node) -> Node | None:
        """The node that continues a node and was inserted with it: none of its children came before that."""
        for child in node.children.values():
            return child if child.run == node.run else None
        return None

    def _part(self, node: Node) -> None:
        """A match or an insertion ends here: a run that goes on below is two from now on, both accessed.

        A leaf goes on nowhere, and the root (run 0) is in no run: who calls this asks for that first.
        """
        below = []
        step = self._next_of_run(node)
        if step is None:
            return
        while step is not None:
            below.append(step)
            step = self._next_of_run(step)
        top = node
        while top.parent is not None and top.parent.run == node.run:
            top = top.parent
        is_accessed = node.end // self.block > top.start // self.block
        self.runs += 1
        for each in reversed(below):
            each.run = self.runs
            if is_accessed:
                self._access(each)

    def count_unlocked(self, node: Node) -> int:
        """Pages on the path to a node that are evictable now and would not be once it is locked."""
        step: Node | None = node
        while step is not None and not step.refs:
            step = step.parent
        locked = step.end if step is not None else 0
        return node.end // self.block - locked // self.block

    @staticmethod
    def owner(node: Node, tokens: int) -> Node:
        """Of a node and those above it, the one that owns the page that ends after so many tokens."""
        while node.parent is not None and node.start >= tokens:
            node = node.parent
        return node

    def above(self, node: Node) -> Node:
        """The next node above that owns a page, or the root."""
        parent = node.parent
        while parent is not None and parent.parent is not None and not self.pages(parent):
            parent = parent.parent
        assert parent is not None
        return parent

    def lock(self, request: Request, node: Node) -> None:
        """Hold the path to a node for a request."""
        request.leaf = node
        block = self.block
        step: Node | None = node
        while step is not None:
            if not step.refs:
                pages = step.end // block - step.start // block
                if pages:
                    self.evictable -= pages
                    self.unlink(step)
            step.refs += 1
            step = step.parent

    def _lock(self, node: Node) -> None:
        pages = self.pages(node)
        if pages:
            self.evictable -= pages
            self.unlink(node)

    def unlock(self, request: Request) -> None:
        """Let go of the path of a request; its nodes stay, evictable."""
        stamp, block, queue = request.stamp, self.block, self.queue
        step: Node | None = request.leaf
        while step is not None:
            step.refs = refs = step.refs - 1
            if step.stamp < stamp:
                step.stamp = stamp
            parent = step.parent
            if not refs and parent is not None:
                pages = step.end // block - step.start // block
                if step.source == DEAD:
                    self.free += pages
                elif pages:
                    self.evictable += pages
                    last = queue.before
                    if last is queue or last.stamp <= step.stamp:
                        self.append(step)
                    else:
                        self._queue(step)
                elif not step.children:
                    self.remove(step)
            step = parent
        request.leaf = None

    def _queue(self, node: Node) -> None:
        """Put an unlocked node behind all that were accessed before it."""
        before = self.queue.before
        stamp = node.stamp
        while before is not self.queue and before.stamp > stamp:
            before = before.before
        self._link(node, before)

    # -- taking and giving ------------------------------------------------------------------------------------------

    def take(self, pages: int) -> None:
        """Allocate pages, evicting if need be; ``free + evictable`` must suffice."""
        if self.free < pages:
            self.evict(pages)
        self.free -= pages

    def make_room(self, pages: int) -> None:
        """If fewer than these are free, evict as many."""
        if self.free < pages:
            self.evict(pages)

    def take_each(self, pages: int, steps: int) -> None:
        """Allocate ``pages`` at each of ``steps`` decode steps, evicting at the step that needs it."""
        while pages and steps:
            now = min(steps, self.free // pages)
            self.free -= pages * now
            steps -= now
            if steps:
                self.evict(pages)

    def evict(self, pages: int) -> None:
        """Give up least recently accessed leaves until at least ``pages`` pages are freed or none is left."""
        queue = self.queue
        freed = 0
        while freed < pages:
            node = queue.after
            if node is queue:
                break
            for each in self._whole(node):
                freed += self.pages(each)
                if each.after is not OUT:
                    self.unlink(each)
                if each.parent is not None:
                    self.remove(each)
        self.free += freed
        self.evictable -= freed

    def _whole(self, node: Node) -> list[Node]:
        """A leaf and what was inserted with it, last first."""
        whole = [node]
        parent = node.parent
        while parent is not None and parent.run == node.run:
            whole.append(parent)
            parent = parent.parent
        return whole

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """Insert the whole pages among the first ``tokens`` of the content, which the request computed.

        Pages that another request inserted first are freed; the request then holds theirs.
        """
        depth = tokens // self.block * self.block
        leaf: Node = request.leaf
        at = leaf.end
        if leaf.source == DEAD:
            return
        self.clock += 1
        self.runs += 1
        run = self.runs
        request.stamp = self.clock
        span_end = 0
        for source, length in content:
            span_end += length
            if span_end <= at:
                continue
            stop = span_end if span_end < depth else depth
            while at < stop:
                child = leaf.children.get(source)
                if child is None:
                    if leaf.run and leaf.children:
                        self._part(leaf)
                    child = Node(leaf, source, at, stop)
                    child.run = run
                    child.born = self.clock
                    leaf.children[source] = child
                else:
                    if stop < child.end:
                        child = self.split(child, stop)
                    self.free += self.pages(child)
                    if not child.refs:
                        self._lock(child)
                child.refs += 1
                leaf = child
                at = leaf.end
            if at >= depth:
                break
        if leaf.run and leaf.children:
            self._part(leaf)
        request.leaf = leaf

    def flush(self) -> None:
        """Forget all content: evictable pages are free now, those that somebody holds when they are let go."""
        self.free += self.evictable
        self.evictable = 0
        queue = self.queue
        queue.before = queue.after = queue
        self._bury()


class ForgettingRadixCache(RadixCache):
    """Prefix caching off: what is computed belongs to its request alone, and is freed with it."""

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """Nothing is ever found."""
