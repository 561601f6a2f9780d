"""What both reference engines stand on: a call with its tokens written out, a step, its price, and a clock.

Tokens are plain integers, one for each place of each source. The clock moves from one event to the next (an arrival,
the end of a step) and asks the scheduler at the end of every step; nothing is skipped, foreseen or counted in bulk.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

PLACES = 1_000_000
"""Places of one source in the numbering of tokens; tokens of private outputs are negative."""


def tokens_of(content):
    """A content written out, one integer a token."""
    return [source * PLACES + place for source, length in content for place in range(length)]


@dataclass(eq=False)
class Call:
    """One request: what is asked, what became of it, and what it holds in the engine."""

    serial: int
    prompt: list
    output: list
    """The tokens the model will say."""
    limit: int
    key: str = ""
    """Routing key."""
    arrived: int = -1
    decided: int = -1
    """When the step that first admitted it was decided."""
    first_token: int = -1
    ended: int = -1
    queried: int = 0
    """Tokens that look-ups asked for, counted as the product reports them."""
    hit: int = 0
    """Of them found."""
    cached: int = -1
    prefilled: int = 0
    repeated: int = 0
    preemptions: int = 0

    version: int = 0
    """Of the weights when it was admitted."""
    is_buried: bool = False
    """Whether a flush came while it held memory: what it holds is not found."""
    is_aborted: bool = False
    status: str = ""
    generated: int = 0

    made: int = 0
    """Output tokens that steps decided so far will have given."""
    known: int = 0
    """Output tokens that are there."""
    computed: int = 0
    """Tokens with a slot in the KV pool."""
    high: int = 0
    """Most tokens it ever had slots for, before a preemption."""
    is_decoding: bool = False
    """Whether its prompt (after a preemption: and its output so far) is wholly computed or scheduled to be."""
    blocks: list = field(default_factory=list)
    """vLLM: its blocks."""
    node: object = None
    """SGLang: the node it locks."""

    @property
    def target(self):
        """Tokens that are to be computed before the next one is there."""
        return len(self.prompt) + self.made

    @property
    def tokens(self):
        """Prompt and output so far, as far as the model speaks."""
        return self.prompt + self.output[: self.made]

    @property
    def is_over(self):
        """Whether its last token is there or under way."""
        return self.made >= len(self.output)

    def compute(self, count):
        """A chunk of its prompt is in the step."""
        self.prefilled += count
        self.repeated += sum(place < self.high for place in range(self.computed, self.computed + count))
        self.computed += count
        if self.computed == self.target:
            self.is_decoding = True
            self.made += 1

    def decode(self):
        """One more token in the step."""
        self.computed += 1
        self.made += 1

    def lose(self):
        """Everything it computed is taken away."""
        self.high = max(self.high, self.computed)
        self.computed = 0
        self.is_decoding = False
        self.preemptions += 1

    def end(self, now, status):
        """It is answered."""
        self.ended, self.status, self.generated = now, status, self.known

    def unbegin(self, count):
        """A chunk that was decided never begins."""
        self.computed -= count
        self.prefilled -= count
        self.repeated -= sum(place < self.high for place in range(self.computed, self.computed + count))

    def marks(self):
        """What is compared."""
        return (
            self.arrived, self.decided, self.first_token, self.ended, self.queried, self.hit, max(0, self.cached),
            self.prefilled, self.repeated, self.preemptions, self.generated, self.status,
        )  # fmt: skip


@dataclass(eq=False)
class Step:
    """One computation of the engine."""

    chunks: list = field(default_factory=list)
    """(call, tokens before, tokens)"""
    decodes: list = field(default_factory=list)
    """(call, context it reads)"""
    gives: list = field(default_factory=list)
    """Calls that get a token at its end, in order of the batch."""
    ticks: int = 0

    def reaches(self, call):
        """Tokens of a prompt that are computed when this step, which has a chunk of it, is done."""
        return next(before + count for each, before, count in self.chunks if each is call)


class Price:
    """Ticks of a step. While the same batch goes on its cost is rounded once: the first step, and the growth a step."""

    def __init__(self, cost):
        self.cost = cost
        self.batch = None
        self.first = self.growth = self.steps = 0

    def ticks(self, step):
        """The batch goes on if the same calls decode, or the same single prompt takes one more equal chunk."""
        batch = [(id(call), call.preemptions) for call, _ in step.decodes]
        chunks = [(id(call), count) for call, _, count in step.chunks]
        is_last = any(call.computed == before + count and call.is_decoding for call, before, count in step.chunks)
        key = (set(batch), chunks)
        if key != self.batch or is_last or len(chunks) > 1:
            self.steps = 0
            self.first, self.growth = self._round(step)
        self.batch = None if is_last else key
        self.steps += 1
        return self.first + self.growth * (self.steps - 1)

    def _round(self, step):
        cost, count = self.cost, len(step.decodes)
        context = sum(context for _, context in step.decodes)
        ticks = cost.seq * count + cost.ctx * context
        growth = cost.ctx * count
        total = count + sum(tokens for _, _, tokens in step.chunks)
        if step.chunks:
            pairs = sum(before + place + 1 for _, before, tokens in step.chunks for place in range(tokens))
            ticks += cost.pair * pairs + cost.chunk * len(step.chunks)
        if len(step.chunks) == 1:
            growth += cost.pair * step.chunks[0][2] ** 2
        cost.cover(total)
        return round(ticks + cost.base[total]) or 1, round(growth)


class World:
    """One engine that serves calls, and what is done to it from outside.

    Without overlap a step is decided when the one before ends, with it when the one before starts; an idle engine
    decides at once. ``calls``: ``(call, tick)``, or ``(call, (call before it, delay))``. ``orders``: tick, what is
    done (``abort``, ``flush``, ``version``, ``pause``, ``resume``, ``fail``, ``restart``) and to whom or which; those
    of one tick come after its arrivals, failures and restarts before them.
    """

    def __init__(self, make, cost, calls, orders, *, overlap):
        self.make, self.scheduler, self.price, self.overlap = make, make(), Price(cost), overlap
        self.calls, self.due, self.orders = calls, [], list(orders)
        for call, when in calls:
            if isinstance(when, int):
                heappush(self.due, (when, call.serial, call))
        self.running = self.following = None
        self.start = self.end = self.now = 0
        self.has_ended = self.is_paused = self.is_down = False
        self.leaving, self.asked = [], []
        self.busy = self.down = self.down_since = self.chunk_tokens = 0

    def run(self):
        """Until nothing is left to happen."""
        while self.due or self.running or self.orders:
            ticks = [self.end] * (self.running is not None)
            ticks += [events[0][0] for events in (self.due, self.orders) if events]
            self.now = min(ticks)
            self.has_ended = self.running is not None and self.end == self.now
            if self.has_ended:
                self.end_step()
            while self.orders and self.orders[0][0] == self.now and self.orders[0][1] in ("fail", "restart"):
                getattr(self, self.orders.pop(0)[1])()
            self.arrive()
            while self.orders and self.orders[0][0] == self.now:
                _, what, *which = self.orders.pop(0)
                getattr(self, what)(*which)
                self.arrive()
            if not self.is_down and (self.running is None or self.has_ended):
                self.go_on()

    def answer(self, call):
        """What follows the end of a call."""
        for each, when in self.calls:
            if not isinstance(when, int) and when[0] is call:
                heappush(self.due, (self.now + when[1], each.serial, each))

    def end_call(self, call, status):
        call.end(self.now, status)
        self.answer(call)

    def arrive(self):
        """All calls of this instant, those too that follow on one that fails at once."""
        while self.due and self.due[0][0] == self.now:
            call = heappop(self.due)[2]
            call.arrived = self.now
            if self.is_down:
                self.end_call(call, "failed")
            else:
                self.scheduler.waiting.append(call)

    # -- steps ----------------------------------------------------------------------------------------------------

    def end_step(self):
        self.count(self.running)
        for call in self.leaving:
            self.leave(call)
        self.leaving = []
        for call in self.scheduler.finish(self.running, self.now):
            self.end_call(call, "aborted" if call.is_aborted else "finished")
        asked, self.asked = self.asked, []
        for action in asked:
            action()

    def count(self, step):
        self.busy += self.now - self.start
        self.chunk_tokens += sum(tokens for _, _, tokens in step.chunks)

    def go_on(self):
        """The next step begins, and with overlap another is decided."""
        self.running, self.following = self.following, None
        if self.running is None:
            self.running = self.decide(is_idle=True)
        if self.running is not None:
            self.start, self.end = self.now, self.now + self.running.ticks
            self.following = self.decide(is_idle=False) if self.overlap else None

    def decide(self, *, is_idle):
        step = None if self.is_paused else self.scheduler.decide(self.now)
        if step is None:
            self.price.batch = None
            if is_idle and not self.is_paused:
                self.scheduler.rest()
        else:
            step.ticks = self.price.ticks(step)
        return step

    # -- orders ---------------------------------------------------------------------------------------------------

    @property
    def is_between(self):
        return self.running is None or self.has_ended

    def ask(self, action):
        """At the first boundary from now on."""
        if self.is_between:
            action()
        else:
            self.asked.append(action)

    def abort(self, serial):
        call = next(call for call, _ in self.calls if call.serial == serial)
        if call.arrived < 0 or call.status or call.is_aborted:
            return
        if call in self.scheduler.waiting:
            self.scheduler.waiting.remove(call)
            self.end_call(call, "aborted")
        elif not self.scheduler.aborts_at_once:
            self.ask(lambda: self.stop(call))
        elif self.is_between:
            self.leave(call)
        else:
            self.leaving.append(call)

    def leave(self, call):
        if not call.status:
            self.scheduler.leave(call)
            self.end_call(call, "aborted")

    def stop(self, call):
        """Its next token is its last."""
        if not call.status and not call.is_aborted:
            call.is_aborted = True
            call.output = call.output[: call.known + 1]

    def flush(self):
        inside = [call for call, _ in self.calls if call.arrived >= 0 and not call.status]
        self.ask(lambda: self.scheduler.flush(inside))

    def version(self, version):
        self.ask(lambda: self.scheduler.set_version(version))

    def pause(self):
        self.is_paused = True

    def resume(self):
        self.is_paused = False

    def fail(self):
        if self.is_down:
            return
        self.is_down, self.is_paused, self.down_since = True, False, self.now
        if self.running is not None and not self.has_ended:
            self.count(self.running)
        for call, _, tokens in self.following.chunks if self.following else ():
            call.unbegin(tokens)
        self.running = self.following = self.price.batch = None
        self.leaving, self.asked = [], []
        version = self.scheduler.version
        self.scheduler = self.make()
        self.scheduler.set_version(version)
        for call, _ in self.calls:
            if call.arrived >= 0 and not call.status:
                self.end_call(call, "failed")

    def restart(self):
        if self.is_down:
            self.is_down = False
            self.down += self.now - self.down_since
