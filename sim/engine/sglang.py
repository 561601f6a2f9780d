"""SGLang's scheduler: a prefill batch whenever one can be formed, else one decode step of all running requests.

A prefill batch takes the chunked prompt of before, then waiting requests in order, within three budgets: new tokens
(``max_prefill_tokens``), chunk tokens (``chunked_prefill_tokens``: the last prompt is cut to what is left) and KV
memory. Admission asks that new tokens and the client's limit (clipped) fit into free and evictable pages less a reserve
for the running requests: the tokens they may still generate times ``new_token_ratio``, which falls with every decode
step, jumps after a retraction and returns when idle. Before a decode step, if pages do not suffice for one more token
each, requests with the fewest output tokens (longest prompt first among equals) are retracted to the end of the queue.

Source: sgl-project/sglang ``managers/schedule_policy.py``, ``schedule_batch.py``, ``environ.py``.
Left out: mixed chunks, queue orders other than first come first served, priorities.
"""

from collections.abc import Callable

from sim.engine._scheduler import Chunk, Plan, Scheduler, StepCost
from sim.engine.radix_cache import RadixCache
from sim.engine.request import Request
from sim.engine.spec import EngineSpec

INIT_NEW_TOKEN_RATIO = 0.7
"""SGLANG_INIT_NEW_TOKEN_RATIO; the floor is 0.14 of the start value."""
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14
RETRACT_DECODE_STEPS = 20
"""Decode steps that the estimate after a retraction looks ahead."""


