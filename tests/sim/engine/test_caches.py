"""Both prefix caches against plain models: same hits, same counts, same evictions under random sequences of use."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policies._content import extend
from sim.engine.block_cache import BlockCache
from sim.engine.radix_cache import RadixCache
from tests.sim.engine.naive import Held, NaiveBlocks, NaiveRadix, tokens_of
from tests.sim.engine.worlds import request

CAPACITY = 24

# Prompts that share system, group and session prefixes at odd lengths.
prompts = st.tuples(
    st.sampled_from([0, 3, 8, 13]), st.integers(0, 2), st.integers(0, 14), st.integers(0, 3), st.integers(1, 20)
).map(lambda drawn: _prompt(*drawn))


def _prompt(system, group, group_tokens, session, session_tokens):
    spans = (0, system), (10 + group, group_tokens), (100 + 10 * group + session, session_tokens)
    return tuple(span for span in spans if span[1])


class Blocks(RuleBasedStateMachine):
    """Requests are admitted, grow, are computed and leave; the plain pool does the same."""

    @initialize(size=st.sampled_from([1, 4, 8]), is_early=st.booleans())
    def start(self, size, is_early):
        self.size, self.is_early = size, is_early
        self.cache = BlockCache(CAPACITY, size)
        self.naive = NaiveBlocks(CAPACITY, size)
        self.live = {}
        self.serial = 0

    @rule(prompt=prompts, output=st.integers(0, 12))
    def admit(self, prompt, output):
        """Find, hold the hit, take the rest, register at once or when computed."""
        self.serial += 1
        each = request(self.serial, prompt)
        tokens = tokens_of(prompt)
        node, depth = self.cache.find(each.content, len(tokens) - 1)
        found = self.naive.find(tokens, len(tokens) - 1)
        hit = depth // self.size
        assert hit == len(found)
        free_hits = sum(not self.naive.holders[block] for block in found)
        assert self.cache.count_free_hits(node, depth) == free_hits
        need = -(-len(tokens) // self.size) - hit
        if need + free_hits > self.cache.free:
            return
        self.cache.hold(each, node, depth)
        self.naive.hold(found)
        held = Held(found)
        self.cache.take(need)
        held.loose += self.naive.take(need)
        whole = extend(prompt, 10_000 + self.serial, output)
        self.live[self.serial] = each, held, whole, len(tokens)
        if self.is_early:
            self._register(self.serial)

    def _register(self, serial):
        each, held, whole, slots = self.live[serial]
        self.cache.register(each, whole, slots)
        self.naive.register(held, tokens_of(whole, slots))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def computed(self, data):
        """A prompt is computed: findable now at the latest."""
        self._register(data.draw(st.sampled_from(sorted(self.live))))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def decode(self, data):
        """One token more, and a block where it crosses into one."""
        serial = data.draw(st.sampled_from(sorted(self.live)))
        each, held, whole, slots = self.live[serial]
        blocks = -(-(slots + 1) // self.size) - -(-slots // self.size)
        if slots < len(tokens_of(whole)) and blocks <= self.cache.free:
            self.cache.take(blocks)
            held.loose += self.naive.take(blocks)
            self.live[serial] = each, held, whole, slots + 1

    @precondition(lambda self: self.live)
    @rule(data=st.data(), is_public=st.booleans())
    def end(self, data, is_public):
        """A request leaves; its output can be found later or not."""
        serial = data.draw(st.sampled_from(sorted(self.live)))
        if is_public:
            self._register(serial)
        each, held, _, slots = self.live.pop(serial)
        self.cache.release(each, -(-slots // self.size))
        self.naive.release(held)

    @rule(prompt=prompts)
    def look(self, prompt):
        """The same prefix is found."""
        tokens = tokens_of(prompt)
        assert self.cache.find(prompt, len(tokens))[1] // self.size == len(self.naive.find(tokens, len(tokens)))

    @invariant()
    def same_counts(self):
        """Free and cached blocks agree."""
        if not hasattr(self, "cache"):
            return
        assert self.cache.free == len(self.naive.free)
        assert self.cache.usage() == (CAPACITY - len(self.naive.free), self.naive.cached)


class Radix(RuleBasedStateMachine):
    """The same for the radix tree."""

    @initialize(size=st.sampled_from([1, 1, 4, 8]))
    def start(self, size):
        self.size = size
        self.capacity = CAPACITY * (4 if size == 1 else 1)
        self.cache = RadixCache(self.capacity, size)
        self.naive = NaiveRadix(self.capacity, size)
        self.live = {}
        self.serial = 0

    @rule(prompt=prompts, output=st.integers(0, 12))
    def admit(self, prompt, output):
        """Match, lock, allocate the rest; a request without room is refused after its match."""
        self.serial += 1
        each = request(self.serial, prompt)
        tokens = tokens_of(prompt)
        node, hit = self.cache.find(each, len(tokens) - 1)
        naive = self.naive.match(tokens, len(tokens) - 1)
        assert hit == self.naive.depth(naive) * self.size
        unlocked, step = 0, naive
        while step is not self.naive.root:
            unlocked += 0 if step.locks else len(step.pages)
            step = step.parent
        assert self.cache.count_unlocked(node) == unlocked
        pages = -(-len(tokens) // self.size) - hit // self.size
        if pages > self.cache.free + self.cache.evictable - unlocked:
            return
        self.cache.lock(each, node)
        self.naive.lock(naive, 1)
        self.cache.take(pages)
        self.naive.take(pages)
        whole = extend(prompt, 10_000 + self.serial, output)
        self.live[self.serial] = [each, naive, whole, len(tokens), hit // self.size]

    def _insert(self, serial):
        """The request's tokens so far go into the tree; pages that were there are freed, the lock moves down."""
        state = self.live[serial]
        each, naive, whole, slots, owned = state
        self.cache.register(each, whole, slots)
        leaf, before = self.naive.insert(tokens_of(whole, slots))
        self.naive.free += max(0, before - owned)
        self.naive.lock(leaf, 1)
        self.naive.lock(naive, -1)
        state[1], state[4] = leaf, self.naive.depth(leaf)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def computed(self, data):
        """A prefill ends."""
        self._insert(data.draw(st.sampled_from(sorted(self.live))))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), tokens=st.integers(1, 6))
    def decode(self, data, tokens):
        """A few tokens more."""
        state = self.live[data.draw(st.sampled_from(sorted(self.live)))]
        tokens = min(tokens, len(tokens_of(state[2])) - state[3])
        pages = -(-(state[3] + tokens) // self.size) - -(-state[3] // self.size)
        if pages <= self.cache.free + self.cache.evictable:
            self.cache.take(pages)
            self.naive.take(pages)
            state[3] += tokens

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data):
        """A request ends: all that it computed stays, evictable; a page that is not full is freed."""
        serial = data.draw(st.sampled_from(sorted(self.live)))
        self._insert(serial)
        each, naive, _, slots, owned = self.live.pop(serial)
        self.cache.free += -(-slots // self.size) - each.leaf.end // self.size
        self.cache.unlock(each)
        self.naive.free += -(-slots // self.size) - owned
        self.naive.lock(naive, -1)

    @rule(prompt=prompts)
    def look(self, prompt):
        """The same prefix is found."""
        tokens = tokens_of(prompt)
        assert self.cache.match(prompt, len(tokens))[1] // self.size == self.naive.common(tokens)

    @invariant()
    def same_counts(self):
        """Free and evictable pages agree."""
        if not hasattr(self, "cache"):
            return
        assert self.cache.free == self.naive.free
        assert self.cache.evictable == self.naive.evictable


quick = settings(max_examples=150, stateful_step_count=30, deadline=None, derandomize=True)

TestBlocks = Blocks.TestCase
TestBlocks.settings = quick
TestRadix = Radix.TestCase
TestRadix.settings = quick
