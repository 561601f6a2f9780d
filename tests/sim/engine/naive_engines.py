"""Both schedulers written plainly from the engines' rules: visit every request at every step, no jumps, no overlap.

Steps take ``STEP``. Prefix caches are the plain ones of ``naive``. Requests that end at one instant give back what they
hold in the order of the model under test: those whose prompt just ended first, then by number.
"""

from tests.sim.engine.naive import Held, NaiveBlocks, NaiveRadix, tokens_of
from tests.sim.engine.worlds import STEP


class Job:
    """A request as the plain engines see it; marks as in the log."""

    def __init__(self, serial, arrival, content, output, limit, source):
        self.serial, self.arrival = serial, arrival
        self.prompt = tokens_of(content)
        last = content[-1]
        start = last[1] if last[0] == source else 0
        self.answer = [(source, start + place) for place in range(output)]
        self.output, self.limit = output, limit
        self.is_private = source < 0
        self.generated = self.computed = self.high = 0
        self.decodes = False
        self.held = None
        self.scheduled = self.first_token = self.ended = -1
        self.cached = self.prefilled = self.repeated = self.preemptions = 0

    def tokens(self, count=None):
        return (self.prompt + self.answer[: self.generated])[:count]

    @property
    def target(self):
        return len(self.prompt) + self.generated

    def compute(self, tokens):
        if not self.decodes:
            self.prefilled += tokens
            self.repeated += max(0, min(self.computed + tokens, self.high) - self.computed)
        self.computed += tokens

    def step_ends(self, now):
        """The last token of what is known was computed: there is one token more. True at the end."""
        self.generated += 1
        if self.first_token < 0:
            self.first_token = now
        if self.generated == self.output:
            self.ended = now
        return self.ended == now

    def restart(self):
        """What was computed is lost."""
        self.high = max(self.high, self.computed)
        self.computed, self.held, self.decodes = 0, None, False
        self.preemptions += 1

    def marks(self):
        return (
            self.scheduled, self.first_token, self.ended, self.cached, self.prefilled, self.repeated, self.preemptions,
        )  # fmt: skip


class Plain:
    """The loop that both share: arrivals, a step, ends."""

    def __init__(self, jobs):
        self.due = sorted(jobs, key=lambda job: (job.arrival, job.serial))
        self.waiting, self.running = [], []

    def run(self):
        now = 0
        while self.due or self.waiting or self.running or self.unfinished():
            while self.due and self.due[0].arrival <= now:
                self.waiting.append(self.due.pop(0))
            step = self.schedule(now)
            if not step:
                self.rest()
                now = self.due[0].arrival
                continue
            now += STEP
            done = [job for job in step if job.computed == job.target]
            prefilled = [job for job in done if not job.decodes]
            ended = [job for job in done if job.step_ends(now)]
            for job in prefilled:
                self.prefill_ends(job)
                job.decodes = True
            for job in sorted(ended, key=lambda job: (job not in prefilled, job.serial)):
                self.running.remove(job)
                self.end(job)

    def unfinished(self):
        return False

    def rest(self):
        """The engine has nothing to do."""