class SglangScheduler(Scheduler):
    """Batch former of an SGLang engine over a pool of ``capacity_tokens``."""

    def __init__(
        self,
        spec: EngineSpec,
        cost: StepCost,
        capacity_tokens: int,
        step_noise: Callable[[], float] | None = None,
    ) -> None:
        assert spec.block_tokens is not None
        assert spec.max_num_seqs is not None
        assert spec.max_prefill_tokens is not None
        assert spec.chunked_prefill_tokens is not None
        assert spec.clip_max_new_tokens is not None
        assert spec.schedule_conservativeness is not None
        assert spec.new_token_ratio_decay_steps is not None
        super().__init__(
            cost,
            capacity_tokens,
            block=spec.block_tokens,
            overlap=spec.overlap,
            max_num_seqs=spec.max_num_seqs,
            step_noise=step_noise,
        )
        self.max_prefill = spec.max_prefill_tokens
        self.chunk = spec.chunked_prefill_tokens
        self.clip = spec.clip_max_new_tokens
        self.start_ratio = min(1.0, INIT_NEW_TOKEN_RATIO * spec.schedule_conservativeness)
        self.min_ratio = MIN_NEW_TOKEN_RATIO_FACTOR * self.start_ratio
        self.decay = (self.start_ratio - self.min_ratio) / spec.new_token_ratio_decay_steps
        self.ratio = self.start_ratio
        self.ratio_from = 0
        """Decode steps at which ``ratio`` was set; it falls from there."""
        self.registers_early = spec.visibility == "at_schedule"
        self.cache: RadixCache = RadixCache(self.capacity, self.block)
        self.chunked: Request | None = None
        """The one prompt that is partly done."""
        self.shortfall: tuple[int, int] | None = None
        """Tokens that the head of the queue needs and pages its match would lock, where memory refused it."""

    @property
    def is_open(self) -> bool:
        """Whether a request that arrives now could be admitted at the next boundary."""
        return self.chunked is None and super().is_open

    def fits(self, request: Request) -> bool:
        """Whether prompt and limit stay below the size of the pool."""
        return -(-request.prompt_tokens // self.block) * self.block + request.max_tokens < self.capacity * self.block

    def form(self, now: int) -> Plan | None:
        """Decide the next step: a prefill batch if one can be formed, else a decode step."""
        if self.decodes.next_limit <= self.decodes.steps:
            self._drop_ending()
        if self.waiting or self.chunked is not None:
            plan = self._form_prefill(now)
            if plan is not None:
                return plan
        if self.decodes.count and self._has_room():
            return self._form_decode()
        if self.waiting or self.chunked is not None:
            return self._form_prefill(now)
        self.plan = None
        return None

    def rest(self) -> None:
        """Nothing to do and nothing under way: the share of limits that is reserved starts anew."""
        self.ratio = self.start_ratio
        self.ratio_from = self.decodes.steps

    def advance(self, steps: int) -> None:
        """Account for more steps of the plan, each as it would have been formed."""
        plan, decodes = self.plan, self.decodes
        assert plan is not None
        if plan.chunks:
            request, _, tokens = plan.chunks[0]
            for _ in range(steps):
                self.cache.register(request, request.content, request.computed)
                plan.repeated += self._take(request, tokens)
        elif self.block == 1:
            self.cache.take_each(decodes.count, steps)
            decodes.steps += steps
        else:
            for _ in range(steps):
                self.cache.take_each(decodes.need_next(), 1)
                decodes.steps += 1

    # -- prefill -----------------------------------------------------------------------------------------------------

    def _form_prefill(self, now: int) -> Plan | None:
        """A batch of the chunked prompt and waiting requests, as far as the three budgets go."""
        cache, block, running = self.cache, self.block, self.running
        self.shortfall = None
        if self.chunked is not None:
            cache.register(self.chunked, self.chunked.content, self.chunked.computed)
        memory = (cache.free + cache.evictable) * block - self._reserved()
        chunks: list[Chunk] = []
        chunk_left, prefill_left = self.chunk, self.max_prefill
        before_batch = memory
        if self.chunked is not None:
            request = self.chunked
            tokens = self._chunk_tokens(request.target - request.computed, min(chunk_left, int(memory)))
            if tokens <= 0:
                return None
            chunks.append((request, request.computed, tokens))
            paged = -(-tokens // block) * block
            chunk_left -= paged
            prefill_left -= paged
            memory -= paged
            if request.computed + tokens == request.target:
                self.chunked = None
                memory -= self._limit_left(request)
        while self.waiting and chunk_left > 0 and prefill_left > 0 and len(running) < self.max_num_seqs:
            request = self.waiting[0]
            node, hit = cache.find(request, request.target - 1)
            rest = request.target - hit
            locked = cache.count_unlocked(node)
            paged = -(-rest // block) * block
            need = paged + self._limit_left(request)
            if need >= memory - locked * block:
                self.shortfall = (need, locked)
                break
            if chunks and paged >= prefill_left:
                break
            tokens = self._chunk_tokens(rest, chunk_left)
            if tokens <= 0:
                break
            self.waiting.popleft()
            running[request] = None
            self.admissions += 1
            request.place = self.admissions
            cache.lock(request, node)
            request.computed = hit
            if request.scheduled < 0:
                request.scheduled = now
                request.cached_tokens = hit
            chunks.append((request, hit, tokens))
            if self.registers_early:
                self._take(request, tokens)
            paged = -(-tokens // block) * block
            chunk_left -= paged
            prefill_left -= paged
            memory -= locked * block + paged
            if tokens < rest:
                self.chunked = request
                break
            memory -= self._limit_left(request)
        return self._plan_prefill(chunks, before_batch) if chunks else None

    def _chunk_tokens(self, tokens: int, left: int) -> int:
        """The whole rest of a prompt if it fits, else whole pages of it."""
        block = self.block
        return tokens if -(-tokens // block) * block <= left else left // block * block

    def _limit_left(self, request: Request) -> int:
        """Tokens that admission reserves for the output of a request."""
        return min(request.max_tokens - request.base_output, self.clip)

    def _plan_prefill(self, chunks: list[Chunk], memory: float) -> Plan:
        self._take_all(chunks)
        plan = self.plan
        finishing = [request for request, _, _ in chunks if request.computed == request.target]
        request, before, tokens = chunks[0]
        is_same = plan is not None and len(plan.chunks) == 1 == len(chunks) and not finishing
        if plan is None or not (is_same and plan.chunks[0][0] is request and plan.chunks[0][2] == tokens):
            self.plan = plan = self._new_plan(chunks, 0)
            plan.finishing = finishing
        for each, start, more in chunks:
            plan.repeated += self._repeated(each, start, more)
        for each in finishing:
            self._join_decodes(each, plan)
        plan.repeat = 1
        if not finishing and len(chunks) == 1 and tokens == self.chunk // self.block * self.block:
            repeat = min((request.target - before - 1) // tokens, int(memory) // tokens)
            plan.repeat = max(1, repeat)
        return plan

    def _take_all(self, chunks: list[Chunk]) -> None:
        """Room for the whole batch is made at once, when all that it hits is locked."""
        block, pages = self.block, 0
        taken = [chunk for chunk in chunks if chunk[0].computed == chunk[1]]
        for _, before, tokens in taken:
            pages += -(-(before + tokens) // block) - -(-before // block)
        if pages:
            self.cache.take(pages)
            self.cache.free += pages
        for request, _, tokens in taken:
            self._take(request, tokens)

    # -- decode ------------------------------------------------------------------------------------------------------

    def _form_decode(self) -> Plan:
        """One more token for every running request."""
        decodes, cache, plan = self.decodes, self.cache, self.plan
        repeat = decodes.affordable(min(decodes.horizon(), 1 << 40), cache.free + cache.evictable)
        if self.waiting and len(self.running) < self.max_num_seqs:
            repeat = self._steps_until_open(repeat)
        if plan is None or plan.chunks or plan.version != decodes.version:
            self.plan = plan = self._new_plan((), decodes.count)
        cache.take_each(decodes.need_next(), 1)
        decodes.steps += 1
        plan.repeat = repeat
        return plan

    def _steps_until_open(self, most: int) -> int:
        """Decode steps until the head of the queue is admissible, at most as many as evict nothing."""
        if self.shortfall is None or self.chunked is not None or self.opens_soon:
            return 1
        decodes, cache, block = self.decodes, self.cache, self.block
        need, locked = self.shortfall
        most = decodes.affordable(most, cache.free)
        pool = (cache.free + cache.evictable - locked) * block
        total, counted, clipped = self._limits()
        for steps in range(1, most):
            while clipped and clipped[-1] <= steps:
                total += clipped.pop() + self.clip
                counted += 1
            reserved = (total - counted * steps + len(clipped) * self.clip) * self._ratio(decodes.steps + steps)
            if need < pool - decodes.need(steps) * block - reserved:
                return steps
        return max(1, most)

    def _limits(self) -> tuple[int, int, list[int]]:
        """Tokens that running requests may still generate: sum and count of those under the clip, excess of the rest.

        The excess is sorted, largest first: it is also the number of decode steps until the request is under the clip.
        """
        clip, total, counted = self.clip, 0, 0
        clipped: list[int] = []
        now = self.decodes.steps
        for request in self.running:
            if request.joined_at >= 0:
                left = request.max_tokens - request.base_output - now + request.joined_at
                if left <= clip:
                    total += left
                    counted += 1
                else:
                    clipped.append(left - clip)
        clipped.sort(reverse=True)
        return total, counted, clipped

    def _reserved(self) -> float:
        """Tokens kept for the running requests."""
        total, _, clipped = self._limits()
        return (total + len(clipped) * self.clip) * self._ratio(self.decodes.steps)

    def _ratio(self, steps: int) -> float:
        """Share of the unused limits that is reserved after ``steps`` decode steps."""
        return max(self.min_ratio, self.ratio - max(0, steps - self.ratio_from) * self.decay)

    def _has_room(self) -> bool:
        """Whether anybody decodes once requests are retracted that leave no page for the next token."""
        decodes, cache = self.decodes, self.cache
        if decodes.need_next() <= cache.free + cache.evictable:
            return decodes.count > 0
        cache.make_room(decodes.need_next())
        while decodes.need_next() > cache.free:
            candidates = [request for request in reversed(self.running) if request.joined_at >= 0]
            self._retract(min(candidates, key=self._retract_order))
            cache.make_room(-(-decodes.count * RETRACT_DECODE_STEPS // self.block))
            cache.make_room(decodes.need_next())
        running = [request for request in self.running if request.joined_at >= 0]
        limits = sum(request.max_tokens for request in running)
        tokens = sum(self._generated(request) + RETRACT_DECODE_STEPS for request in running)
        self.ratio = min(1.0, tokens / (limits + 1))
        self.ratio_from = decodes.steps + 1
        return decodes.count > 0

    def _generated(self, request: Request) -> int:
        return request.base_output + self.decodes.steps - request.joined_at

    def _retract_order(self, request: Request) -> tuple[int, int]:
        return self._generated(request), -request.prompt_tokens

    def _retract(self, request: Request) -> None:
        """Free what a request does not share and queue it again, prompt and output so far."""
        decodes = self.decodes
        del self.running[request]
        tokens = self._slots(request)
        generated = self._generated(request)
        decodes.leave(request)
        request.high = max(request.high, tokens)
        self._give_back(request, tokens)
        if request.ends_at <= decodes.steps:
            request.preemptions += 1  # its last token is under way: nothing is left to compute
            return
        request.rewind(generated)
        self.waiting.append(request)

    def _give_back(self, request: Request, tokens: int) -> None:
        cache = self.cache
        cache.free += -(-tokens // self.block) - request.leaf.end // self.block
        cache.unlock(request)

    # -- end ---------------------------------------------------------------------------------------------------------

    def _computed(self, request: Request) -> None:
        if request.leaf is not None:
            self.cache.register(request, request.content, request.target)

    def _finish(self, request: Request) -> None:
        """Prompt and output stay in the tree, evictable."""
        tokens = self._slots(request)
        self.cache.register(request, self._whole(request), request.prompt_tokens + request.output_tokens - 1)
        self._give_back(request, tokens)
        self.running.pop(request, None)
