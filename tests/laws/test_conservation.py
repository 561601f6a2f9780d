"""L1: requests and KV memory are conserved; L3: no engine rests while it has work that it could admit.

Memory is counted again from scratch after every call that a scheduler answers: from the tree of cached content, the
queue of what may be given up, and the requests that hold something.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import replication
from sim.engine._tree import DEAD
from sim.engine.vllm import VllmScheduler
from tests.strategies import cell_of, crowded_worlds, resolved_worlds, world

some = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


class Recount:
    """Watches one scheduler: what it says of its memory must be what is there."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.known = []
        self.checks = 0
        for name in ("accept", "form", "advance", "complete", "hold", "clear"):
            setattr(scheduler, name, self._watched(getattr(scheduler, name)))

    def _watched(self, method):
        def call(*arguments):
            answer = method(*arguments)
            if method.__name__ == "clear":
                self.known.clear()
            if method.__name__ == "accept":
                self.known.append(arguments[0])
            if method.__name__ == "form" and answer is None:
                self.assert_idle()
            self.assert_conserved()
            return answer

        return call

    def assert_idle(self):
        """Nothing is formed only if nobody waits, or what is under way still holds memory."""
        under_way = self.scheduler.ending or [r for r in self.known if r.leaf is not None]
        assert not self.scheduler.waiting or under_way

    def holders(self):
        return [request for request in self.known if request.leaf is not None]

    def assert_conserved(self):
        self.checks += 1
        cache, block = self.scheduler.cache, self.scheduler.block
        refs = Counter()
        dead = {}
        loose = 0
        for request in self.holders():
            node, copies = request.leaf, request.copies or {}
            loose += -(-self.slots(request) // block) - node.end // block + getattr(self.scheduler, "state_blocks", 0)
            while node is not None:
                if node not in copies:
                    refs[id(node)] += 1
                if node.source == DEAD and node.parent is not None:
                    dead[id(node), request if node in copies else None] = node
                node = node.parent
        held = sum(node.end // block - node.start // block for node in dead.values())
        idle = 0
        for node in cache.nodes():
            pages = node.end // block - node.start // block
            assert node.parent is not None
            assert node.parent.children[node.source] is node
            assert node.parent.end == node.start < node.end
            assert node.refs == refs[id(node)]
            for is_held in [node.refs, *(copy.holder is not None for copy in node.copies or ())]:
                held, idle = (held + pages, idle) if is_held else (held, idle + pages)
        queued = sum(entry.end // block - entry.start // block for entry in cache.entries())
        assert all(not entry.refs for entry in cache.entries())
        assert loose >= 0
        assert cache.free >= 0
        if isinstance(self.scheduler, VllmScheduler):
            assert cache.free + held + loose == cache.capacity
            assert cache.free + cache.owed == queued + cache.unused
            assert cache.unused >= 0
            assert cache.cached == idle
        else:
            assert cache.evictable == idle == queued
            assert cache.free + idle + held + loose == cache.capacity

    def slots(self, request):
        """Tokens in memory: a token a step since the request decodes, none after a limit that was foreseen."""
        if request.joined_at < 0:
            return request.computed
        steps = self.scheduler.decodes.steps
        if self.scheduler.decodes.overlap and request.output_tokens >= request.max_tokens:
            steps = min(steps, request.ends_at)
        return request.target + steps - request.joined_at


@pytest.fixture
def watch(monkeypatch):
    """Watch every scheduler that a replication builds; returns the watchers."""
    build, watchers = replication.build_schedulers, []

    def watched(*arguments):
        schedulers = build(*arguments)
        watchers[:] = [Recount(scheduler) for scheduler in schedulers]
        return schedulers

    monkeypatch.setattr(replication, "build_schedulers", watched)
    return watchers


@pytest.mark.parametrize("step_by_step", [False, True])
def test_memory_is_conserved(watch, step_by_step):
    """L1: used, free and cached blocks make the capacity at every decision, and all memory comes back; L3."""

    @some
    @given(st.one_of(resolved_worlds(), crowded_worlds()))
    def hold(resolved):
        replication.replicate(cell_of(resolved), 0, step_by_step=step_by_step)
        for watcher in watch:
            cache = watcher.scheduler.cache
            assert not watcher.holders()
            assert cache.usage()[0] == 0
            assert not watcher.scheduler.waiting

    hold()


@some
@given(resolved_worlds())
def test_requests_are_conserved(resolved):
    """L1: each offered request has one row, and a status that its session agrees with."""
    cell = cell_of(resolved)
    log = replication.replicate(cell, 0)
    offered = cell.workload.generate(replication.Streams(cell.seed, 0), cell.base)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    expected = {(s.id, turn) for s in map(offered.session, range(offered.sessions)) for turn in range(len(s.turns))}
    seen = set(zip(requests["session"].tolist(), requests["turn"].tolist(), strict=True))
    lost = {session for session, status in zip(requests["session"], requests["status"], strict=True) if status}
    assert len(seen) == len(requests["session"])
    assert seen <= expected
    assert {session for session, _ in expected - seen} <= lost
    assert set(requests["status"].tolist()) <= {0, 2}
    assert (requests["output_tokens"][requests["status"] == 0] >= 1).all()
    assert groups["sessions"].sum() == offered.sessions
    assert groups["finished"].sum() == offered.sessions - len(lost)


@some
@given(resolved_worlds())
def test_tokens_are_conserved(resolved):
    """L1: tokens of the steps are the tokens of the requests: prefilled, repeated, and one decode a token."""
    log = replication.replicate(cell_of(resolved), 0)
    requests, engines = log.numpy("requests"), log.numpy("engines")
    assert (engines["chunk_tokens"]).sum() == requests["prefill_tokens"].sum()
    assert engines["repeat_tokens"].sum() == requests["recomputed_tokens"].sum()
    done = requests["status"] == 0
    if not requests["preemptions"].any():
        computed = requests["prefill_tokens"] + requests["cached_tokens"]
        assert (computed == requests["prompt_tokens"])[done].all()
        assert not requests["recomputed_tokens"].any()
        decoded = (requests["output_tokens"] - 1)[done].sum()
        steps = (engines["decodes"] * engines["steps"]).sum()
        engine = resolved["fleet"]["engine"]
        # With overlap a stop token is noticed one step late; the decode step that runs meanwhile is in vain. SGLang may
        # run a prefill meanwhile, in which nobody decodes.
        stopped = (requests["output_tokens"] < requests["max_tokens"])[done].sum() * engine["overlap"]
        vain = steps - decoded
        assert vain == stopped if engine["preset"] == "vllm" else 0 <= vain <= stopped


@some
@given(resolved_worlds())
def test_no_engine_rests_with_work(resolved):
    """L3: while a request waits for its first step, its engine is in a step."""
    log = replication.replicate(cell_of(resolved), 0)
    requests, engines = log.numpy("requests"), log.numpy("engines")
    for engine in range(resolved["fleet"]["engines"]):
        mine = engines["engine"] == engine
        starts, ends = engines["start"][mine], engines["end"][mine]
        assert (starts[1:] >= ends[:-1]).all()
        gaps = [(a, b) for a, b in zip(np.append(0, ends), np.append(starts, 1 << 62), strict=True) if a < b]
        waits = (requests["engine"] == engine) & (requests["scheduled"] > requests["arrived"])
        for arrived, scheduled in zip(requests["arrived"][waits], requests["scheduled"][waits], strict=True):
            assert not [gap for gap in gaps if max(arrived, gap[0]) < min(scheduled, gap[1])]


def test_failed_requests_are_counted():
    """L1: a request that can never fit is rejected, its session ends, the others finish."""
    lengths = {"kind": "uniform", "low": 50, "high": 500}
    resolved = world(
        engine={"kv_tokens": 320},
        workload={"groups": 20, "prompt": {"group_tokens": lengths, "system_tokens": 0}, "turns": 2},
    )
    requests = replication.replicate(cell_of(resolved), 0).numpy("requests")
    rejected = requests["status"] == 2
    assert 0 < rejected.sum() < len(rejected)
    assert (requests["prompt_tokens"][rejected] + 5 > 304).all()
    assert (requests["scheduled"][rejected] == -1).all()
    assert (requests["prompt_tokens"] + 5 <= 320)[~rejected].all()
