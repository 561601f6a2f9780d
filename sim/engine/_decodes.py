"""The sequences that decode, counted in steps instead of visited one by one.

All decoding sequences of an engine gain one token a step, so what a step needs follows from a step count: contexts sum
to ``offset + n * steps``; a sequence needs a new block when its fill crosses a block, which a histogram of fill modulo
block answers for any number of steps; the next end is the head of a heap. Nothing here costs O(sequences) a step.
"""

from heapq import heappop, heappush

from sim.engine.request import Request

FAR = 1 << 60


class Decodes:
    """The decoding sequences; ``steps`` counts the decode steps scheduled so far."""

    __slots__ = (
        "block",
        "by_limit",
        "by_stop",
        "count",
        "generated_before",
        "joined",
        "next_limit",
        "next_stop",
        "offset",
        "over",
        "overlap",
        "phases",
        "steps",
        "version",
    )

    def __init__(self, block: int, *, overlap: bool) -> None:
        self.block = block
        self.overlap = overlap
        self.steps = 0
        self.count = 0
        self.offset = 0
        self.joined = 0
        """Step counts at which the present sequences joined, summed."""
        self.generated_before = 0
        """Tokens of those that left."""
        self.version = 0
        """Changes whenever a sequence joins or leaves."""
        self.over = 0
        """Sequences that ended with their prefill, unknown to the scheduler when it planned the next step."""
        self.phases = [0] * (2 * block)
        """Sequences by fill modulo block relative to the step count, written twice so that a slice never wraps."""
        self.by_stop: list[tuple[int, int, int, Request]] = []
        """Ends that are known when the token is there, soonest first."""
        self.next_stop = FAR
        """Step count of the soonest of these."""
        self.by_limit: list[tuple[int, int, int, Request]] = []
        """Ends that an overlapping scheduler knows beforehand."""
        self.next_limit = FAR

    def join(self, request: Request) -> None:
        """Add a sequence whose prefill is scheduled; its ``base_output`` counts the token of that prefill."""
        steps = self.steps
        block, phases = self.block, self.phases
        request.joined_at = steps
        request.ends_at = ends_at = steps + request.output_tokens - request.base_output
        self.count += 1
        self.joined += steps
        self.version += 1
        fill = request.target - steps
        self.offset += fill
        request.phase = phase = fill % block
        phases[phase] += 1
        phases[phase + block] += 1
        if ends_at > steps:
            entry = (ends_at, request.view.id, request.epoch, request)
            if self.overlap and request.output_tokens >= request.max_tokens:
                heappush(self.by_limit, entry)
                self.next_limit = self.by_limit[0][0]
            else:
                heappush(self.by_stop, entry)
                self.next_stop = self.by_stop[0][0]
        else:
            self.over += 1

    def leave(self, request: Request) -> None:
        """Take a sequence out; its entry in a heap is dropped when it comes up."""
        self.count -= 1
        self.joined -= request.joined_at
        self.generated_before += self.steps - request.joined_at
        self.version += 1
        self.offset -= request.target - request.joined_at
        if request.ends_at <= request.joined_at:
            self.over -= 1
        phases, phase = self.phases, request.phase
        phases[phase] -= 1
        phases[phase + self.block] -= 1

    def stop(self, request: Request) -> None:
        """Let a sequence end sooner, by its new ``output_tokens``, as if by a stop token."""
        request.epoch += 1
        request.ends_at = ends_at = request.joined_at + request.output_tokens - request.base_output
        if ends_at > request.joined_at:
            heappush(self.by_stop, (ends_at, request.view.id, request.epoch, request))
            self.next_stop = self.by_stop[0][0]
        else:
            self.over += 1

    @property
    def generated(self) -> int:
        """Tokens of all decode steps scheduled so far, the last one of an ended sequence that decodes in vain too."""
        return self.generated_before + self.count * self.steps - self.joined

    def tokens(self, request: Request) -> int:
        """KV slots of a sequence after the steps scheduled so far."""
        return request.target + self.steps - request.joined_at

    def context(self) -> int:
        """Context tokens that the next step reads, its own tokens included."""
        return self.offset + self.count * (self.steps + 1)

    def need(self, steps: int) -> int:
        """New blocks that the next ``steps`` steps take."""
        block = self.block
        if block == 1:
            return self.count * steps
        last = -self.steps % block + block + 1
        return self.count * (steps // block) + sum(self.phases[last - steps % block : last])

    def need_next(self) -> int:
        """New blocks that the next step takes."""
        return self.phases[-self.steps % self.block]

    def affordable(self, steps: int, free: int) -> int:
        """Most steps, up to ``steps``, that take no more than ``free`` blocks."""
        if self.need(steps) <= free:
            return steps
        low, high = 0, steps
        while high - low > 1:
            middle = (low + high) // 2
            if self.need(middle) <= free:
                low = middle
            else:
                high = middle
        return low

    def horizon(self) -> int:
        """Steps until a sequence leaves, or fewer; a stop token of an overlapping engine is noticed one step late."""
        if self.over:
            return 1
        limit, stop = self.next_limit, self.next_stop + self.overlap
        steps = (limit if limit < stop else stop) - self.steps
        return steps if steps > 1 else 1  # the soonest may have left already: who is preempted stays in the heap

    def pop_limited(self) -> list[Request]:
        """Sequences whose last token is scheduled and known to be the last."""
        heap = self.by_limit
        ending = _pop(heap, self.steps)
        self.next_limit = heap[0][0] if heap else FAR
        return ending

    def pop_stopped(self, completed: int) -> list[Request]:
        """Sequences whose last token came by the ``completed``-th step."""
        heap = self.by_stop
        ended = _pop(heap, completed)
        self.next_stop = heap[0][0] if heap else FAR
        return ended


def _pop(heap: list[tuple[int, int, int, Request]], steps: int) -> list[Request]:
    """Take the ends up to a step count from a heap; those of requests that were preempted since are void."""
    popped = []
    while heap and heap[0][0] <= steps:
        _, _, epoch, request = heappop(heap)
        if request.epoch == epoch:
            popped.append(request)
    return popped
