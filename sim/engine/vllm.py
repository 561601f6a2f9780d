"""vLLM's V1 scheduler: one token budget a step, running requests first, then the waiting queue.

One step: every running request, oldest admission first, gets the tokens it lacks (a decode one, a prompt a chunk) while
the budget lasts; then waiting requests are admitted from the head of the queue while budget and places are left and
nothing was preempted. Admission needs free blocks for the whole prompt beyond its cached part (or for its first chunk
only); if the head cannot be admitted nobody behind it is tried. A running request that needs a block when none is free
preempts the latest admitted one, possibly itself; the victim starts over at the head of the queue and finds what is
left of its own blocks in the prefix cache.

A request of a hybrid model (attention and recurrent layers) holds blocks for its state while it runs, and its chunks
end at block boundaries, where the state can be kept with the prefix; blocks are as large as the state makes them.

Source: vllm-project/vllm ``vllm/v1/core/sched/scheduler.py`` and ``kv_cache_manager.py``.
Left out: priorities, speculative decoding, encoder budgets, connectors; the room of states that are kept with cached
prefixes, and that only the ends of chunks have one; chunks that leave too few tokens for younger decodes.
"""

from collections.abc import Callable, Sequence

from sim.engine._scheduler import Chunk, Plan, Scheduler, StepCost, repeated_tokens, whole_content
from sim.engine._telling import Tell, TellingBlockCache
from sim.engine.block_cache import BlockCache, ForgettingBlockCache
from sim.engine.request import Request
from sim.engine.spec import EngineSpec