class PlainVllm(Plain):
    """Running requests first, then the waiting queue from its head."""

    def __init__(self, jobs, spec):
        super().__init__(jobs)
        self.spec, self.size = spec, spec.block_tokens
        self.pool = NaiveBlocks(spec.kv_tokens // self.size, self.size)
        self.is_early = spec.visibility == "at_schedule"
        self.most = spec.long_prefill_token_threshold or spec.max_num_batched_tokens

    def blocks(self, tokens):
        return -(-tokens // self.size)

    def schedule(self, now):
        step, preempted = [], False
        while True:
            left, chunks = self.spec.max_num_batched_tokens, {}
            for job in self.running:
                tokens = min(job.target - job.computed, self.most, left)
                if tokens > 0:
                    chunks[job] = tokens
                    left -= tokens
            need = sum(self.blocks(job.computed + tokens) - self.blocks(job.computed) for job, tokens in chunks.items())
            if need <= len(self.pool.free):
                break
            self.preempt(self.running[-1])
            preempted = True
        for job, tokens in chunks.items():
            self.give(job, tokens, step)
        while self.waiting and left > 0 and not preempted and len(self.running) < self.spec.max_num_seqs:
            job = self.waiting[0]
            found = self.pool.find(job.tokens(), job.target - 1)
            hit = len(found) * self.size
            tokens = min(job.target - hit, self.most, left)
            need = self.blocks(job.target if self.spec.reserve_full_prompt else hit + tokens) - len(found)
            need += sum(not self.pool.holders[block] for block in found)
            if step:
                need += int(self.spec.watermark_share * (self.spec.kv_tokens // self.size))
            if need > len(self.pool.free):
                break
            self.running.append(self.waiting.pop(0))
            self.pool.hold(found)
            job.held, job.computed = Held(found), hit
            if job.scheduled < 0:
                job.scheduled, job.cached = now, hit
            self.give(job, tokens, step)
            left -= tokens
        return step

    def give(self, job, tokens, step):
        job.held.loose += self.pool.take(self.blocks(job.computed + tokens) - self.blocks(job.computed))
        job.compute(tokens)
        step.append(job)
        if self.is_early and not job.decodes:
            self.pool.register(job.held, job.tokens(job.computed))

    def prefill_ends(self, job):
        if not self.is_early:
            self.pool.register(job.held, job.tokens(job.computed))

    def preempt(self, job):
        self.running.remove(job)
        self.pool.register(job.held, job.tokens(job.computed))
        self.pool.release(job.held)
        job.restart()
        self.waiting.insert(0, job)

    def end(self, job):
        if not job.is_private:
            self.pool.register(job.held, job.tokens(job.computed))
        self.pool.release(job.held)


class PlainSglang(Plain):
    """A prefill batch if one can be formed, else one decode step of all. Pages of one token."""

    def __init__(self, jobs, spec):
        super().__init__(jobs)
        self.spec = spec
        self.tree = NaiveRadix(spec.kv_tokens, 1)
        self.start = min(1.0, 0.7 * spec.schedule_conservativeness)
        self.floor = 0.14 * self.start
        self.ratio, self.decoded = self.start, 0
        self.chunked = None

    def unfinished(self):
        return self.chunked is not None

    def rest(self):
        self.ratio, self.decoded = self.start, 0

    def share(self):
        decay = (self.start - self.floor) / self.spec.new_token_ratio_decay_steps
        return max(self.floor, self.ratio - self.decoded * decay)

    def left_of(self, job):
        return min(job.limit - job.generated, self.spec.clip_max_new_tokens)

    def schedule(self, now):
        batch = self.prefill(now)
        if batch:
            return batch
        retracted = False
        while self.running and len(self.running) > self.tree.free + self.tree.evictable:
            self.retract(min(self.running, key=lambda job: (job.generated, -len(job.prompt), -job.serial)))
            retracted = True
        if retracted:
            self.ratio, self.decoded = self.start, 0
            if self.running:
                generated = sum(job.generated + 20 for job in self.running)
                self.ratio = min(1.0, generated / sum(job.limit for job in self.running))
        if not self.running:
            return self.prefill(now)
        self.tree.take(len(self.running))
        self.decoded += 1
        for job in self.running:
            job.compute(1)
        return list(self.running)

    def prefill(self, now):
        memory = self.tree.free + self.tree.evictable - self.share() * sum(map(self.left_of, self.running))
        batch, chunk, budget = [], self.spec.chunked_prefill_tokens, self.spec.max_prefill_tokens
        taken = self.chunked
        if taken is not None:
            self.insert(taken, taken.computed)
            tokens = min(taken.target - taken.computed, chunk, int(memory))
            if tokens <= 0:
                return []
            self.give(taken, tokens)
            batch.append(taken)
            chunk, budget, memory = chunk - tokens, budget - tokens, memory - tokens
            if taken.computed == taken.target:
                self.chunked = None
                memory -= self.left_of(taken)
        while self.waiting and chunk > 0 and budget > 0:
            if len(self.running) + len(batch) >= self.spec.max_num_seqs:
                break
            job = self.waiting[0]
            node = self.tree.match(job.tokens(), job.target - 1)
            hit = self.tree.depth(node)
            locked, above = 0, node
            while above is not self.tree.root:
                locked += 0 if above.locks else len(above.pages)
                above = above.parent
            tokens = job.target - hit
            if tokens + self.left_of(job) >= memory - locked or (tokens > budget and batch):
                break
            tokens = min(tokens, chunk)
            self.waiting.pop(0)
            self.tree.lock(node, 1)
            job.held, job.owned, job.computed = node, hit, hit
            if job.scheduled < 0:
                job.scheduled, job.cached = now, hit
            self.give(job, tokens)
            batch.append(job)
            chunk, budget, memory = chunk - tokens, budget - tokens, memory - tokens - locked
            if job.computed < job.target:
                self.chunked = job
                break
            memory -= self.left_of(job)
        return batch

    def give(self, job, tokens):
        self.tree.take(tokens)
        job.compute(tokens)

    def insert(self, job, count):
        leaf, before = self.tree.insert((job.prompt + job.answer)[:count])
        self.tree.free += max(0, before - job.owned)
        self.tree.lock(leaf, 1)
        self.tree.lock(job.held, -1)
        job.held, job.owned = leaf, self.tree.depth(leaf)

    def prefill_ends(self, job):
        self.insert(job, job.computed)
        self.running.append(job)

    def retract(self, job):
        self.running.remove(job)
        self.tree.free += job.computed - job.owned
        self.tree.lock(job.held, -1)
        job.restart()
        self.waiting.append(job)

    def end(self, job):
        self.insert(job, job.computed)
        self.tree.lock(job.held, -1)
