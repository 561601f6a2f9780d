"""What the schedulers of vLLM and SGLang share: plans, their cost, and what follows when a step is done.

A scheduler is asked at boundaries of steps. ``form`` decides the next step and accounts for it as scheduled;
``advance`` accounts for further steps of the same plan; ``complete`` says which requests got their last token by a
boundary. A plan also says for how many steps the same decision would be taken again if nobody arrived: that is the
length of a jump. The scheduler knows no clock and no SimPy; times are arguments.

Cost of a step: form D of the calibration fits, ``base[N] + pair*A + seq*n + ctx*C + chunk*K``, rounded once to ticks
when the batch changes; step j of a run takes ``first + growth*(j-1)``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import sqrt
from typing import ClassVar, Protocol

from policies._content import Content, extend
from sim.engine._decodes import Decodes
from sim.engine.request import Request
from sim.log.record import ABORTED, FINISHED, REJECTED


class StepCost(Protocol):
    """Compiled cost of a step, in ticks (``sim.cost.Coefficients``)."""

    base: list[float]
    pair: float
    seq: float
    ctx: float
    chunk: float

    def cover(self, tokens: int) -> None:
        """Extend ``base`` to steps of ``tokens`` tokens."""


class KvPool(Protocol):
    """What both prefix caches offer to what the schedulers share."""

    def take(self, blocks: int) -> None:
        """Allocate blocks; the caller asked before whether there are enough."""

    def register(self, request: Request, content: Content, tokens: int) -> None:
        """Make the first ``tokens`` tokens, which the request holds, findable."""

    def flush(self) -> None:
        """Forget all content; what requests hold stays theirs and is not found again."""

    def set_version(self, version: int) -> None:
        """Keep what is computed from now on apart from what weights of another version computed."""

    def cached_tokens(self, content: Content) -> int:
        """Tokens of the longest cached prefix; leaves no trace."""

    def usage(self) -> tuple[int, int]:
        """Blocks held by requests, and blocks cached beside them."""


Chunk = tuple[Request, int, int]
"""A request, tokens before the chunk, tokens of the chunk."""


class Plan:
    """A batch, and for how many steps it may run unasked."""

    __slots__ = (
        "chunks", "context", "decodes", "ends_request", "finishing", "first", "from_step", "growth", "kv_cached",
        "kv_used", "pairs", "prefill", "repeat", "repeated", "version", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        chunks: Sequence[Chunk],
        prefill: int,
        pairs: int,
        decodes: int,
        context: int,
        from_step: int,
        version: int,
        ticks: float,
        growth: float,
        waiting: int,
        usage: tuple[int, int],
    ) -> None:
        """``ticks`` and ``growth`` are rounded here, once; every boundary follows from the two integers."""
        self.chunks = chunks
        self.prefill = prefill
        """Tokens of the chunks."""
        self.pairs = pairs
        """Their query-key pairs in the first step."""
        self.decodes = decodes
        """Sequences that decode beside the chunks."""
        self.context = context
        """Context tokens that they read in the first step."""
        self.from_step = from_step
        """Decode steps scheduled before this plan."""
        self.version = version
        """Changes when a sequence joins or leaves the decodes."""
        self.repeat = 1
        """Steps for which the same decision would be taken, this one included."""
        self.finishing: Sequence[Request] = ()
        """Requests whose prompt is complete after this step; such a step is never repeated."""
        self.ends_request = False
        """Whether one of these has its last token with its prompt."""
        self.repeated = 0
        """Prefill tokens of all steps so far that were computed before a preemption."""
        self.first = round(ticks) or 1
        """Ticks of the first step."""
        self.growth = round(growth)
        """Ticks that each step takes longer than the one before."""
        self.waiting = waiting
        """Requests that wait while it runs."""
        self.kv_used, self.kv_cached = usage

    def boundary(self, elapsed: int) -> tuple[int, int]:
        """First step whose end is not before ``elapsed`` ticks, 0 for the start; and the ticks at its end."""
        if elapsed <= 0:
            return 0, 0
        first, growth = self.first, self.growth
        step = elapsed // first
        if step and growth:
            # Steps grow, so this may be too far. The root of the quadratic only guesses, the loops below decide.
            slope = first - growth / 2
            step = int((sqrt(slope * slope + 2 * growth * elapsed) - slope) / growth)
        ticks = step * first + growth * (step * (step - 1) // 2)
        while ticks >= elapsed:
            step -= 1
            ticks -= first + growth * step
        while ticks < elapsed:
            ticks += first + growth * step
            step += 1
        return step, ticks


class Scheduler:
    """Base of the batch formers; subclasses decide in ``form``."""

    aborts_at_once: ClassVar[bool]
    """Whether an aborted request leaves without the token of the step under way, or with one token more."""
    counts_prefills: ClassVar[bool]
    """Whether a step without decodes counts as a decode step."""

    def __init__(
        self,
        cost: StepCost,
        capacity_tokens: int,
        *,
        block: int,
        overlap: bool,
        max_num_seqs: int,
        step_noise: Callable[[], float] | None = None,
    ) -> None:
        self.cost = cost
        self.capacity = capacity_tokens // block
        self.block = block
        self.max_num_seqs = max_num_seqs
        self.step_noise = step_noise
        self.decodes = self._new_decodes(overlap=overlap)
        self.waiting: deque[Request] = deque()
        self.running: dict[Request, None] = {}
        """Admitted requests, oldest admission first."""
        self.cache: KvPool
        self.registers_early = False
        """Whether a prompt can be hit once its blocks are allocated, or only when it is computed."""
        self.remembers = True
        """Whether a prompt can be hit at all."""
        self.ending: list[Request] = []
        """Requests that left the batch and whose last step is under way."""
        self.plan: Plan | None = None
        self.admissions = 0
        self.aborted: dict[Request, int] = {}
        """Requests that end with their next token, and the output they would have had."""

    # -- asked by the shell --------------------------------------------------------------------------------------

    def accept(self, request: Request) -> bool:
        """Queue a request; one that can never fit the pool is rejected."""
        if self.fits(request):
            self.waiting.append(request)
            return True
        request.status = REJECTED
        return False

    def fits(self, request: Request) -> bool:
        """Whether prompt and limit fit the empty pool."""
        return request.prompt_tokens + request.max_tokens <= self.capacity * self.block

    def is_open(self) -> bool:
        """Whether a request that has just arrived could be admitted at the next boundary."""
        return len(self.waiting) == 1 and len(self.running) < self.max_num_seqs

    def form(self, now: int) -> Plan | None:
        """Decide the next step, account for it, and return its plan: the plan of before if nothing changed."""
        raise NotImplementedError

    def advance(self, steps: int) -> None:
        """Account for ``steps`` more steps of the current plan."""
        raise NotImplementedError

    def rest(self) -> None:
        """There is nothing to do and nothing under way."""

    def hold(self) -> None:
        """Form nothing though there may be work; whose last token is under way by the limit leaves as ever."""
        self.plan = None
        if self.decodes.next_limit <= self.decodes.steps:
            self._drop_ending()

    def is_quiet(self, plan: Plan, done: int) -> bool:
        """Whether the step under way, the ``done``-th decode step, ends without answer and registers nothing."""
        if self.ending or plan.ends_request or self.decodes.next_stop <= done:
            return False
        return self.registers_early or not plan.finishing

    def complete(self, plan: Plan, steps: int, now: int) -> list[Request]:
        """Requests that have their last token once ``steps`` steps of a plan are done; marks first tokens."""
        ended: list[Request] = []
        decodes, completed = self.decodes, plan.from_step + steps
        if self.ending and self.ending[0].ends_at <= completed:
            ended += self.ending
            self.ending = []
        if plan.decodes and decodes.next_stop <= completed:
            for request in decodes.pop_stopped(completed):
                if request.leaf is not None:
                    decodes.leave(request)
                ended.append(request)
        if len(ended) > 1:
            ended.sort(key=_place)
        if plan.finishing and steps:
            return self._complete_prefills(plan, ended, now)
        for request in ended:
            self._end(request, now)
        return ended

    def _complete_prefills(self, plan: Plan, ended: list[Request], now: int) -> list[Request]:
        """The step gave the first token (after a preemption: the next one) of its finishing prefills.

        What ends is handled in the order of the batch, together with what else ended.
        """
        answered: list[Request] = []
        computed = plan.finishing
        batch = sorted([*computed, *ended], key=_place) if ended or len(computed) > 1 else computed
        for request in batch:
            if request in computed:
                if request.first_token < 0:
                    request.first_token = now
                    if request.on_first_token is not None:
                        request.on_first_token(request)
                self._computed(request)
                if request.base_output < request.output_tokens:
                    continue
                if request.joined_at >= 0 and request.leaf is not None:
                    self.decodes.leave(request)
            self._end(request, now)
            answered.append(request)
        return answered

    def _end(self, request: Request, now: int) -> None:
        if request.leaf is not None:
            self._finish(request)
        request.status = FINISHED
        request.ended = now
        request.generated = request.output_tokens
        if self.aborted and request in self.aborted:
            request.status = ABORTED
            request.output_tokens = self.aborted.pop(request)

    @property
    def opens_soon(self) -> bool:
        """Whether somebody waits whom the end of the step under way may let in.

        It gives memory back, or registers a prompt that the head of the queue can then hit. Asked while ``plan`` is the
        plan of that step.
        """
        if not self.waiting:
            return False
        is_computing = self.plan is not None and self.plan.finishing and self.decodes.overlap
        return bool(self.ending or is_computing)

    # -- telling ---------------------------------------------------------------------------------------------------

    def listen(self, tell: Callable[[bool, Content, int], None]) -> None:
        """Tell what the cache stores and forgets from now on, when it is empty."""
        raise NotImplementedError

    def hush(self, plan: Plan) -> None:
        """The cache has told what this step does; the plan repeats only steps that change nothing findable."""
        raise NotImplementedError

    # -- leaving before the end ----------------------------------------------------------------------------------

    def give_up(self, request: Request) -> None:
        """Give back what a request holds that leaves before its end; prompt and output so far may be found."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything: the engine went down."""
        self.decodes = self._new_decodes(overlap=self.decodes.overlap)
        self.waiting.clear()
        self.running.clear()
        self.ending = []
        self.plan = None
        for request, output_tokens in self.aborted.items():
            request.output_tokens = output_tokens
        self.aborted.clear()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _new_decodes(self, *, overlap: bool) -> Decodes:
        return Decodes(self.block, overlap=overlap)

    def _computed(self, request: Request) -> None:
        """A prompt is computed: where content becomes visible only then, register it."""

    def _finish(self, request: Request) -> None:
        """Give back what an ended request holds; its content may be found by later prompts."""
        raise NotImplementedError

    def _join_decodes(self, request: Request, plan: Plan) -> None:
        """The last chunk of a prompt is scheduled: it will have one token more and decode from the next step on."""
        request.base_output += 1
        decodes = self.decodes
        if request.base_output < request.output_tokens:
            decodes.join(request)
            return
        plan.ends_request = True
        if decodes.overlap and not request.ends_by_limit:
            decodes.join(request)
        else:
            self.running.pop(request, None)

    def _drop_ending(self) -> None:
        """Sequences whose known last token is scheduled take no part in the next step."""
        for request in self.decodes.pop_limited():
            self.decodes.leave(request)
            self.running.pop(request, None)
            self.ending.append(request)

    def _take(self, request: Request, tokens: int) -> int:
        """Blocks for the next ``tokens`` tokens of a prompt; returns how many of these were computed before."""
        block, cache = self.block, self.cache
        before = request.computed
        request.computed = after = before + tokens
        request.prefill_tokens += tokens
        blocks = -(-after // block) - -(-before // block)
        if blocks:
            cache.take(blocks)
        if self.registers_early:
            cache.register(request, request.content, after)
        if before >= request.high:
            return 0
        repeated = repeated_tokens(request, before, tokens)
        request.recomputed_tokens += repeated
        return repeated

    def _slots(self, request: Request) -> int:
        """KV slots of a request: tokens computed or scheduled."""
        if request.joined_at < 0:
            return request.computed
        decodes = self.decodes
        last = decodes.steps
        if decodes.overlap and request.ends_by_limit:
            last = min(last, request.ends_at)
        return request.target + last - request.joined_at

    def _new_plan(self, chunks: Sequence[Chunk], count: int) -> Plan:
        """A plan of chunks and ``count`` decodes: its cost, and the pool as it stands."""
        decodes, cost, base = self.decodes, self.cost, self.cost.base
        steps = decodes.steps
        context = decodes.offset + count * (steps + 1) if count else 0
        prefill = pairs = 0
        ticks = cost.seq * count + cost.ctx * context
        growth = cost.ctx * count
        if chunks:
            for _, before, tokens in chunks:
                prefill += tokens
                pairs += tokens * before + tokens * (tokens + 1) // 2
            ticks += cost.pair * pairs + cost.chunk * len(chunks)
            if len(chunks) == 1:
                growth += cost.pair * prefill * prefill
        total = count + prefill
        try:
            ticks += base[total]
        except IndexError:
            cost.cover(total)
            ticks += base[total]
        if self.step_noise is not None:
            factor = self.step_noise()
            ticks *= factor
            growth *= factor
        return Plan(
            chunks, prefill, pairs, count, context, steps, decodes.version, ticks, growth,
            len(self.waiting), self.cache.usage(),
        )  # fmt: skip


def whole_content(request: Request) -> Content:
    """Prompt and all output: what the request's blocks can hold."""
    return extend(request.view.content, request.output_source, request.output_tokens)


def repeated_tokens(request: Request, before: int, tokens: int) -> int:
    """Of the ``tokens`` tokens after the first ``before``, those that were computed before a preemption."""
    return max(0, min(before + tokens, request.high) - before)


def _place(request: Request) -> int:
    return request.place
