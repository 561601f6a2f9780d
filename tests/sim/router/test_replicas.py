"""Several routers: whose each request is, and what each of them counts."""

from collections import Counter

import pytest

from policies.least_load import LeastLoad
from policies.round_robin import RoundRobin
from sim.router.plain import Router
from sim.router.spec import Decision, Health, TelemetrySpec
from tests.sim.router.desks import Desk, FakeEngine


def test_each_replica_has_its_own_policy_and_counts():
    """Round robin of two replicas: each deals its own requests in turn."""
    desk = Desk(RoundRobin, engines=3, replicas=2).send(*range(60)).run()
    by_replica = {0: [], 1: []}
    for replica, engine in desk.decisions("replica", "engine"):
        by_replica[replica].append(engine)
    for engines in by_replica.values():
        assert len(engines) > 15
        assert engines == [place % 3 for place in range(len(engines))]


def test_counts_of_all_replicas_sum_to_what_is_inside():
    """Own counts of the replicas, over replicas, are the requests that an engine has."""
    desk = Desk(LeastLoad, engines=3, service=25, replicas=4, decision=Decision())
    seen = []

    def compare(_):
        inside = [len(engine.inside) for engine in desk.engines]
        own = [sum(router.own[index] for router in desk.router.routers) for index in range(3)]
        views = [sum(router.views[index].in_flight for router in desk.router.routers) for index in range(3)]
        seen.append((own == inside, views == inside, sum(inside)))

    for tick in range(5, 200, 10):
        desk.at(tick, compare, priority=7 << 48)
    desk.send(*range(200)).run()
    assert all(own and view for own, view, _ in seen)
    assert max(total for _, _, total in seen) >= 20
    assert [router.in_flight for router in desk.router.routers] == [0] * 4
    assert desk.log.router_cores == 4


def test_lots_by_request_and_by_session():
    """By request a session meets several replicas, by session one; both spread evenly, and alike in any order."""
    taken = {}
    for assignment in ("random", "session"):
        desk = Desk(LeastLoad, replicas=4, assignment=assignment)
        for serial in range(400):
            desk.send(serial, session=serial // 10)
        desk.run()
        rows = dict(desk.decisions("request", "replica"))
        taken[assignment] = [rows[serial] for serial in range(400)]
        assert min(Counter(taken[assignment]).values()) > 40
        late = Desk(LeastLoad, replicas=4, assignment=assignment)
        for serial in range(400):
            late.send(1000 - serial, session=serial // 10)
        late.run()
        assert dict(late.decisions("request", "replica")) == rows
    assert all(len(set(taken["session"][i : i + 10])) == 1 for i in range(0, 400, 10))
    assert all(len(set(taken["random"][i : i + 10])) > 1 for i in range(0, 400, 10))


def test_connections_are_reused_last_first_and_opened_in_turn():
    """Requests that overlap open connections, to replicas in turn; one that is free is used again."""
    desk = Desk(LeastLoad, service=10, replicas=3, assignment="connection").send(0, 1, 2, 3, 15, 16, 40, 60).run()
    replicas = [replica for _, replica in sorted(desk.decisions("request", "replica"))]
    # four at once: 0 1 2 0; they end in order, so the last to end, the fourth connection, is first to be used again
    assert replicas == [0, 1, 2, 0, 0, 2, 2, 2]


def test_what_happens_to_the_fleet_happens_to_all():
    """Leaving, barring and joining reach the policy of every replica."""
    desk = Desk(LeastLoad, engines=3, replicas=2)
    desk.at(0, lambda _: desk.router.set_available(2, False)).at(0, lambda _: desk.router.leave(0))
    desk.at(100, lambda _: desk.router.join(desk.engines[0], "http://engine-0", 0))
    desk.send(*range(1, 200)).run()
    rows = desk.decisions("at", "engine", "replica")
    assert {engine for at, engine, _ in rows if at < 100} == {1}
    assert {(engine, replica) for at, engine, replica in rows if at > 100} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {replica for _, _, replica in rows} == {0, 1}


@pytest.mark.parametrize("replicas", [1, 4])
def test_an_abort_finds_its_replica(replicas):
    """The front knows who has a request; one that is over is left alone."""
    desk = Desk(LeastLoad, replicas=replicas, decision=Decision(fixed_s=0.005)).send(*[0] * 6)
    for request in desk.requests[::2]:
        desk.at(3, desk.router.abort, request)
        desk.at(100, desk.router.abort, request)
    desk.run()
    assert [status for status, _ in desk.outcomes()] == ["aborted", "finished"] * 3


def test_an_engine_that_is_new_is_read_probed_and_chosen():
    """A third engine joins two at 100: read at once, found dead by probes and risen again."""
    around = {
        "telemetry": TelemetrySpec(period_s=0.05),
        "health": Health(period_s=0.05, timeout_s=0.01, fall=1, rise=1),
    }
    desk = Desk(LeastLoad, engines=2, **around)
    new = FakeEngine(desk.env, 2, 10)
    heard = []
    desk.router.policy.joined = lambda engine, fleet: heard.append((engine.index, engine.report.at, len(fleet.engines)))
    desk.at(100, lambda _: desk.router.join(new, "http://engine-2", 0))
    desk.at(201, lambda _: new.fail()).at(301, lambda _: new.restart())
    desk.send(*range(5, 500, 20)).run()
    assert heard == [(2, 0.1, 3)]
    chosen = dict(desk.decisions("at", "engine"))
    assert {engine for at, engine in chosen.items() if at < 100} == {0}
    assert {engine for at, engine in chosen.items() if 100 < at < 200 or at > 350} == {2}
    assert {engine for at, engine in chosen.items() if 260 < at < 350} == {0}
    assert desk.router.own == [0, 0, 0]


def test_a_plain_router_takes_engines_in_and_lets_them_go():
    """Barred, gone, back again, and one more; what is under way on one that left still ends."""
    desk = Desk(LeastLoad(), engines=2)
    new = FakeEngine(desk.env, 2, 10)
    assert type(desk.router) is Router
    desk.at(12, lambda _: desk.router.leave(0)).at(30, lambda _: desk.router.set_available(1, False))
    desk.at(50, lambda _: desk.router.join(new, "http://engine-2"))
    desk.at(70, lambda _: desk.router.join(desk.engines[0], "http://engine-0", 0))
    desk.send(10, 20, 40, 60, 80).run()
    assert desk.decisions("engine") == [0, 1, -1, 2, 0]
    assert [status for status, _ in desk.outcomes()] == ["finished", "finished", "failed", "finished", "finished"]
    assert desk.router.in_flight == 0