class VllmScheduler(Scheduler):
    """Batch former of a vLLM engine over a pool of ``capacity_tokens``."""

    aborts_at_once = counts_prefills = True

    def __init__(
        self,
        spec: EngineSpec,
        cost: StepCost,
        capacity_tokens: int,
        step_noise: Callable[[], float] | None = None,
    ) -> None:
        assert spec.block_tokens is not None
        assert spec.max_num_seqs is not None
        assert spec.max_num_batched_tokens is not None
        assert spec.watermark_share is not None
        super().__init__(
            cost,
            capacity_tokens,
            block=spec.block_tokens,
            overlap=spec.overlap,
            max_num_seqs=spec.max_num_seqs,
            step_noise=step_noise,
        )
        self.budget = spec.max_num_batched_tokens
        self.chunk_limit = spec.long_prefill_token_threshold or self.budget
        self.whole_prompt = bool(spec.reserve_full_prompt)
        self.watermark = int(spec.watermark_share * self.capacity)
        self.state_blocks = -(-(spec.state_tokens_per_seq or 0) // self.block)
        """Blocks that a running request of a hybrid model holds for its state, however long it is."""
        self.aligns = bool(spec.align_chunks)
        self.registers_early = spec.visibility == "at_schedule"
        self.remembers = spec.visibility != "never"
        self.tell: Tell | None = None
        self.cache: BlockCache = self._new_cache()
        self.prefills: list[Request] = []
        """Running requests whose prompt is not wholly scheduled, oldest first."""
        self.refused: Request | None = None
        """The head of the queue, where the last step formed had to leave it waiting: each further step asks again."""

    def fits(self, request: Request) -> bool:
        """Whether prompt and limit fit the empty pool beside the state."""
        return request.prompt_tokens + request.max_tokens <= (self.capacity - self.state_blocks) * self.block

    def form(self, now: int) -> Plan | None:
        """Decide the next step; see the module for the order."""
        decodes, cache = self.decodes, self.cache
        self.refused = None
        if decodes.next_limit <= decodes.steps:
            self._drop_ending()
        blocks = decodes.phases[-decodes.steps % self.block]
        preempted = False
        if (blocks > cache.free or self.prefills) and self._next_blocks() > cache.free:
            self._preempt()
            preempted = True
            blocks = decodes.need_next()
        cache.free -= blocks
        if self.prefills or (self.waiting and not preempted):
            chunks, left = self._form_chunks(now, not preempted)
            if chunks:
                return self._mixed_plan(chunks, left, preempted)
        if decodes.count:
            return self._decode_plan(preempted)
        self.plan = None
        return None

    def _form_chunks(self, now: int, is_admitting: bool) -> tuple[list[Chunk], int]:
        """The chunks of the next step, of running requests and of those it admits; and the budget left."""
        count = self.decodes.count
        left = self.budget - count
        chunks: list[Chunk] = []
        for request in self.prefills:
            tokens = min(request.target - request.computed, self.chunk_limit, left)
            if tokens <= 0:
                break
            if self.aligns:
                tokens = self._align(request.target, request.computed, tokens)
                if not tokens:
                    continue
            chunks.append((request, request.computed, tokens))
            left -= tokens
            self._take(request, tokens)
        if is_admitting and left > 0 and self.waiting:
            left = self._admit(chunks, left, now, bool(count or chunks))
        return chunks, left

    def advance(self, steps: int) -> None:
        """Account for more steps of the plan: blocks of the decodes, further chunks of its one prompt."""
        plan, decodes = self.plan, self.decodes
        assert plan is not None
        if self.refused is not None:
            self._ask_again(self.refused, steps)
        else:
            if plan.decodes:
                self.cache.free -= decodes.need(steps)
            decodes.steps += steps
        for request, _, tokens in plan.chunks:
            plan.repeated += self._take(request, tokens * steps)

    def _ask_again(self, head: Request, steps: int) -> None:
        """Decode steps before each of which the head is looked up and refused; what they take may shorten its hit."""
        decodes, cache = self.decodes, self.cache
        cached = -1
        hit = 0
        for _ in range(steps):
            cache.free -= decodes.need_next()
            decodes.steps += 1
            if cache.queued > cache.free:
                cache.settle()
            if cache.cached != cached:
                cached = cache.cached
                hit = cache.find(head.content, head.target - 1)[1] // self.block * self.block
            _count_look_up(head, hit)

    # -- the plan --------------------------------------------------------------------------------------------------

    def _decode_plan(self, is_single: bool) -> Plan:
        """One more token for every sequence; the plan of before if they are the same."""
        decodes, plan = self.decodes, self.plan
        repeat = 1 if is_single or (self.waiting and self.opens_soon) else decodes.horizon()
        if plan is None or plan.version != decodes.version or plan.chunks:
            self.plan = plan = self._new_plan((), decodes.count)
        decodes.steps += 1
        if repeat > 1:
            repeat -= 1
            free = self.cache.free
            if decodes.count * (repeat // self.block + 1) > free:
                repeat = decodes.affordable(repeat, free)
            repeat += 1
        plan.repeat = repeat
        return plan

    def _mixed_plan(self, chunks: list[Chunk], left: int, is_single: bool) -> Plan:
        """A step with prefill chunks; the plan of before if it is the next equal chunk of the same one prompt."""
        decodes, plan = self.decodes, self.plan
        finishing: list[Request] = []
        repeated = 0
        for request, before, tokens in chunks:
            if before + tokens == request.target:
                finishing.append(request)
            if before < request.high:
                repeated += repeated_tokens(request, before, tokens)
        repeat = 1 if is_single or finishing or self.opens_soon else self._equal_chunks(chunks, left)
        if finishing or plan is None or plan.version != decodes.version or not _goes_on(plan.chunks, chunks):
            self.plan = plan = self._new_plan(chunks, decodes.count)
            plan.finishing = finishing
        plan.repeated += repeated
        decodes.steps += 1
        for request in finishing:
            self._join_decodes(request, plan)
            if self.prefills and request in self.prefills:
                self.prefills.remove(request)
        if repeat > 1 and not self._can_afford(chunks[0], repeat - 1):
            repeat = 1
        plan.repeat = repeat
        return plan

    def _equal_chunks(self, chunks: list[Chunk], left: int) -> int:
        """Steps that take an equal chunk of one prompt if memory lasts and nobody arrives."""
        if len(chunks) > 1 or (left > 0 and self.waiting):
            return 1
        request, before, tokens = chunks[0]
        rest, most = request.target - before, min(self.chunk_limit, self.budget - self.decodes.count)
        steps = (rest - 1) // tokens
        if self.aligns:
            most = most // self.block * self.block
            steps = min(steps, (request.target // self.block * self.block - before) // tokens)
        if rest < 2 * tokens or tokens < most:
            return 1
        return max(1, min(self.decodes.horizon(), steps))

    def _can_afford(self, chunk: Chunk, steps: int) -> bool:
        """Whether further equal chunks and the decodes beside them need no preemption."""
        request, _, tokens = chunk
        block = self.block
        more = -(-(request.computed + tokens * steps) // block) - -(-request.computed // block)
        return self.decodes.need(steps) + more <= self.cache.free

    def _align(self, target: int, before: int, tokens: int) -> int:
        """A chunk that ends at a block boundary, the last one of the prompt included, or takes what lies behind it."""
        last = target // self.block * self.block
        if before >= last:
            return tokens
        return last - before if before + tokens >= last else tokens // self.block * self.block

    # -- running requests ------------------------------------------------------------------------------------------

    def _next_blocks(self) -> int:
        """New blocks that the running requests take in the next step."""
        need = self.decodes.need_next()
        if self.prefills:
            block, left = self.block, self.budget - self.decodes.count
            for request in self.prefills:
                tokens = min(request.target - request.computed, self.chunk_limit, left)
                if tokens <= 0:
                    break
                if self.aligns:
                    tokens = self._align(request.target, request.computed, tokens)
                left -= tokens
                need += -(-(request.computed + tokens) // block) - -(-request.computed // block)
        return need

    # -- preemption ------------------------------------------------------------------------------------------------

    def _preempt(self) -> None:
        """Preempt from the end of the running list until every request that is left gets its blocks."""
        while self._next_blocks() > self.cache.free:
            self._evict(next(reversed(self.running)))

    def _evict(self, request: Request) -> None:
        """Take everything from a running request and put it at the head of the queue."""
        decodes = self.decodes
        del self.running[request]
        tokens = self._slots(request)
        generated = request.base_output
        if request.joined_at < 0:
            self.prefills.remove(request)
        else:
            generated += decodes.steps - request.joined_at
            decodes.leave(request)
        request.high = max(request.high, tokens)
        self.cache.register(request, whole_content(request), tokens)
        self.cache.release(request, -(-tokens // self.block) + self.state_blocks)
        if 0 <= request.joined_at and request.ends_at <= decodes.steps:
            request.preemptions += 1  # its last token is under way: nothing is left to compute
            return
        request.rewind(generated)
        self.waiting.appendleft(request)

    # -- admission and end -----------------------------------------------------------------------------------------

    def _admit(self, chunks: list[Chunk], left: int, now: int, is_beside: bool) -> int:
        """Admit waiting requests in order while budget, places and blocks last; returns the budget left."""
        block, cache, waiting, running = self.block, self.cache, self.waiting, self.running
        while waiting and left > 0 and len(running) < self.max_num_seqs:
            request = waiting[0]
            target = request.target
            node, depth = cache.find(request.content, target - 1)
            hit = depth // block * block
            _count_look_up(request, hit)
            tokens = min(target - hit, self.chunk_limit, left)
            if self.aligns:
                tokens = self._align(target, hit, tokens)
                if not tokens:
                    self.refused = request
                    break
            need = (target if self.whole_prompt else hit + tokens) - hit
            need = -(-need // block) + self.state_blocks
            if depth:
                need += cache.count_free_hits(node, depth)
            if is_beside:
                need += self.watermark
            if need > cache.free:
                self.refused = request
                break
            waiting.popleft()
            running[request] = None
            self.admissions += 1
            request.place = self.admissions
            cache.hold(request, node, depth)
            if self.state_blocks:
                cache.take(self.state_blocks)
            request.computed = hit
            if request.scheduled < 0:
                request.scheduled = now
                request.cached_tokens = hit
            self._take(request, tokens)
            if request.computed < target:
                self.prefills.append(request)
            chunks.append((request, hit, tokens))
            left -= tokens
            is_beside = True
        return left

    def _computed(self, request: Request) -> None:
        if not self.registers_early and request.leaf is not None:
            self.cache.register(request, request.content, request.target)

    def _finish(self, request: Request) -> None:
        """Outputs that a later prompt repeats stay findable; private ones only take room until evicted."""
        if request.output_source >= 0:
            self.cache.register(request, whole_content(request), request.prompt_tokens + request.output_tokens - 1)
        self.cache.release(request, -(-self._slots(request) // self.block) + self.state_blocks)
        self.running.pop(request, None)

    def give_up(self, request: Request) -> None:
        """As at the end; a prompt that is not wholly computed is findable as far as it is."""
        if request in self.prefills:
            self.prefills.remove(request)
        slots = self._slots(request)
        said = request.output_tokens - 1 if request.output_source >= 0 else 0
        self.cache.register(request, whole_content(request), min(slots, request.prompt_tokens + said))
        self.cache.release(request, -(-slots // self.block) + self.state_blocks)

    def clear(self) -> None:
        """Forget everything: the engine went down."""
        super().clear()
        version = self.cache.version
        self.cache.flush()
        self.cache = self._new_cache()
        self.cache.set_version(version)
        self.prefills = []
        self.refused = None

    def _new_cache(self) -> BlockCache:
        if not self.remembers:
            return ForgettingBlockCache(self.capacity, self.block)
        if self.tell is None:
            return BlockCache(self.capacity, self.block)
        return TellingBlockCache(self.capacity, self.block, self.tell)

    def listen(self, tell: Tell) -> None:
        """Tell what the cache stores and forgets from now on, when it is empty."""
        self.tell = tell
        self.cache = self._new_cache()

    def hush(self, plan: Plan) -> None:
        """The cache has told what this step does; the plan repeats only steps that change nothing findable."""
        cache = self.cache
        if cache.queued > cache.free:
            cache.settle()
        if plan.repeat > 1:
            plan.repeat = 1 if plan.chunks else 1 + self.decodes.affordable(plan.repeat - 1, cache.unused)


def _count_look_up(request: Request, hit: int) -> None:
    """As vLLM reports: every look-up counts, but those of a request that was preempted before."""
    if not request.preemptions:
        request.queried_tokens += request.target
        request.hit_tokens += hit


def _goes_on(before: Sequence[Chunk], chunks: Sequence[Chunk]) -> bool:
    """Whether a batch takes another equal chunk of the one prompt of before."""
    if len(chunks) != 1 or len(before) != 1:
        return False
    return chunks[0][0] is before[0][0] and chunks[0][2] == before[0][2]
