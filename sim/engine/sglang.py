"""SGLang's scheduler: a prefill batch whenever one can be formed, else one decode step of all running requests.

A prefill batch takes the chunked prompt of before, then waiting requests in the order of the queue, within three
budgets: new tokens (``max_prefill_tokens``), chunk tokens (``chunked_prefill_tokens``: the last prompt is cut to what
is left) and KV memory. Admission asks that new tokens and the client's limit (clipped) fit into free and evictable
pages less what is kept for the running requests. With ``enable_mixed_chunk`` these decode in the prefill batch, and
each takes a token of every budget.

Source: sgl-project/sglang ``managers/schedule_policy.py`` (``PrefillAdder``), ``managers/scheduler.py``.
Left out: priorities. Where pages hold more than one token a mixed batch counts the pages that its decodes take; the
product counts a token each and can run out of memory.
"""

from collections import deque
from collections.abc import Callable, Iterable

from sim.engine._queue_order import NOBODY, QueueOrder, Shuffle
from sim.engine._reserve import Reserve
from sim.engine._retraction import RetractingScheduler
from sim.engine._scheduler import Chunk, Plan, StepCost, repeated_tokens
from sim.engine._telling import Tell, TellingRadixCache
from sim.engine.radix_cache import ForgettingRadixCache, RadixCache
from sim.engine.request import Request
from sim.engine.spec import EngineSpec


class _Batch:
    """A prefill batch in the making, and what is left of its budgets in tokens."""

    __slots__ = ("chunk_left", "chunks", "memory", "prefill_left")

    def __init__(self, chunk_left: int, prefill_left: int, memory: float) -> None:
        self.chunks: list[Chunk] = []
        self.chunk_left = chunk_left
        self.prefill_left = prefill_left
        self.memory = memory

    def add(self, request: Request, before: int, tokens: int, paged: int) -> None:
        """Another chunk, which takes ``paged`` tokens of every budget."""
        self.chunks.append((request, before, tokens))
        self.chunk_left -= paged
        self.prefill_left -= paged
        self.memory -= paged

    def is_open(self) -> bool:
        return self.chunk_left > 0 and self.prefill_left > 0


