"""What stands before a choice: the limit on requests under way, and the cores that decisions take."""

import numpy as np
import pytest

from policies.least_load import LeastLoad
from policies.round_robin import RoundRobin
from sim.router.spec import Decision, Health, Limit
from tests.laws.theory_forms import central_queue, single_server
from tests.sim.router.desks import Desk


def test_decisions_follow_each_other_on_a_core():
    """Three requests at once, 4 ms a decision: chosen at 4, 8, 12; with two cores at 4, 4, 8."""
    for cores, at, waited in ((1, [4, 8, 12], [0, 4, 8]), (2, [4, 4, 8], [0, 0, 4])):
        desk = Desk(RoundRobin(), decision=Decision(fixed_s=0.004, cores=cores)).send(0, 0, 0).run()
        assert desk.decisions("at") == at
        assert desk.decisions("waited") == waited
        assert desk.decisions("service") == [4, 4, 4]
        assert desk.log.router_cores == cores


def test_a_decision_costs_by_the_token_and_by_the_candidate():
    """2 ms + 0.05 ms a token + 3 ms for each of the engines that are available when it begins."""
    cost = Decision(fixed_s=0.002, per_token_s=0.00005, per_candidate_s=0.003)
    desk = Desk(RoundRobin(), engines=3, decision=cost).send(0, prompt=100).send(50, prompt=400)
    desk.at(40, lambda _: desk.router.set_available(1, False)).run()
    assert desk.decisions("service") == [2 + 5 + 9, 2 + 20 + 6]


def test_the_choice_is_made_at_the_end_of_the_decision():
    """The second decision sees the first request gone: it ended meanwhile."""
    desk = Desk(LeastLoad(), service=5, decision=Decision(fixed_s=0.01)).send(0, 0).run()
    assert desk.decisions("at", "in_flight", "total_in_flight") == [(10, 0, 0), (20, 0, 0)]


@pytest.mark.parametrize(
    ("cores", "cost", "prompts", "wait"),
    [
        (1, Decision(fixed_s=1.0), "equal", single_server(0.7, 1.0)),
        (1, Decision(per_token_s=0.001), "exponential", single_server(0.7, 2.0)),
        (3, Decision(per_token_s=0.001), "exponential", central_queue(3, 0.7)),
    ],
    ids=["M/D/1", "M/M/1", "M/M/3"],
)
def test_the_queue_for_cores_is_the_one_of_theory(cores, cost, prompts, wait):
    """L12: the mean wait for a core at 70 % load, in mean services of 1 s, is Pollaczek-Khinchine's and Erlang's."""
    draw = np.random.default_rng(20261130)
    count = 30_000
    ticks = np.cumsum(draw.exponential(1000 / (0.7 * cores), count)).astype(int).tolist()
    tokens = draw.exponential(1000, count).round().astype(int).tolist() if prompts == "exponential" else [0] * count
    spec = Decision(cost.fixed_s, cost.per_token_s, 0.0, cores)
    desk = Desk(RoundRobin(), engines=1, decision=spec)
    for tick, size in zip(ticks, tokens, strict=True):
        desk.send(tick, prompt=size)
    waits = np.array(desk.run().decisions("waited")) / 1000
    batches = waits[: count // 20 * 20].reshape(20, -1).mean(axis=1)
    error = batches.std(ddof=1) / 20**0.5
    assert abs(waits.mean() - wait) < 3.5 * error
    assert error < 0.06 * wait
    services = np.array(desk.decisions("service"))
    assert services.sum() / (cores * desk.decisions("at")[-1]) == pytest.approx(0.7, rel=0.03)


def test_a_limit_lets_so_many_in_and_queues_the_rest():
    """Two at a time, 10 ms each: the third and fourth go on when the first two have ended."""
    desk = Desk(RoundRobin(), limit=Limit(2)).send(0, 0, 1, 2).run()
    assert desk.decisions("at", "waited") == [(0, 0), (0, 0), (10, 9), (10, 8)]
    assert desk.replies == [(0, 10), (1, 10), (2, 20), (3, 20)]


def test_a_full_queue_refuses_at_once_and_a_long_wait_ends():
    """429 beyond the queue's length, 408 after its patience; the others are served."""
    desk = Desk(RoundRobin(), service=100, limit=Limit(1, queue_requests=1, wait_s=0.05)).send(0, 10, 20, 60, 61).run()
    assert desk.outcomes() == [
        ("finished", "none"),
        ("failed", "timeout_408"),
        ("failed", "limit_429"),
        ("finished", "none"),
        ("failed", "limit_429"),
    ]
    assert [(each.submitted, each.ended) for each in desk.requests] == [
        (0, 100),
        (10, 60),
        (20, 20),
        (60, 200),
        (61, 61),
    ]
    assert desk.decisions("request") == [0, 3]
    assert (desk.requests[1].engine, desk.requests[2].engine) == (-1, -1)


def test_a_place_that_is_free_at_the_last_moment_is_taken():
    """The answer and the end of the patience fall on one tick: answers come first."""
    desk = Desk(RoundRobin(), service=50, limit=Limit(1, wait_s=0.05)).send(0, 0).run()
    assert desk.outcomes() == [("finished", "none")] * 2


def test_patience_keeps_no_run_going():
    """Probes go on until the last answer, at 610, not until the last patience would have ended."""
    around = {"limit": Limit(1, wait_s=50.0), "health": Health(period_s=0.1, timeout_s=0.01, fall=9)}
    desk = Desk(RoundRobin(), **around).send(0, 0, 0)
    desk.at(450, lambda _: desk.engines[0].fail()).send(600).run()
    assert desk.router.probes.streaks == {0: -2, 1: 6}
    assert desk.env.background == 0
