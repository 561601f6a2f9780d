"""A cap that follows the engines: it grows by turnovers, is trimmed near the ceiling, cut when memory is lost."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.client import _cap
from sim.engine.load import Load
from sim.instants import Clock
from sim.log.record import TABLES
from sim.replication import replicate
from sim.specs import ClientSpec, FeedbackCap
from tests.laws.test_rollout_steps import trained_worlds
from tests.strategies import cell_of, world


class Fleet:
    """A client and an engine that say what a test wants."""

    def __init__(self, **spec):
        self.env, self.ticks = Clock(), 1.0
        self.cap = self.under_way = self.ended = self.losses = 0
        self.share, self.waiting = 0.0, 0
        self.controller = _cap.Controller(self, FeedbackCap(**{"start": 100} | spec), [self])

    def peek(self, now):
        return Load(self.under_way, self.waiting, self.share, tokens=0, queued_tokens=0, busy=0, generated=0)

    def refill(self):
        pass

    def poll(self, **state):
        vars(self).update(state)
        self.controller._observe([self.peek(0)])
        return self.cap


def test_growth_tapers_to_the_soft_share():
    """A turnover grows the cap by 20 % at an empty pool, 10 % at half of the soft share, nothing at it, trims above."""
    assert Fleet().poll(under_way=100, ended=100, share=0.0) == 120
    assert Fleet().poll(under_way=100, ended=100, share=0.4) == 110
    assert Fleet().poll(under_way=100, ended=100, share=0.8) == 100
    assert Fleet().poll(under_way=100, ended=100, share=0.96) == 83


def test_no_growth_before_a_turnover_or_without_need():
    """99 of 100 samples ended, a cap that holds nobody back, or requests that wait at two polls: it stays."""
    assert Fleet().poll(under_way=100, ended=99) == 100
    assert Fleet().poll(under_way=89, ended=100) == 100
    queueing = Fleet()
    queueing.poll(under_way=100, waiting=3)
    assert queueing.poll(ended=100) == 100
    once = Fleet()
    once.poll(under_way=100, waiting=3)
    assert once.poll(ended=100, waiting=0) == 120


def test_lost_memory_cuts_once_for_each_drain():
    """A loss cuts what is in flight to 75 %; while that drains losses are ignored; if they go on, a half."""
    fleet = Fleet()
    assert fleet.poll(under_way=80, losses=1) == 60
    assert fleet.poll(under_way=70, losses=5) == 60
    assert fleet.poll(under_way=60, losses=6) == 30


def test_limits_hold():
    """Never below the least, never above the most."""
    assert Fleet(most=110).poll(under_way=100, ended=100) == 110
    assert Fleet(least=90).poll(under_way=100, losses=1) == 90
    with pytest.raises(ValueError, match="start must be from least to most"):
        FeedbackCap(start=5, least=6, most=9)
    with pytest.raises(ValueError, match="caps of one thing"):
        ClientSpec(feedback_cap=FeedbackCap(4), max_sessions_in_flight=4)


JOB = {
    "groups": 300,
    "turns": 6,
    "prompt": {"group_tokens": 100, "system_tokens": 0},
    "output_tokens": {"kind": "lognormal", "median": 40, "sigma": 0.5},
    "max_tokens": 200,
    "observation_tokens": 60,
    "tool_delay_s": 0.02,
}
ENGINE = {"kv_tokens": 12_000, "cost": {"kind": "constant", "step_ms": 10, "per_sequence_ms": 0.2}, "max_num_seqs": 512}


def most_under_way(requests):
    marks = [(t, 1) for t in requests["submitted"][requests["turn"] == 0].tolist()]
    marks += [(t, -1) for t in requests["ended"][requests["is_last"] == 1].tolist()]
    return max(np.cumsum([step for _, step in sorted(marks)]))


def run(client):
    return replicate(cell_of(world(engine=ENGINE, workload=JOB, client=client)), 0).numpy("requests")


def test_it_finds_room_from_below_and_backs_off_from_above():
    """From 4 it rises without a loss; from 30, more than fit as contexts grow, it soon loses nothing more."""
    low, high = (run({"feedback_cap": {"start": start, "poll_s": 0.1}}) for start in (4, 30))
    fixed = run({"max_sessions_in_flight": 60})
    assert most_under_way(low) > 8
    assert not low["preemptions"].any()
    assert 0 < high["preemptions"].sum() < 0.1 * fixed["preemptions"].sum()
    assert (low["status"] == 0).all()


def test_every_key_moves_the_log():
    """One key changed at a time, from a cap that must fall and from one that must rise."""
    falling = {"start": 30, "poll_s": 0.1}, [{}, {"start": 29}, {"least": 15}, {"poll_s": 0.3}, {"cut": 0.3}]
    rising = {"start": 4, "poll_s": 0.1}, [{}, {"most": 10}, {"growth": 1.0}, {"soft_share": 0.3}]
    for base, changes in (falling, rising):
        logs = {run({"feedback_cap": base | change})["submitted"].tobytes() for change in changes}
        assert len(logs) == len(changes)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(trained_worlds(), st.booleans(), st.sampled_from((1, 3, 12)), st.sampled_from((0.01, 0.025, 0.1)))
def test_a_moving_cap_keeps_the_laws(case, is_trained, start, poll_s):
    """L1, L11: looking at engines changes nothing in them, whether they jump or step."""
    resolved, _ = case
    resolved["client"] |= {
        "max_sessions_in_flight": None,
        "max_sessions_per_engine": None,
        "feedback_cap": {"start": start, "poll_s": poll_s},
    }
    resolved["training"] = resolved["training"] if is_trained else None
    cell = cell_of(resolved)
    one, two = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    assert all(getattr(one, table) == getattr(two, table) for table in TABLES)
    if not is_trained:
        assert len(one.numpy("groups")["group"]) == 8
        assert (one.numpy("groups")["ended"] >= 0).all()