class SglangScheduler(RetractingScheduler):
    """Batch former of an SGLang engine over a pool of ``capacity_tokens``.

    ``shuffle`` shuffles a list in place; queue order ``random`` needs it.
    """

    aborts_at_once = counts_prefills = False

    def __init__(
        self,
        spec: EngineSpec,
        cost: StepCost,
        capacity_tokens: int,
        step_noise: Callable[[], float] | None = None,
        shuffle: Shuffle | None = None,
    ) -> None:
        assert spec.block_tokens is not None
        assert spec.max_num_seqs is not None
        assert spec.max_prefill_tokens is not None
        assert spec.chunked_prefill_tokens is not None
        self.reserve = Reserve(spec)
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
        self.mixes = bool(spec.enable_mixed_chunk)
        self.registers_early = spec.visibility == "at_schedule"
        self.remembers = spec.visibility != "never"
        self.tell: Tell | None = None
        self.cache = self._new_cache()
        is_plain = spec.queue_order == "fcfs" and spec.visibility != "deferred"
        self.order = None if is_plain else QueueOrder(spec, self.cache, shuffle)
        self.chunked: Request | None = None
        """The one prompt that is partly done."""
        self.shortfall: tuple[int, int] | None = None
        """Tokens that the head of the queue needs and pages its match would lock, where memory refused it."""
        self.front = 0
        """Place in the batch before all who run: a mixed batch puts new requests there."""

    def is_open(self) -> bool:
        """Whether a request that has just arrived could change the next decision."""
        order, has_place = self.order, len(self.running) < self.max_num_seqs
        if order is not None:
            if not order.skips(len(self.waiting)):
                return has_place or self.chunked is not None
            if order.can_overtake:
                return has_place and self.chunked is None
        return self.chunked is None and has_place and len(self.waiting) == 1

    @property
    def _leaves_traces(self) -> bool:
        """Whether every decision changes the queue or the cache, even one that admits nobody."""
        return self.order is not None and bool(self.waiting) and not self.order.skips(len(self.waiting))

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
        if self.decodes.count:
            if self.has_room():
                return self._form_decode()
            plan = self._form_prefill(now)
            if plan is not None:
                return plan
        self.plan = None
        return None

    def rest(self) -> None:
        """Nothing to do and nothing under way: the share of limits that is reserved starts anew."""
        self.reserve.set(self.reserve.start, self.decodes.steps)

    def clear(self) -> None:
        """Forget everything: the engine went down."""
        super().clear()
        version = self.cache.version
        self.cache.flush()
        self._replace_cache()
        self.cache.set_version(version)
        self.chunked = self.shortfall = None
        self.rest()

    def _new_cache(self) -> RadixCache:
        if not self.remembers:
            return ForgettingRadixCache(self.capacity, self.block)
        if self.tell is None:
            return RadixCache(self.capacity, self.block)
        return TellingRadixCache(self.capacity, self.block, self.tell)

    def _replace_cache(self) -> None:
        self.cache = self._new_cache()
        if self.order is not None:
            self.order.cache = self.cache

    def listen(self, tell: Tell) -> None:
        """Tell what the cache stores and forgets from now on, when it is empty."""
        self.tell = tell
        self._replace_cache()

    def hush(self, plan: Plan) -> None:
        """The cache has told what this step does; the plan repeats only steps that change nothing findable."""
        if plan.repeat > 1:
            plan.repeat = 1 if plan.chunks else 1 + self.decodes.affordable(plan.repeat - 1, self.cache.free)

    def advance(self, steps: int) -> None:
        """Account for more steps of the plan, each as it would have been formed; a mixed one is formed each time."""
        plan, decodes = self.plan, self.decodes
        assert plan is not None
        if plan.chunks:
            request, _, tokens = plan.chunks[0]
            for _ in range(steps):
                self.cache.register(request, request.content, request.computed)
                plan.repeated += self._take(request, tokens)
        elif (pages := decodes.need(steps)) <= self.cache.free:
            self.cache.free -= pages
            decodes.steps += steps
        elif self.block == 1:
            self.cache.take_each(decodes.count, steps)
            decodes.steps += steps
        else:
            for _ in range(steps):
                self.cache.take(decodes.need_next())
                decodes.steps += 1

    # -- prefill -----------------------------------------------------------------------------------------------------

    def _form_prefill(self, now: int) -> Plan | None:
        """A batch of the chunked prompt and waiting requests, as far as the three budgets go."""
        self.shortfall = None
        if self.chunked is not None:
            self.cache.register(self.chunked, self.chunked.content, self.chunked.computed)
        held = NOBODY
        if self.order is not None and (self.chunked is not None or len(self.running) < self.max_num_seqs):
            running = [request for request in self.running if request.joined_at >= 0]
            held = self.order.arrange(self.waiting, running)
        batch = self._open_batch()
        before = batch.memory
        if self.chunked is not None and not self._resume(batch):
            return None
        if held:
            self._admit(batch, deque(request for request in self.waiting if request not in held), now)
            self.waiting = deque(request for request in self.waiting if request not in self.running)
        else:
            self._admit(batch, self.waiting, now)
        return self._plan_prefill(batch.chunks, before) if batch.chunks else None

    def _open_batch(self) -> _Batch:
        decodes, cache, block = self.decodes, self.cache, self.block
        memory = (cache.free + cache.evictable) * block - self.reserve.tokens(decodes)
        if not self.mixes:
            return _Batch(self.chunk, self.max_prefill, memory)
        count = decodes.count
        memory -= max(count, decodes.need_next() * block)
        return _Batch(self.chunk - count, self.max_prefill - count, memory)

    def _resume(self, batch: _Batch) -> bool:
        """The chunked prompt goes on; if there is no room for more of it, no batch is formed."""
        request, block = self.chunked, self.block
        assert request is not None
        tokens = self._chunk_tokens(request.target - request.computed, min(batch.chunk_left, int(batch.memory)))
        if tokens <= 0:
            return False
        batch.add(request, request.computed, tokens, -(-tokens // block) * block)
        if request.computed + tokens == request.target:
            self.chunked = None
            batch.memory -= self.reserve.limit_left(request)
        return True

    def _admit(self, batch: _Batch, queue: deque[Request], now: int) -> None:
        """Take requests from the head of a queue while budgets and places last."""
        cache, block, running, reserve = self.cache, self.block, self.running, self.reserve
        while queue and self.chunked is None and batch.is_open() and len(running) < self.max_num_seqs:
            request = queue[0]
            node, hit = cache.find(request, request.target - 1)
            rest = request.target - hit
            locked = cache.count_unlocked(node)
            paged = -(-rest // block) * block
            limit_left = reserve.limit_left(request)
            need = paged + limit_left
            if need >= batch.memory - locked * block:
                self.shortfall = (need, locked)
                break
            if batch.chunks and paged >= batch.prefill_left:
                break
            tokens = self._chunk_tokens(rest, batch.chunk_left)
            if tokens <= 0:
                break
            queue.popleft()
            running[request] = None
            self.admissions += 1
            request.place = self.admissions
            cache.lock(request, node)
            request.computed = hit
            request.queried_tokens += request.target
            request.hit_tokens += hit
            if request.scheduled < 0:
                request.scheduled = now
                request.cached_tokens = hit
            batch.add(request, hit, tokens, -(-tokens // block) * block)
            if self.registers_early:
                self._take(request, tokens)
            batch.memory -= locked * block
            if tokens < rest:
                self.chunked = request
            else:
                batch.memory -= limit_left

    def _chunk_tokens(self, tokens: int, left: int) -> int:
        """The whole rest of a prompt if it fits, else whole pages of it."""
        block = self.block
        return tokens if -(-tokens // block) * block <= left else left // block * block

    def _plan_prefill(self, chunks: list[Chunk], memory: float) -> Plan:
        self._take_all(chunks)
        decodes = self.decodes
        count = decodes.count if self.mixes else 0
        finishing = [request for request, _, _ in chunks if request.computed == request.target]
        plan = self.plan
        if plan is None or finishing or not self._goes_on(plan, chunks, count):
            self.plan = plan = self._new_plan(chunks, count)
            plan.finishing = finishing
        for each, start, more in chunks:
            if start < each.high:
                plan.repeated += repeated_tokens(each, start, more)
        if count:
            self._decode_beside(finishing)
        for each in finishing:
            self._join_decodes(each, plan)
        plan.repeat = 1
        request, before, tokens = chunks[0]
        is_full = tokens == self.chunk // self.block * self.block
        if is_full and not finishing and len(chunks) == 1 and not count and not self._leaves_traces:
            repeat = min((request.target - before - 1) // tokens, int(memory) // tokens)
            plan.repeat = max(1, repeat)
        return plan

    def _goes_on(self, plan: Plan, chunks: list[Chunk], count: int) -> bool:
        """Whether a batch takes another equal chunk of the one prompt of before, beside the same decodes."""
        if len(plan.chunks) != 1 or len(chunks) != 1 or plan.decodes != count:
            return False
        is_equal = plan.chunks[0][0] is chunks[0][0] and plan.chunks[0][2] == chunks[0][2]
        return is_equal and (not count or plan.version == self.decodes.version)

    def _decode_beside(self, finishing: list[Request]) -> None:
        """Who runs decodes in a mixed batch; there and in later ones it stands behind who joins."""
        decodes = self.decodes
        self.cache.take(decodes.need_next())
        decodes.steps += 1
        self.reserve.since += 1
        self.front -= len(finishing)
        for place, request in enumerate(finishing, self.front):
            request.place = place

    def _take_all(self, chunks: list[Chunk]) -> None:
        """Room for the whole batch is made at once, when all that it hits is locked."""
        block, pages = self.block, 0
        taken = [chunk for chunk in chunks if chunk[0].computed == chunk[1]]
        for _, before, tokens in taken:
            pages += -(-(before + tokens) // block) - -(-before // block)
        self.cache.make_room(pages)
        for request, _, tokens in taken:
            self._take(request, tokens)

    # -- decode ------------------------------------------------------------------------------------------------------

    def _form_decode(self) -> Plan:
        """One more token for every running request."""
        decodes, cache, plan = self.decodes, self.cache, self.plan
        repeat, room = decodes.horizon(), cache.free + cache.evictable
        if decodes.count * (repeat // self.block + 1) > room:
            repeat = decodes.affordable(min(repeat, 1 << 40), room)
        if self.waiting and len(self.running) < self.max_num_seqs:
            repeat = self._steps_until_open(repeat)
        if plan is None or plan.chunks or plan.version != decodes.version:
            self.plan = plan = self._new_plan((), decodes.count)
        cache.take(decodes.need_next())
        decodes.steps += 1
        plan.repeat = repeat
        return plan

    def _steps_until_open(self, most: int) -> int:
        """Decode steps until the head of the queue may be admissible, at most as many as evict nothing.

        A mixed batch needs a little more room than this asks for; it is then refused and asked again a step later.
        """
        if self.shortfall is None or self.chunked is not None or self.opens_soon or self._leaves_traces:
            return 1
        decodes, cache, block = self.decodes, self.cache, self.block
        need, locked = self.shortfall
        most = decodes.affordable(most, cache.free)
        pool = (cache.free + cache.evictable - locked) * block
        left: Iterable[int]
        if block == 1:
            count = decodes.count
            left = range(pool - count, pool - count * most, -count)
        else:
            left = (pool - decodes.need(steps) * block for steps in range(1, most))
        return self.reserve.steps_until(decodes, most, need, left)
