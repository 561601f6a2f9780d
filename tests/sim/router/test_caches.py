"""What a policy knows of caches: nothing of the content, exactly what is there, or what was there a moment ago."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies._content import canonical, count, cut
from policies._protocol import Policy
from sim import replication
from sim.instants import TELEMETRY
from sim.router._caches import KnownCache, LaggedCaches
from sim.router.spec import ExactIndex
from tests.sim.router.desks import Desk
from tests.strategies import cell_of, resolved_worlds

some = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
CONTENT = ((0, 60), (7, 1000))


class Looks(Policy):
    """Sends everything to engine 0 and notes what is known of its cache, for whatever content."""

    reads_content = True

    def __init__(self):
        self.seen = []

    def choose(self, request, fleet, now, pick):
        engine = next(each for each in fleet.engines if each.index == 0)
        look = engine.cached_tokens
        self.seen.append((len(request.content), None if look is None else look(CONTENT)))
        return engine, "look", 0


@pytest.mark.parametrize(
    ("index", "known"),
    [
        ("approximate", [(1, None)] * 5),
        ("none", [(0, None)] * 5),
        (ExactIndex(), [(1, 0), (1, 30), (1, 30), (1, 80), (1, 80)]),
        (ExactIndex(lag_s=0.005), [(1, 0), (1, 0), (1, 30), (1, 30), (1, 80)]),
        (ExactIndex(lag_s=0.02), [(1, 0), (1, 0), (1, 0), (1, 0), (1, 0)]),
    ],
)
def test_what_is_known_of_a_cache(index, known):
    """The engine caches 30 tokens at 5 and 50 more at 15; asked at 0, 9, 10, 15 and 20."""
    desk = Desk(Looks(), engines=1, cache_index=index)
    engine = desk.engines[0]

    def store(end):
        before, engine.cached = engine.cached, end
        engine.tell(True, ((0, 60), (7, end - 60)) if end > 60 else ((0, end),), before)

    desk.at(5, store, 30).at(15, store, 80).send(0, 9, 10, 15, 20, prompt=60).run()
    assert desk.router.policy.seen == known


def test_what_was_evicted_is_known_for_a_while():
    """80 tokens stored at 1, 20 of them evicted at 20, 20 more at 25; a lag of 10."""
    desk = Desk(Looks(), engines=1, cache_index=ExactIndex(lag_s=0.01))
    engine = desk.engines[0]
    desk.at(1, lambda _: engine.tell(True, ((0, 60), (7, 20)), 0))
    desk.at(20, lambda _: engine.tell(False, ((0, 60), (7, 20)), 60)).at(
        25, lambda _: engine.tell(False, ((0, 60),), 40)
    )
    desk.send(10, 11, 26, 30, 35).run()
    assert [known for _, known in desk.router.policy.seen] == [0, 80, 80, 60, 40]


def test_a_flush_comes_as_late_as_everything():
    """An event without content: nothing is left."""
    desk = Desk(Looks(), engines=1, cache_index=ExactIndex(lag_s=0.01))
    engine = desk.engines[0]
    desk.at(1, lambda _: engine.tell(True, ((0, 60),), 0)).at(20, lambda _: engine.tell(False, (), 0))
    desk.send(29, 30).run()
    assert [known for _, known in desk.router.policy.seen] == [60, 0]


class Blocks:
    """The blocks of a cache, one by one, as a plain model of the tree; a block keeps those above it."""

    def __init__(self, block):
        self.block = block
        self.known = set()

    def ends(self, content, start=0):
        return range(start // self.block * self.block + self.block, count(content) + 1, self.block)

    def store(self, content):
        self.known |= {cut(content, end) for end in self.ends(content)}

    def forget(self, content, before):
        gone = [cut(content, end) for end in self.ends(content, before)][:1]
        self.known = {each for each in self.known if not any(cut(each, count(lost)) == lost for lost in gone)}
        if not content:
            self.known = set()

    def match(self, content):
        ends = self.ends(content)
        return next((end - self.block for end in ends if cut(content, end) not in self.known), len(ends) * self.block)


CONTENTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=4).map(canonical)


@settings(some, max_examples=300)
@given(st.sampled_from((1, 3, 4)), st.lists(st.tuples(st.integers(0, 2), CONTENTS, st.integers(0, 12)), max_size=25))
def test_the_tree_knows_what_a_set_of_blocks_knows(block, steps):
    """Stored and forgotten in any order, looked up after each step."""
    tree, plain = KnownCache(block), Blocks(block)
    for what, content, before in steps:
        if what:
            tree.store(content)
            plain.store(content)
        else:
            start = min(before, count(content)) // block * block
            tree.forget(content, start)
            plain.forget(content, start)
        for _, other, _ in steps:
            assert tree.match(other) == plain.match(other)


@pytest.mark.parametrize("step_by_step", [False, True])
def test_a_lagged_index_is_the_cache_of_before(step_by_step, monkeypatch):
    """In random worlds: what is known at any time is what an exact look gave a lag earlier."""
    held = {}
    build = replication.build_router

    def watched(env, spec, engines, urls, streams, log):
        caches = LaggedCaches(env, held["lag"])
        for engine in engines:
            caches.watch(engine)
        looks = {}

        def look(_):
            for engine in engines:
                for content in held["contents"]:
                    looks[env.now, engine.index, content] = engine.cached_tokens(content)
                    before = looks.get((env.now - held["lag"], engine.index, content))
                    if before is not None:
                        assert caches.cached_tokens(engine.index, content) == before
                        held["compared"] += 1
                        held["moved"] += before != looks[env.now, engine.index, content]

        for tick in range(1, 3_000_000_000, 5_000_000):
            env.at(tick, TELEMETRY, look)
        return build(env, spec, engines, urls, streams, log)

    monkeypatch.setattr(replication, "build_router", watched)

    @some
    @given(resolved_worlds(), st.sampled_from((5_000_000, 20_000_000, 100_000_000)))
    def hold(resolved, lag):
        cell = cell_of(resolved)
        workload = cell.workload.generate(replication.Streams(cell.seed, 0), cell.base)
        sessions = [workload.session(index) for index in range(min(workload.sessions, 4))]
        held.update(lag=lag, contents=[each.turns[-1].prompt for each in sessions])
        replication.replicate(cell, 0, step_by_step=step_by_step)

    held.update(compared=0, moved=0)
    hold()
    assert held["compared"] > 10_000
    assert held["moved"] > 100


def test_replicas_share_what_engines_tell():
    """A prompt that one replica sent is known to the other after the lag."""
    desk = Desk(Looks, engines=1, replicas=2, assignment="connection", cache_index=ExactIndex(lag_s=0.001))
    desk.engines[0].cached = 60
    assert len(desk.engines[0].listeners) == 1
    desk.at(49, lambda _: desk.engines[0].tell(True, CONTENT[:1], 0)).send(49, 49, 50, 50).run()
    assert [router.policy.seen for router in desk.router.routers] == [[(1, 0), (1, 60)]] * 2
