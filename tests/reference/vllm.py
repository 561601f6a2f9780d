"""vLLM's V1 scheduler, block by block: plain lists of tokens and of numbered blocks, one step at a time.

Sources: vllm-project/vllm ``vllm/v1/core/sched/scheduler.py``, ``kv_cache_manager.py``, ``block_pool.py``.
"""

from collections import deque

from tests.reference.world import Step


class Blocks:
    """Numbered physical blocks, and one queue of those that are free, the next to be taken first.

    A block may be found by the tokens from the start of the prompt to its own end; several blocks may hold the same.
    """

    def __init__(self, count, size):
        self.size = size
        self.free = deque(range(count))
        self.holders = [0] * count
        self.chain = [None] * count
        self.found = {}
        self.version = 0

    def flush(self):
        """Nothing that is there can be found."""
        self.chain = [None] * len(self.chain)
        self.found = {}

    def look_up(self, tokens, limit):
        """Blocks that hold the first tokens, no further than ``limit``, computed with the present weights."""
        blocks = []
        for end in range(self.size, limit + 1, self.size):
            same = self.found.get((self.version, *tokens[:end]))
            if not same:
                break
            blocks.append(same[0])
        return blocks

    def hold(self, block):
        """Take a found block, out of the queue if it stands there."""
        if not self.holders[block]:
            self.free.remove(block)
        self.holders[block] += 1

    def take(self):
        """The head of the queue; what it held is forgotten."""
        block = self.free.popleft()
        chain, self.chain[block] = self.chain[block], None
        if chain is not None:
            self.found[chain].remove(block)
        self.holders[block] = 1
        return block

    def register(self, block, chain):
        """From now on the block can be found."""
        if self.chain[block] is None:
            self.chain[block] = chain
            self.found.setdefault(chain, []).append(block)

    def release(self, blocks):
        """Give back, the last block first; who has no holder left goes to the end of the queue."""
        for block in reversed(blocks):
            self.holders[block] -= 1
            if not self.holders[block]:
                self.free.append(block)

    def contents(self):
        """All that can be found."""
        return {chain[1:] for chain, blocks in self.found.items() if blocks and chain[0] == self.version}


