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

    def marks(self):
        """What is compared."""
        return (
            self.arrived, self.decided, self.first_token, self.ended, self.queried, self.hit, self.cached,
            self.prefilled, self.repeated, self.preemptions,
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


def drive(scheduler, cost, calls, *, overlap):
    """Serve calls: ``(call, tick)``, or ``(call, (call before it, delay))``.

    Without overlap a step is decided when the one before ends, with it when the one before starts; an idle engine
    decides at once.
    """
    price, due = Price(cost), []
    for call, when in calls:
        if isinstance(when, int):
            heappush(due, (when, call.serial, call))
    running = following = None
    end = 0

    def decide(now, *, is_idle):
        step = scheduler.decide(now)
        if step is None:
            price.batch = None
            if is_idle:
                scheduler.rest()
        else:
            step.ticks = price.ticks(step)
        return step

    while due or running:
        now = end if running and (not due or end <= due[0][0]) else due[0][0]
        has_ended = running is not None and end == now
        if has_ended:
            for ended in scheduler.finish(running, now):
                for call, when in calls:
                    if not isinstance(when, int) and when[0] is ended:
                        heappush(due, (now + when[1], call.serial, call))
        while due and due[0][0] == now:
            call = heappop(due)[2]
            call.arrived = now
            scheduler.waiting.append(call)
        if running is not None and not has_ended:
            continue
        running, following = following, None
        if running is None:
            running = decide(now, is_idle=True)
        if running is not None:
            end = now + running.ticks
            following = decide(now, is_idle=False) if overlap else None
