"""Both prefix caches against the reference's: same hits, same counts, same evictions under random sequences of use."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policies._content import count, extend
from sim.engine.block_cache import BlockCache
from sim.engine.radix_cache import RadixCache
from tests.reference.radix import Radix
from tests.reference.vllm import Blocks
from tests.reference.world import tokens_of
from tests.sim.engine.worlds import Bench, request

CAPACITY = 24

# Prompts that share system, group and session prefixes at odd lengths.
prompts = st.tuples(
    st.sampled_from([0, 3, 8, 13]), st.integers(0, 2), st.integers(0, 14), st.integers(0, 3), st.integers(1, 20)
).map(lambda drawn: _prompt(*drawn))


def _prompt(system, group, group_tokens, session, session_tokens):
    spans = (0, system), (10 + group, group_tokens), (100 + 10 * group + session, session_tokens)
    return tuple(span for span in spans if span[1])


class BlockCacheMachine(RuleBasedStateMachine):
    """Requests are admitted, grow, are computed and leave; numbered blocks in the reference's pool do the same."""

    @initialize(size=st.sampled_from([1, 4, 8]), is_early=st.booleans())
    def start(self, size, is_early):
        self.size, self.is_early = size, is_early
        self.cache = BlockCache(CAPACITY, size)
        self.blocks = Blocks(CAPACITY, size)
        self.live = {}
        self.serial = 0
        self.versions, self.buried = {}, set()

    @rule(prompt=prompts, output=st.integers(0, 12), chunk=st.integers(1, 40))
    def admit(self, prompt, output, chunk):
        """Find, hold the hit, take blocks for the first chunk of the rest, register at once or when computed."""
        self.serial += 1
        each = request(self.serial, prompt)
        tokens = tokens_of(prompt)
        node, depth = self.cache.find(each.content, len(tokens) - 1)
        held = self.blocks.look_up(tokens, len(tokens) - 1)
        assert depth // self.size == len(held)
        free_hits = sum(not self.blocks.holders[block] for block in held)
        assert self.cache.count_free_hits(node, depth) == free_hits
        slots = min(len(tokens), depth // self.size * self.size + chunk)
        need = -(-slots // self.size) - len(held)
        if need + free_hits > self.cache.free:
            return
        self.cache.hold(each, node, depth)
        for block in held:
            self.blocks.hold(block)
        self._take(held, need)
        self.live[self.serial] = each, held, extend(prompt, 10_000 + self.serial, output), slots
        self.versions[self.serial] = self.blocks.version
        if self.is_early:
            self._register(self.serial)

    def _take(self, held, blocks):
        self.cache.take(blocks)
        held += [self.blocks.take() for _ in range(blocks)]

    def _register(self, serial):
        each, held, whole, slots = self.live[serial]
        self.cache.register(each, whole, slots)
        tokens = tokens_of(whole)
        for place in range(slots // self.size if serial not in self.buried else 0):
            self.blocks.register(held[place], (self.versions[serial], *tokens[: (place + 1) * self.size]))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def computed(self, data):
        """What a request has is computed: findable now at the latest."""
        self._register(data.draw(st.sampled_from(sorted(self.live))))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), tokens=st.integers(1, 6))
    def go_on(self, data, tokens):
        """A few tokens more, of the prompt or decoded, and a block where they cross into one."""
        serial = data.draw(st.sampled_from(sorted(self.live)))
        each, held, whole, slots = self.live[serial]
        tokens = min(tokens, count(whole) - slots)
        blocks = -(-(slots + tokens) // self.size) - -(-slots // self.size)
        if blocks <= self.cache.free:
            self._take(held, blocks)
            self.live[serial] = each, held, whole, slots + tokens
            if self.is_early:
                self._register(serial)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), is_public=st.booleans())
    def end(self, data, is_public):
        """A request leaves; its output can be found later or not."""
        serial = data.draw(st.sampled_from(sorted(self.live)))
        if is_public:
            self._register(serial)
        each, held, _, _ = self.live.pop(serial)
        self.cache.release(each, len(held))
        self.blocks.release(held)

    @rule(prompt=prompts)
    def look(self, prompt):
        """The same prefix is found."""
        tokens = tokens_of(prompt)
        found = self.blocks.look_up(tokens, len(tokens))
        assert self.cache.find(prompt, len(tokens))[1] // self.size == len(found)

    @rule()
    def flush(self):
        """All is forgotten; what is held is not found, and free when it is given back."""
        self.cache.flush()
        self.blocks.flush()
        self.buried |= set(self.live)

    @rule(version=st.integers(0, 2))
    def update(self, version):
        """Weights of another version find what they computed themselves."""
        self.cache.set_version(version)
        self.blocks.version = version

    @invariant()
    def same_counts(self):
        """Free and cached blocks agree."""
        if not hasattr(self, "cache"):
            return
        free = self.blocks.free
        assert self.cache.free == len(free)
        cached = sum(self.blocks.chain[block] is not None for block in free)
        assert self.cache.usage() == (CAPACITY - len(free), cached)


