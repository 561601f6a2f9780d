"""Engines that fail: retries, probes, circuit breakers, aborts."""

import pytest

from policies.least_load import LeastLoad
from policies.round_robin import RoundRobin
from sim.client._bundle import Bundle, Front
from sim.log.record import STATUS
from sim.router.spec import Breaker, Decision, Health, Limit, Retries
from tests.sim.router.desks import Desk
from tests.sim.spies import Refusing, Spy

EVEN = Retries(attempts=3, backoff_s=0.1, factor=2.0, jitter_share=0.0)


def test_a_failed_request_is_tried_again_and_selects_again():
    """Engine 0 dies with a request at 4; 100 ms later the request goes to engine 1 as if it were new."""
    desk = Desk(RoundRobin(), retries=EVEN).send(0).at(4, lambda _: desk.engines[0].fail())
    desk.run()
    assert desk.decisions("retry", "attempt", "at", "engine") == [(0, 0, 0, 0), (1, 0, 104, 1)]
    (request,) = desk.requests
    assert (request.engine, request.arrived, request.first_token, request.ended) == (1, 104, 109, 114)
    assert desk.outcomes() == [("finished", "none")]


def test_waits_grow_by_the_factor_up_to_the_longest():
    """Waits of 100, 200, 250 ms between four tries at a dead engine; then the request is lost."""
    spec = Retries(attempts=4, backoff_s=0.1, factor=2.0, max_backoff_s=0.25, jitter_share=0.0)
    desk = Desk(RoundRobin(), engines=1, retries=spec).at(0, lambda _: desk.engines[0].fail()).send(0)
    desk.run()
    assert desk.decisions("at") == [0, 100, 300, 550]
    assert desk.outcomes() == [("failed", "retries_exhausted")]
    assert desk.requests[0].ended == 550
    assert desk.router.in_flight == desk.router.own[0] == desk.router.views[0].in_flight == 0


def test_jitter_spreads_waits():
    """Waits of 100 ms, 20 % more or less: all different, none outside, mean near the middle."""
    spec = Retries(attempts=2, backoff_s=1.0, jitter_share=0.2)
    desk = Desk(RoundRobin(), engines=1, retries=spec).at(0, lambda _: desk.engines[0].fail()).send(*[0] * 400)
    desk.run()
    waits = desk.decisions("at")[400:]
    assert 800 <= min(waits) < 850
    assert 1150 < max(waits) <= 1200
    assert abs(sum(waits) / 400 - 1000) < 4 * 115 / 20


def test_without_retries_a_failure_is_a_failure():
    """The engine's, and the refusal of a policy; each says why."""
    desk = Desk(Refusing(), engines=1, limit=Limit(100)).send(0, 0, 0).at(4, lambda _: desk.engines[0].fail())
    desk.run()
    assert desk.outcomes() == [("failed", "engine_failed")] * 2 + [("failed", "no_engine")]
    assert [each.ended for each in desk.requests] == [4, 4, 0]


def test_no_engine_is_tried_again_too():
    """503s are retried: the fleet comes back between the first and the second try."""
    desk = Desk(RoundRobin(), engines=1, retries=EVEN)
    desk.router.set_available(0, False)
    desk.send(0).at(50, lambda _: desk.router.set_available(0, True)).run()
    assert desk.decisions("at", "engine", "retry") == [(0, -1, 0), (100, 0, 1)]


def test_each_try_costs_a_decision():
    """With a core of its own; the wait counts from the try."""
    cost = Decision(fixed_s=0.007)
    desk = Desk(RoundRobin(), retries=EVEN, decision=cost).send(0).at(9, lambda _: desk.engines[0].fail())
    desk.run()
    assert desk.decisions("at", "service", "waited") == [(7, 7, 0), (116, 7, 0)]


def test_a_retry_keeps_its_place_under_the_limit():
    """The second request goes on only when the first has ended for good."""
    desk = Desk(RoundRobin(), retries=EVEN, limit=Limit(1)).send(0, 0).at(4, lambda _: desk.engines[0].fail())
    desk.at(5, lambda _: desk.engines[0].restart()).run()
    assert desk.decisions("request", "at") == [(0, 0), (0, 104), (1, 114)]


def test_probes_find_a_dead_engine_and_a_risen_one():
    """Down at 250, up at 750, probes each 100 ms with 30 ms of patience, two of a kind: out at 430, in at 900."""
    spec = Health(period_s=0.1, timeout_s=0.03, fall=2, rise=2)
    desk = Desk(LeastLoad(), health=spec)
    desk.at(250, lambda _: desk.engines[0].fail()).at(750, lambda _: desk.engines[0].restart())
    desk.send(*range(5, 1200, 10)).run()
    at, engine = zip(*desk.decisions("at", "engine"), strict=True)
    away = [tick for tick, index in zip(at, engine, strict=True) if index == 1]
    assert (away[0], away[-1]) == (435, 895)
    assert len(away) == 47
    assert [o[1] for o in desk.outcomes()].count("engine_failed") == len(range(255, 430, 10)) + 1


