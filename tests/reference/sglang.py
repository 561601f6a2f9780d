"""SGLang's scheduler, request by request: a prefill batch if one can be formed, else one decode step of all.

Sources: sgl-project/sglang ``managers/schedule_policy.py`` (``PrefillAdder``), ``managers/scheduler.py``,
``managers/schedule_batch.py`` (retraction), ``mem_cache/radix_cache.py``.
"""

from tests.reference.queue_order import QueueOrder
from tests.reference.radix import Radix
from tests.reference.world import Step

INIT_RATIO = 0.7
MIN_FACTOR = 0.14
RETRACT_STEPS = 20


class Sglang:
    """Prefill first; three budgets; a reserve for the tokens that running requests may still say."""

    aborts_at_once = False

    def __init__(self, spec, shuffle=None):
        self.size = spec.block_tokens
        self.radix = Radix(spec.kv_tokens // self.size, self.size)
        self.most_seqs = spec.max_num_seqs
        self.max_prefill = spec.max_prefill_tokens
        self.chunk = spec.chunked_prefill_tokens
        self.clip = spec.clip_max_new_tokens
        self.start = min(1.0, INIT_RATIO * spec.schedule_conservativeness)
        self.floor = MIN_FACTOR * self.start
        self.decay = (self.start - self.floor) / spec.new_token_ratio_decay_steps
        self.ratio = self.start
        self.overlap = spec.overlap
        self.mixes = spec.enable_mixed_chunk
        self.order = QueueOrder(spec, self.radix, shuffle)
        self.waiting = []
        self.running = []
        """Calls that decode, in the order of the batch: as admitted, but a mixed batch opens with the new ones."""
        self.chunked = None

    # -- deciding a step ------------------------------------------------------------------------------------------

    def decide(self, now):
        """The next step, or None."""
        if self.overlap:  # Whose last token is under way by the limit takes no part and leaves its place.
            self.running = [call for call in self.running if call.made < call.limit]
        step = self._prefill(now)
        if step is None and self.running:
            self._retract_until_there_is_room()
            step = self._decode() if self.running else self._prefill(now)
        return step

    def rest(self):
        """Nothing to do and nothing under way."""
        self.ratio = self.start

    def _paged(self, tokens):
        return -(-tokens // self.size) * self.size

    def _held(self, tokens):
        return -(-tokens // self.size)

    def _limit_left(self, call):
        return min(call.limit - call.made, self.clip)

    # -- prefill --------------------------------------------------------------------------------------------------

    def _prefill(self, now):
        """A batch of the chunked prompt and of waiting requests, in order."""
        step, radix = Step(), self.radix
        if self.chunked is not None:
            self._insert(self.chunked, self.chunked.computed)
        held = []
        if self.chunked is not None or len(self.running) < self.most_seqs:
            self.waiting, held = self.order.arrange(self.waiting, self.running)
        memory = (radix.free + radix.evictable) * self.size - self.ratio * sum(map(self._limit_left, self.running))
        beside = self.running if self.mixes else []
        chunk_left, prefill_left = self.chunk - len(beside), self.max_prefill - len(beside)
        if beside:
            memory -= max(len(beside), self._pages_needed() * self.size)
        if self.chunked is not None:
            call = self.chunked
            count = self._cut(call.target - call.computed, min(chunk_left, int(memory)))
            if count <= 0:
                return None
            step.chunks.append((call, call.computed, count))
            chunk_left -= self._paged(count)
            prefill_left -= self._paged(count)
            memory -= self._paged(count)
            if call.computed + count == call.target:
                memory -= self._limit_left(call)
                self.chunked = None
        for call in [call for call in self.waiting if call not in held]:
            if self.chunked is not None or chunk_left <= 0 or prefill_left <= 0:
                break
            if len(self.running) + len(step.chunks) >= self.most_seqs:
                break
            node, hit = radix.match(call.tokens[: call.target - 1])
            rest = call.target - hit
            locked = sum(len(each.pages) for each in node.path() if not each.locks) * self.size
            if self._paged(rest) + self._limit_left(call) >= memory - locked:
                break
            if step.chunks and self._paged(rest) >= prefill_left:
                break
            count = self._cut(rest, chunk_left)
            if count <= 0:
                break
            self.waiting.remove(call)
            radix.lock(node, 1)
            call.node, call.computed, call.version = node, hit, radix.version
            call.queried += call.target
            call.hit += hit
            if call.decided < 0:
                call.decided, call.cached = now, hit
            step.chunks.append((call, hit, count))
            chunk_left -= self._paged(count)
            prefill_left -= self._paged(count)
            memory -= locked + self._paged(count)
            if count < rest:
                self.chunked = call
            else:
                memory -= self._limit_left(call)
        return self._start(step) if step.chunks else None

    def _cut(self, rest, left):
        """The whole rest if its pages fit, else whole pages."""
        return rest if self._paged(rest) <= left else left // self.size * self.size

    def _start(self, step):
        """The batch stands: room is made for all of it at once, then its requests are computed."""
        pages = sum(self._held(before + count) - self._held(before) for _, before, count in step.chunks)
        self._take(pages)
        beside = list(self.running) if self.mixes else []
        if beside:
            self._take(self._pages_needed())
            self.running = []
        for call, _, count in step.chunks:
            call.compute(count)
            if call.is_decoding:
                step.gives.append(call)
                self.running.append(call)
        if beside:
            self._decode_all(beside, step)
            self.running += beside
        return step

    def _take(self, pages):
        self.radix.make_room(pages)
        self.radix.free -= pages
        assert self.radix.free >= 0

    def _insert(self, call, count):
        """The first tokens of a call go into the tree; pages that are there already are freed, the rest is locked."""
        if call.is_buried:
            return
        protected = sum(len(node.pages) for node in call.node.path())
        node, there = self.radix.insert((call.prompt + call.output)[:count], call.version)
        self.radix.free += max(0, there - protected)
        self.radix.lock(node, 1)
        self.radix.lock(call.node, -1)
        call.node = node

    def _release(self, call):
        """Free the pages that are not in the tree, unlock those that are."""
        self.radix.free += self._held(call.computed) - sum(len(node.pages) for node in call.node.path())
        self.radix.lock(call.node, -1)
        call.node = None
        call.is_buried = False

    # -- decode ---------------------------------------------------------------------------------------------------

    def _pages_needed(self):
        return sum(call.computed % self.size == 0 for call in self.running)

    def _decode(self):
        step = Step()
        self._take(self._pages_needed())
        self._decode_all(self.running, step)
        return step

    @staticmethod
    def _decode_all(calls, step):
        for call in calls:
            call.decode()
            step.decodes.append((call, call.computed))
            step.gives.append(call)

    def _retract_until_there_is_room(self):
        """Requests with the fewest output tokens give way until the tree and the free pages hold a token for each."""
        radix = self.radix
        radix.make_room(self._pages_needed())
        if radix.free >= self._pages_needed():
            self.ratio = max(self.ratio - self.decay, self.floor)
            return
        while radix.free < self._pages_needed():
            # Of equals the last admitted goes.
            victim = min(reversed(self.running), key=lambda call: (call.made, -len(call.prompt)))
            self.running.remove(victim)
            self._release(victim)
            victim.lose()
            if not victim.is_over:
                self.waiting.append(victim)
            radix.make_room(self._held(len(self.running) * RETRACT_STEPS))
            radix.make_room(self._pages_needed())
        said = sum(call.made + RETRACT_STEPS for call in self.running)
        self.ratio = min(1.0, said / (sum(call.limit for call in self.running) + 1))

    # -- what is done from outside --------------------------------------------------------------------------------

    def flush(self, calls):
        """The cache forgets all."""
        self.radix.flush()
        for call in calls:
            call.is_buried = call.node is not None

    @property
    def version(self):
        """Of the weights."""
        return self.radix.version

    def set_version(self, version):
        """Other weights are in place."""
        self.radix.version = version

    # -- the end of a step ----------------------------------------------------------------------------------------

    def finish(self, step, now):
        """A step is done: tokens are there; returns the calls that have their last."""
        ended = []
        for call in step.gives:
            call.known += 1
            if call.known > len(call.output):
                continue  # The step that was decided before its stop token was known.
            if call.first_token < 0:
                call.first_token = now
            if step.chunks and call.node is not None and all(call is not each for each, _ in step.decodes):
                self._insert(call, step.reaches(call))
            if call.known == len(call.output):
                ended.append(call)
                if call in self.running:
                    self.running.remove(call)
                if call.node is not None:
                    self._insert(call, len(call.prompt) + len(call.output) - 1)
                    self._release(call)
        return ended

    def contents(self):
        """What can be found in the cache."""
        return self.radix.contents()