class Vllm:
    """Running requests first, then the waiting queue, one budget of tokens a step."""

    aborts_at_once = True

    def __init__(self, spec):
        self.size = spec.block_tokens
        self.blocks = Blocks(spec.kv_tokens // self.size, self.size)
        self.budget = spec.max_num_batched_tokens
        self.most_seqs = spec.max_num_seqs
        self.chunk = spec.long_prefill_token_threshold or self.budget
        self.whole_prompt = spec.reserve_full_prompt
        self.state = -(-spec.state_tokens_per_seq // self.size)
        self.states = {}
        self.aligns = spec.align_chunks
        self.watermark = int(spec.watermark_share * (spec.kv_tokens // self.size))
        self.at_schedule = spec.visibility == "at_schedule"
        self.overlap = spec.overlap
        self.waiting = deque()
        self.running = []

    # -- deciding a step ------------------------------------------------------------------------------------------

    def decide(self, now):
        """The next step, or None."""
        step = Step()
        if self.overlap:  # Whose last token is under way by the limit takes no part and leaves its place.
            self.running = [call for call in self.running if call.made < call.limit]
        left, preempted = self._schedule_running(step)
        if not preempted:
            self._schedule_waiting(step, left, now)
        return step if step.chunks or step.decodes else None

    def rest(self):
        """Nothing to do and nothing under way: nothing changes."""

    def _schedule_running(self, step):
        left, place, preempted = self.budget, 0, False
        while place < len(self.running) and left > 0:
            call = self.running[place]
            count = self._align(call, call.computed, min(call.target - call.computed, self.chunk, left))
            if count == 0:
                place += 1
                continue
            while not self._has_room(call, count):
                victim = self.running.pop()
                self._preempt(victim)
                preempted = True
                if victim is call:
                    return left, True
            self._schedule(step, call, count)
            left -= count
            place += 1
        return left, preempted

    def _align(self, call, before, count):
        """Chunks of a hybrid model end where a block ends, and once at the last such place of the prompt."""
        last = call.target - call.target % self.size
        after = before + count
        if not self.aligns or call.is_decoding:
            return count
        if after < last:
            return count // self.size * self.size
        return last - before if before < last < after else count

    def _has_room(self, call, count):
        return -(-(call.computed + count) // self.size) - len(call.blocks) <= len(self.blocks.free)

    def _schedule_waiting(self, step, left, now):
        while self.waiting and left > 0 and len(self.running) < self.most_seqs:
            call = self.waiting[0]
            hits = self.blocks.look_up(call.tokens, call.target - 1)
            hit = len(hits) * self.size
            if not call.preemptions:
                call.queried += call.target
                call.hit += hit
            count = self._align(call, hit, min(call.target - hit, self.chunk, left))
            if count == 0:
                return
            need = -(-(call.target if self.whole_prompt else hit + count) // self.size) - len(hits)
            need += self.state
            need += sum(not self.blocks.holders[block] for block in hits)
            if step.chunks or step.decodes:
                need += self.watermark
            if need > len(self.blocks.free):
                return
            self.running.append(self.waiting.popleft())
            for block in hits:
                self.blocks.hold(block)
            call.blocks, call.computed, call.version = hits, hit, self.blocks.version
            self.states[call] = [self.blocks.take() for _ in range(self.state)]
            if call.decided < 0:
                call.decided, call.cached = now, hit
            self._schedule(step, call, count)
            left -= count

    def _schedule(self, step, call, count):
        """Blocks for ``count`` tokens more of a call, which become part of the step."""
        while len(call.blocks) * self.size < call.computed + count:
            call.blocks.append(self.blocks.take())
        if call.is_decoding:
            call.decode()
            step.decodes.append((call, call.computed))
            step.gives.append(call)
        else:
            before = call.computed
            call.compute(count)
            step.chunks.append((call, before, count))
            if call.is_decoding:
                step.gives.append(call)
        if self.at_schedule:
            self._register(call)

    def _register(self, call):
        """All its full blocks can be found."""
        if call.is_buried:
            return
        tokens = call.prompt + call.output
        for place, block in enumerate(call.blocks):
            end = (place + 1) * self.size
            if end <= min(call.computed, len(tokens) - 1):
                self.blocks.register(block, (call.version, *tokens[:end]))

    def _release(self, call):
        """Its state, then its blocks."""
        self.blocks.release(self.states.pop(call, ()))
        self.blocks.release(call.blocks)
        call.blocks = []
        call.is_buried = False

    def _preempt(self, call):
        """Everything is taken from a call; it starts over at the head of the queue."""
        self._register(call)
        self._release(call)
        call.lose()
        if not call.is_over:
            self.waiting.appendleft(call)

    # -- what is done from outside --------------------------------------------------------------------------------

    def leave(self, call):
        """It is aborted."""
        self._register(call)
        self._release(call)
        if call in self.running:
            self.running.remove(call)

    def flush(self, calls):
        """The cache forgets all."""
        self.blocks.flush()
        for call in calls:
            call.is_buried = bool(call.blocks) or call in self.states

    @property
    def version(self):
        """Of the weights."""
        return self.blocks.version

    def set_version(self, version):
        """Other weights are in place."""
        self.blocks.version = version

    # -- the end of a step ----------------------------------------------------------------------------------------

    def finish(self, step, now):
        """A step is done: tokens are there; returns the calls that have their last."""
        ended = []
        for call in step.gives:
            if call.status:
                continue  # It was aborted meanwhile.
            call.known += 1
            if call.known > len(call.output):
                continue  # The step that was decided before its stop token was known.
            if call.first_token < 0:
                call.first_token = now
            if call.blocks:
                self._register(call)
            if call.known == len(call.output):
                ended.append(call)
        for call in ended:
            self._release(call)
            if call in self.running:
                self.running.remove(call)
        return ended

    def contents(self):
        """What can be found in the cache."""
        return self.blocks.contents()