class RadixCacheMachine(RuleBasedStateMachine):
    """The same for the radix tree."""

    @initialize(size=st.sampled_from([1, 1, 4, 8]))
    def start(self, size):
        self.size = size
        capacity = CAPACITY * (4 if size == 1 else 1)
        self.cache = RadixCache(capacity, size)
        self.radix = Radix(capacity, size)
        self.live = {}
        self.serial = 0
        self.versions, self.buried = {}, set()

    @rule(prompt=prompts, output=st.integers(0, 12))
    def admit(self, prompt, output):
        """Match, lock, allocate the rest; a request without room is refused after its match."""
        self.serial += 1
        each = request(self.serial, prompt)
        tokens = tokens_of(prompt)
        node, hit = self.cache.find(each, len(tokens) - 1)
        end, matched = self.radix.match(tokens[:-1])
        assert hit == matched
        unlocked = sum(len(step.pages) for step in end.path() if not step.locks)
        assert self.cache.count_unlocked(node) == unlocked
        pages = -(-len(tokens) // self.size) - hit // self.size
        if pages > self.cache.free + self.cache.evictable - unlocked:
            return
        self.cache.lock(each, node)
        self.radix.lock(end, 1)
        self._take(pages)
        whole = extend(prompt, 10_000 + self.serial, output)
        self.live[self.serial] = [each, end, whole, len(tokens)]
        self.versions[self.serial] = self.radix.version

    def _take(self, pages):
        self.cache.take(pages)
        self.radix.make_room(pages)
        self.radix.free -= pages

    def _insert(self, serial):
        """The request's tokens so far go into the tree; pages that were there are freed, the lock moves down."""
        state = self.live[serial]
        each, end, whole, slots = state
        self.cache.register(each, whole, slots)
        if serial in self.buried:
            return
        leaf, there = self.radix.insert(tokens_of(whole)[:slots], self.versions[serial])
        self.radix.free += max(0, there - owned(end))
        self.radix.lock(leaf, 1)
        self.radix.lock(end, -1)
        state[1] = leaf

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
        tokens = min(tokens, count(state[2]) - state[3])
        pages = -(-(state[3] + tokens) // self.size) - -(-state[3] // self.size)
        if pages <= self.cache.free + self.cache.evictable:
            self._take(pages)
            state[3] += tokens

    @precondition(lambda self: self.live)
    @rule(data=st.data(), is_retracted=st.booleans())
    def end(self, data, is_retracted):
        """What a request computed stays, evictable, at its end; of one that is retracted only what it had inserted."""
        serial = data.draw(st.sampled_from(sorted(self.live)))
        if not is_retracted:
            self._insert(serial)
        each, end, _, slots = self.live.pop(serial)
        pages = -(-slots // self.size)
        self.cache.free += pages - each.leaf.end // self.size
        self.cache.unlock(each)
        self.radix.free += pages - owned(end)
        self.radix.lock(end, -1)

    @rule(prompt=prompts)
    def look(self, prompt):
        """The same prefix is found, by a look that changes nothing."""
        tokens = tokens_of(prompt)
        pages = range(self.size, len(tokens) + 1, self.size)
        contents = self.radix.contents()
        found = sum(tuple(tokens[:end]) in contents for end in pages)
        assert self.cache.match(prompt, len(tokens))[1] // self.size == found

    @rule()
    def flush(self):
        """All is forgotten; what is held is not found, and free when it is given back."""
        self.cache.flush()
        self.radix.flush()
        self.buried |= set(self.live)

    @rule(version=st.integers(0, 2))
    def update(self, version):
        """Weights of another version find what they computed themselves."""
        self.cache.set_version(version)
        self.radix.version = version

    @invariant()
    def same_counts(self):
        """Free and evictable pages agree."""
        if not hasattr(self, "cache"):
            return
        assert self.cache.free == self.radix.free
        assert self.cache.evictable == self.radix.evictable


def owned(node):
    """Pages from the start to the end of a node of the reference."""
    return sum(len(each.pages) for each in node.path())


quick = settings(max_examples=100, stateful_step_count=30, deadline=None, derandomize=True)

TestBlocks = BlockCacheMachine.TestCase
TestBlocks.settings = quick
TestRadix = RadixCacheMachine.TestCase
TestRadix.settings = quick


def test_nothing_is_found_beyond_what_was_forgotten():
    """A prompt loses what went on inside its last block; two blocks of it are hit, and then the second is lost too."""
    cache = BlockCache(6, 16)
    serve(cache, 1, ((2, 38), (7, 26)))  # 4 blocks, of which the third and fourth hold tokens of 7
    serve(cache, 2, ((3, 64),))  # takes the two never used, and those two
    serve(cache, 3, ((2, 32), (4, 1)))  # hits two blocks: the 6 tokens after them are cached in no block
    serve(cache, 4, ((5, 80),))  # 5 of 6: what is left is the first block of prompt 1
    assert cache.find(((2, 38),), 38)[1] // 16 == 1


def serve(cache, serial, prompt):
    """A request finds what it can, takes the rest, computes all and leaves."""
    each = request(serial, prompt)
    node, depth = cache.find(each.content, each.prompt_tokens - 1)
    cache.hold(each, node, depth)
    held = -(-each.prompt_tokens // cache.block)
    cache.take(held - depth // cache.block)
    cache.register(each, each.content, each.prompt_tokens)
    cache.release(each, held)


@pytest.mark.parametrize("preset", ["vllm", "sglang"])
def test_a_prompt_of_one_token_hits_nothing(preset):
    """Its last token is computed anyway, and what is cached is not cut at its very start."""
    first, second = request(0, ((7, 20),), 50), request(1, ((7, 1),), 2)
    bench = Bench(preset, block_tokens=4).send(0, first).send(20, second)
    bench.run()
    assert second.cached_tokens == 0
    assert all(node.start < node.end for node in bench.scheduler.cache.nodes())
