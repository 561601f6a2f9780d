"""vLLM's V1 scheduler: one token budget a step, running requests first, then the waiting queue.

One step: every running request, oldest admission first, gets the tokens it lacks (a decode one, a prompt a chunk) while
the budget lasts; then waiting requests are admitted from the head of the queue while budget and places are left and
nothing was preempted. Admission needs free blocks for the whole prompt beyond its cached part (or for its first chunk
only); if the head cannot be admitted nobody behind it is tried. A running request that needs a block when none is free
preempts the latest admitted one, possibly itself; the victim starts over at the head of the queue and finds what is left
of its own blocks in the prefix cache.

Source: vllm-project/vllm ``vllm/v1/core/sched/scheduler.py`` and ``kv_cache_manager.py``.
Left out: priorities, speculative decoding, encoder budgets, connectors.
"""

from collections.abc import Callable

from sim.engine._scheduler import Chunk, Plan, Scheduler, StepCost
from sim.engine.block_cache import BlockCache
from sim.engine.request import Request
from sim.engine.spec import EngineSpec


class VllmScheduler(Scheduler):
    """Batch former of a vLLM engine over a pool of ``capacity_tokens``."""

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
        self.whole_prompt = spec.reserve_full_prompt
        self.watermark = int(spec.watermark_share * self.capacity)
        self.registers_early = spec.visibility == "at_schedule"
        self.cache: BlockCache = BlockCache(self.capacity, self.block)
        self.prefills: list[Request] = []
        """Running requests whose prompt is not wholly scheduled, oldest first."""

    def form(self, now: int) -> Plan | None:
        """Decide the next step; see the module for the order."""
        decodes, cache = self.decodes, self.cache
        if decodes.by_limit:
            self._drop_ending()
        preempted = False
        while self._next_blocks() > cache.free:
            self._preempt(next(reversed(self.running)))
            preempted = True
        count = decodes.count
        left = self.budget - count
        chunks: list[Chunk] = []
        for request in self.prefills:
            tokens = min(request.target - request.computed, self.chunk_limit, left)
            if tokens <= 0:
                break
            chunks.append((request, request.computed, tokens))
            left -= tokens
        if count:
            blocks = decodes.need(1)
            if blocks:
                cache.take(blocks)
        for request, _, tokens in chunks:
            self._take(request, tokens)
        if self.waiting and left > 0 and not preempted:
            left = self._admit(chunks, left, now, is_beside=bool(count or chunks))
        if not chunks and not count:
            self.plan = None
            return None
        return self._settle_plan(chunks, is_single=preempted, left=left)

    def advance(self, steps: int) -> None:
        """Account for more steps of the plan: blocks of the decodes, further chunks of its one prompt."""
        plan, decodes = self.plan, self.decodes
        assert plan is not None
        if plan.decodes:
            blocks = decodes.need(steps)
            if blocks:
                self.cache.take(blocks)
        decodes.steps += steps
        for request, _, tokens in plan.chunks:
            plan.repeated += self._take(request, tokens * steps)

    # -- the plan --------------------------------------------------------------------------------------------------

    def _settle_plan(self, chunks: list[Chunk], *, is_single: bool, left: int) -> Plan:
        """The plan of before if the batch is the same, else a new one; its first step is accounted for."""
        decodes, plan = self.decodes, self.plan
        finishing = [request for request, _, _ in chunks if request.computed == request.target]
        repeat = 1 if is_single or finishing or self.opens_soon else self._repeat(chunks, left)
        if plan is None or plan.version != decodes.version or finishing or not self._is_same(plan.chunks, chunks):
            self.plan = plan = Plan(chunks, decodes.count, decodes.context())
            plan.version = decodes.version
            plan.from_step = decodes.steps
            plan.finishing = finishing
            self._price(plan, chunks[0][2] if len(chunks) == 1 else 0)
        for request, before, tokens in chunks:
            plan.repeated += self._repeated(request, before, tokens)
        decodes.steps += 1
        for request in finishing:
            self._join_decodes(request, plan)
            if request in self.prefills:
                self.prefills.remove(request)
        if repeat > 1:
            repeat = 1 + self._affordable(plan, repeat - 1)
        plan.repeat = repeat
        return plan

    @staticmethod
    def _is_same(before: list[Chunk], chunks: list[Chunk]) -> bool:
        """Whether a batch only decodes on, or takes another equal chunk of the same one prompt."""
        if not chunks and not before:
            return True
        if len(chunks) != 1 or len(before) != 1:
            return False
        return chunks[0][0] is before[0][0] and chunks[0][2] == before[0][2]

    def _repeat(self, chunks: list[Chunk], left: int) -> int:
        """Steps for which this decision stands if memory lasts and nobody arrives."""
        repeat = self.decodes.horizon()
        if chunks:
            if len(chunks) > 1 or (left > 0 and self.waiting):
                return 1
            request, before, tokens = chunks[0]
            if request.target - before < 2 * tokens or tokens < min(self.chunk_limit, self.budget - self.decodes.count):
                return 1
            repeat = min(repeat, (request.target - before - 1) // tokens)
        return repeat

    def _affordable(self, plan: Plan, steps: int) -> int:
        """Further steps that need no preemption."""
        decodes, free, block = self.decodes, self.cache.free, self.block
        if plan.chunks:
            request, _, tokens = plan.chunks[0]
            more = -(-(request.computed + tokens * steps) // block) - -(-request.computed // block)
            return steps if decodes.need(steps) + more <= free else 0
        if decodes.count * (steps // block + 1) <= free:
            return steps
        return decodes.affordable(steps, free)

    def _next_blocks(self) -> int:
        """New blocks that the running requests take in the next step."""
        need = self.decodes.need(1)
        if self.prefills:
            block, left = self.block, self.budget - self.decodes.count
            for request in self.prefills:
                tokens = min(request.target - request.computed, self.chunk_limit, left)
                if tokens <= 0:
                    break
                left -= tokens
                need += -(-(request.computed + tokens) // block) - -(-request.computed // block)
        return need

    # -- preemption ------------------------------------------------------------------------------------------------

    def _preempt(self, request: Request) -> None:
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
        self.cache.register(request, self._whole(request), tokens)
        self.cache.release(request, -(-tokens // self.block))
        if 0 <= request.joined_at and request.ends_at <= decodes.steps:
            request.preemptions += 1  # its last token is under way: nothing is left to compute
            return
        request.rewind(generated)
        self.waiting.appendleft(request)

    # -- admission and end -----------------------------------------------------------------------------------------

    def _admit(self, chunks: list[Chunk], left: int, now: int, *, is_beside: bool) -> int:
        """Admit waiting requests in order while budget, places and blocks last; returns the budget left."""
        block, cache, waiting, running = self.block, self.cache, self.waiting, self.running
        while waiting and left > 0 and len(running) < self.max_num_seqs:
            request = waiting[0]
            target = request.target
            node, depth = cache.find(request.content, target - 1)
            hit = depth // block * block
            tokens = min(target - hit, self.chunk_limit, left)
            need = -(-(target if self.whole_prompt else hit + tokens) // block) - hit // block
            need += cache.count_free_hits(node, depth)
            if is_beside:
                need += self.watermark
            if need > cache.free:
                break
            waiting.popleft()
            running[request] = None
            cache.hold(request, node, depth)
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
            self.cache.register(request, self._whole(request), request.prompt_tokens + request.output_tokens - 1)
        self.cache.release(request, -(-self._slots(request) // self.block))
        self.running.pop(request, None)