@pytest.mark.parametrize(
    ("spec", "out"),
    [
        (Health(period_s=0.1, timeout_s=0.03, fall=3, rise=2), 530),
        (Health(period_s=0.1, timeout_s=0.08, fall=2, rise=2), 480),
        (Health(period_s=0.2, timeout_s=0.03, fall=2, rise=2), 630),
    ],
)
def test_every_knob_of_probes_moves_when_it_is_out(spec, out):
    """It is out after ``fall`` probes and the patience of the last one."""
    desk = Desk(LeastLoad(), health=spec).at(250, lambda _: desk.engines[0].fail())
    desk.send(*range(5, 800, 10)).run()
    assert min(tick for tick, index in desk.decisions("at", "engine") if index == 1) == out + 5


def test_a_circuit_opens_half_opens_and_closes():
    """Three failures open it for 100 ms; one more failure opens it again; two answers close it."""
    spec = Breaker(failures=3, window_s=1.0, half_open_s=0.1, successes=2)
    desk = Desk(LeastLoad(), breaker=spec)
    desk.at(50, lambda _: desk.engines[0].fail()).at(200, lambda _: desk.engines[0].restart())
    desk.send(*range(5, 600, 10)).run()
    on_0 = [tick for tick, index in desk.decisions("at", "engine") if index == 0]
    # failures at 50 (sent at 45), 55 and 65; half open at 165: fails; half open at 265: serves from then on
    assert on_0 == [*range(5, 70, 10), 165, *range(265, 600, 10)]
    assert [o[1] for o in desk.outcomes()].count("engine_failed") == 4
    assert desk.router.circuits.successes == desk.router.circuits.failures == {}


def test_failures_outside_the_window_are_forgotten():
    """Three failures 100 ms apart open nothing within 150 ms, and do within 250."""
    for window, tries in ((0.15, 6), (0.25, 3)):
        desk = Desk(LeastLoad(), engines=1, breaker=Breaker(failures=3, window_s=window, half_open_s=9.0))
        desk.at(0, lambda _, desk=desk: desk.engines[0].fail()).send(*range(0, 600, 100)).run()
        reasons = [reason for _, reason in desk.outcomes()]
        assert reasons == ["engine_failed"] * tries + ["no_engine"] * (6 - tries)


def test_a_rejoined_engine_starts_clean():
    """Nothing that its forerunner did is held against it."""
    desk = Desk(LeastLoad(), engines=1, breaker=Breaker(failures=1, half_open_s=9.0))
    desk.at(0, lambda _: desk.engines[0].fail()).send(0, 10)

    def come_back(_):
        desk.router.leave(0)
        desk.engines[0].restart()
        desk.router.join(desk.engines[0], "http://engine-0")

    desk.at(20, come_back).send(30).run()
    assert [reason for _, reason in desk.outcomes()] == ["engine_failed", "no_engine", "none"]


def test_aborts_end_requests_wherever_they_are():
    """Inside an engine, on the way, waiting for a core, for admission, for a retry: once, aborted, nothing left."""
    desk = Desk(
        Spy(), engines=1, service=100, limit=Limit(4), decision=Decision(fixed_s=0.01), overhead_s=0.02, retries=EVEN
    )
    desk.send(0, 0, 0, 0, 0)
    for request in desk.requests:
        desk.at(32, desk.router.abort, request)
        desk.at(33, desk.router.abort, request)
    places = []
    desk.at(31, lambda _: places.extend(trip.place for trip in desk.router.trips.values()))
    desk.run()
    assert desk.outcomes() == [("aborted", "none")] * 5
    assert [tick for _, tick in desk.replies] == [32] * 5
    assert sorted(places) == [0, 1, 2, 2, 2]
    assert desk.router.in_flight == desk.router.own[0] == desk.router.views[0].in_flight == 0
    assert (desk.router.limiter.free, desk.router.trips) == (4, {})
    assert [heard[0] for heard in desk.router.policy.heard].count("completed") == 3
    again = Desk(RoundRobin(), retries=EVEN).send(0).at(4, lambda _: again.engines[0].fail())
    again.at(50, again.router.abort, again.requests[0]).run()
    assert again.outcomes() == [("aborted", "none")]
    assert again.decisions("at") == [0]


def test_a_group_in_one_request_is_tried_again_whole():
    """Three siblings travel together; their engine dies, and all three are served by the other."""
    desk = Desk(RoundRobin(), retries=EVEN).send(0, 0, 0)
    parts, desk.requests = desk.requests, []
    desk.env.agenda.clear()
    bundle = Bundle(parts)
    bundle.reply = lambda each: desk.replies.append((each.view.id, desk.env.now))
    desk.requests.append(bundle)
    desk.router.engines[:] = [Front(desk.env, engine) for engine in desk.engines]
    desk.at(0, desk.router.route, bundle).at(4, lambda _: desk.engines[0].fail()).run()
    assert desk.decisions("at", "engine", "retry") == [(0, 0, 0), (104, 1, 1)]
    assert [(part.engine, STATUS[part.status], part.arrived, part.ended) for part in parts] == [
        (1, "finished", 104, 114)
    ] * 3
    assert desk.outcomes() == [("finished", "none")]
