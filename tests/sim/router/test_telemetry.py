"""What a policy knows of engines, and when: reports, their age, what is added meanwhile, the router's own count."""

from collections import Counter

import pytest

from policies._protocol import Policy
from policies.least_load import LeastLoad
from sim.router.spec import Counted, OwnCount, Reported, TelemetrySpec, Timing
from tests.sim.router.desks import Desk


class Reader(Policy):
    """Sends everything to engine 0 and notes what it sees of it."""

    def __init__(self, *names):
        self.names = names
        self.seen = []

    def choose(self, request, fleet, now, pick):
        engine = next(each for each in fleet.engines if each.index == 0)
        self.seen.append(engine.report and tuple(getattr(engine.report, name) for name in self.names))
        return engine, "read", 0


class SeesAll(Reader):
    sees_all = True


def seen(names, spec, ticks, *, service=1000, policy=Reader, **desk):
    """What a policy saw of engine 0 at each of some ticks, where every request stays for a second."""
    reader = policy(*names)
    found = Desk(reader, engines=1, service=service, telemetry=spec, **desk).send(*ticks).run()
    return reader.seen, found


def test_without_telemetry_there_are_no_reports():
    """Nor an age."""
    reports, desk = seen(("running",), None, [0, 500], overhead_s=0.001)
    assert reports == [None, None]
    assert desk.decisions("signal_age") == [-1, -1]


def test_reports_are_as_old_as_the_period_makes_them():
    """Read at 0, 100, 200, ...: a choice at the instant of a reading does not see it yet, and is seen by it."""
    reports, desk = seen(("at", "running"), TelemetrySpec(period_s=0.1), [0, 99, 100, 101, 250])
    assert reports == [(0.0, 0), (0.0, 0), (0.0, 0), (0.1, 3), (0.2, 4)]
    assert desk.decisions("signal_age") == [0, 99, 100, 1, 50]


def test_a_delay_makes_them_older():
    """Read at 100, known at 130."""
    reports, desk = seen(("at", "running"), TelemetrySpec(period_s=0.1, delay_s=0.03), [50, 120, 129, 131])
    assert reports == [(0.0, 0), (0.0, 0), (0.0, 0), (0.1, 1)]
    assert desk.decisions("signal_age")[-1] == 31


def test_some_are_lost():
    """A share of readings: half of them leave the age twice as long; all of them leave nothing."""
    for share, mean in ((0.0, 4.5), (0.5, 14.5)):
        _, desk = seen(("at",), TelemetrySpec(period_s=0.01, loss_share=share), range(1, 20_000), service=1)
        ages = desk.decisions("signal_age")
        # with loss p the age is the remainder plus 10 p / (1 - p); a tick of 0 is seen as 10
        assert sum(ages) / len(ages) == pytest.approx(mean + 1, rel=0.06)
    reports, desk = seen(("at",), TelemetrySpec(loss_share=1.0), [5])
    assert reports == [None]
    assert desk.decisions("signal_age") == [-1]


def test_jitter_spreads_the_readings_of_engines_and_replicas():
    """Late by up to 50 ms: no two of six are read together, each within its time."""
    spec = TelemetrySpec(period_s=0.1, jitter_s=0.05)
    desk = Desk(lambda: Reader("at"), engines=3, replicas=2, telemetry=spec).send(1000)
    times = []

    def look(_):
        times.extend(view.report.at for router in desk.router.routers for view in router.views)

    desk.at(160, look).run()
    assert all(0.1 <= at <= 0.15 for at in times)
    assert len(set(times)) > 3


def test_signals_may_have_times_of_their_own():
    """KV use each 20 ms, the rest each 100: the report is as old as its newest part."""
    spec = TelemetrySpec(period_s=0.1, kv_share=Timing(period_s=0.02))
    reader = Reader("at", "running", "kv_share")
    desk = Desk(reader, engines=1, service=1000, telemetry=spec).send(5, 50, 105)
    desk.at(30, lambda _: setattr(desk.engines[0], "share", 0.5)).run()
    assert reader.seen == [(0.0, 0, 0.0), (0.04, 0, 0.5), (0.1, 2, 0.5)]


@pytest.mark.parametrize(
    ("visibility", "counts"),
    [("report", [0, 0, 0, 3]), ("choice", [0, 1, 2, 3]), ("delivery", [0, 0, 1, 3]), ("first_token", [0, 0, 0, 3])],
)
def test_a_dispatched_request_counts_when_the_scenario_says(visibility, counts):
    """Chosen at 0, 5, 20, delivered 10 ms later, first tokens half a second later; read at 0 and 100."""
    spec = TelemetrySpec(period_s=0.1, running=Reported(visibility=visibility))
    reports, _ = seen(("running",), spec, [0, 5, 12, 105], overhead_s=0.01)
    assert [count for (count,) in reports] == counts


def test_a_first_token_counts_from_then_on():
    """Service 40 ms, first token after 20: seen at 25 as one, in tokens as the prompt."""
    for name, signal, amount in (("running", Reported, 1), ("tokens", Counted, 100), ("waiting", Counted, 1)):
        spec = TelemetrySpec(period_s=0.1, **{name: signal(visibility="first_token")})
        reports, _ = seen((name,), spec, [0, 19, 25, 44], service=40)
        assert [count for (count,) in reports] == [0, 0, amount, 2 * amount]


def test_a_reading_takes_back_what_it_knows_and_no_more():
    """Delay 50: a request chosen after the reading at 100 still counts when that reading comes in at 150."""
    spec = TelemetrySpec(period_s=0.1, delay_s=0.05, running=Reported(visibility="choice"))
    reports, _ = seen(("running",), spec, [20, 120, 145, 155, 165])
    assert [count for (count,) in reports] == [0, 1, 2, 3, 4]


def test_units():
    """``waiting`` in tokens is what queues, ``tokens`` in requests is how many there are."""
    for spec, expected in (
        (TelemetrySpec(period_s=0.1), (0, 200, 70)),
        (TelemetrySpec(period_s=0.1, waiting=Counted(unit="tokens")), (70, 200, 70)),
        (TelemetrySpec(period_s=0.1, tokens=Counted(unit="requests")), (0, 2, 70)),
        (TelemetrySpec(period_s=0.1, also=("tokens_per_s",)), (0, 200, None)),
    ):
        reader = Reader("waiting", "tokens", "queued_tokens")
        desk = Desk(reader, engines=1, service=1000, telemetry=spec)
        desk.engines[0].queued = 70
        desk.send(0, 5, 150).run()
        assert reader.seen[-1] == expected


def test_the_rate_of_generation_is_between_readings():
    """Ten tokens a request, four requests between the readings at 100 and 200: 400 a second; none if not said."""
    reports, _ = seen(("tokens_per_s",), TelemetrySpec(period_s=0.1), [50, 110, 120, 130, 140, 205], service=5)
    assert reports == [(None,), (100.0,), (100.0,), (100.0,), (100.0,), (400.0,)]
    reader = Reader("tokens_per_s")
    restarted = Desk(reader, engines=1, service=5, telemetry=TelemetrySpec(period_s=0.1)).send(50, 150)
    restarted.at(170, lambda _: setattr(restarted.engines[0], "generated", 0)).send(250).run()
    assert reader.seen == [(None,), (100.0,), (None,)]
    spec = TelemetrySpec(period_s=0.1, also=("queued_tokens",))
    assert seen(("tokens_per_s",), spec, [50, 110], service=5)[0] == [(None,), (None,)]


def test_the_busy_share_is_between_readings():
    """Busy for 30 of the first 100 ticks and all of the second 100; an engine that joins is read anew."""
    reader = Reader("busy_share")
    desk = Desk(reader, engines=1, service=5, telemetry=TelemetrySpec(period_s=0.1)).send(50, 150, 250)
    for tick, busy in ((50, 30), (150, 130)):
        desk.at(tick, lambda busy: setattr(desk.engines[0], "busy", busy), busy)
    desk.run()
    assert reader.seen == [(None,), (0.3,), (1.0,)]
    spec = TelemetrySpec(period_s=0.1, also=("ended",))
    assert seen(("busy_share",), spec, [50, 150], service=5)[0] == [(None,), (None,)]


def test_the_means_of_what_finished():
    """Prompts of 100, later of 300 tokens; a first token after two of five ticks; what failed is not counted."""
    reader = Reader("ended")
    desk = Desk(reader, engines=1, service=5, telemetry=TelemetrySpec(period_s=0.1)).send(50, 110)
    desk.send(120, prompt=300).send(197, prompt=10_000).send(305)
    desk.at(199, lambda _: desk.engines[0].fail()).at(290, lambda _: desk.engines[0].restart()).run()
    first, second, last = reader.seen[0][0], reader.seen[1][0], reader.seen[4][0]
    assert first is None
    assert (second.prompt_tokens, second.output_tokens) == (100, 10)
    assert (second.prefill_s, second.decode_s) == pytest.approx((0.002, 0.003))
    assert (last.prompt_tokens, last.output_tokens) == (500 / 3, 10)


def test_an_engine_that_is_down_says_nothing():
    """Its last report stays, and ages."""
    reader = Reader("at")
    desk = Desk(reader, engines=1, telemetry=TelemetrySpec(period_s=0.1)).send(150, 450)
    desk.at(120, lambda _: desk.engines[0].fail()).run()
    assert reader.seen == [(0.1,), (0.1,)]


def test_polling_does_not_keep_a_run_going():
    """The run ends with its last request, also where a reading takes longer than the period."""
    _, desk = seen(("at",), TelemetrySpec(period_s=0.01, delay_s=0.5), [0, 3000])
    assert 4000 <= desk.env.now < 4600
    assert desk.env.background == 0


def test_who_sees_all_sees_now():
    """Reports of age 0 and exact caches, without any telemetry."""
    reports, desk = seen(("at", "running"), None, [0, 5, 7], policy=SeesAll)
    assert reports == [(0.0, 0), (0.005, 1), (0.007, 2)]
    assert desk.decisions("signal_age") == [0, 0, 0]
    desk.engines[0].cached = 33
    assert desk.router.views[0].cached_tokens(()) == 33


# -- the router's own count -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visibility", "counts"), [("choice", [0, 1, 2, 2]), ("delivery", [0, 0, 1, 2]), ("first_token", [0, 0, 0, 1])]
)
def test_the_own_count_rises_when_the_scenario_says(visibility, counts):
    """Chosen at 0, 5, 12, 31; delivered 10 ms later; the first token 10 ms after that; the answer 20 ms after."""
    spec = TelemetrySpec(in_flight=OwnCount(visibility=visibility))
    _, desk = seen((), spec, [0, 5, 12, 31], service=20, overhead_s=0.01)
    assert desk.decisions("in_flight") == counts
    assert desk.router.views[0].in_flight == desk.router.own[0] == 0


def test_the_own_count_may_be_in_tokens():
    """Of prompts."""
    spec = TelemetrySpec(in_flight=OwnCount(unit="tokens"))
    _, desk = seen((), spec, [0, 5, 12], service=20)
    assert desk.decisions("in_flight") == [0, 100, 200]
    assert desk.decisions("total_in_flight") == [0, 1, 2]


@pytest.mark.parametrize(("replicas", "period_ms"), [(1, 100), (1, 400), (16, 100)])
def test_a_herd_is_as_large_as_what_comes_between_two_readings(replicas, period_ms):
    """Least load over counts read now and then: all R x rate x period requests of a period go to one engine."""
    spec = TelemetrySpec(in_flight=OwnCount(visibility="report", period_s=period_ms / 1000))
    desk = Desk(LeastLoad, engines=4, service=50_000, replicas=replicas, telemetry=spec, assignment="connection")
    every_ms, last = 2, 2000
    desk.send(*range(1, last, every_ms)).run()
    herds = {}
    for at, engine, replica in desk.decisions("at", "engine", "replica"):
        herds.setdefault((at // period_ms, replica), Counter())[engine] += 1
    assert all(len(engines) == 1 for engines in herds.values())
    sizes = Counter()
    for (period, _), engines in herds.items():
        sizes[period, *engines] += engines.total()
    rate_times_period = period_ms // every_ms
    # Connections deal requests in turn, so replicas that began alike stay alike: their herds go to one engine.
    assert max(sizes.values()) == rate_times_period
    assert sum(sizes.values()) == last // every_ms
    exact = Desk(LeastLoad, engines=4, service=50_000, replicas=replicas, assignment="connection")
    exact.send(*range(1, last, every_ms)).run()
    loads = Counter(exact.decisions("engine"))
    assert max(loads.values()) - min(loads.values()) <= replicas


def test_jitter_breaks_the_herd_of_many_routers():
    """16 routers that read at different times no longer agree on the best engine."""
    largest = {}
    for jitter in (0.0, 0.1):
        count = OwnCount(visibility="report", period_s=0.1, jitter_s=jitter)
        desk = Desk(
            LeastLoad,
            engines=8,
            service=200,
            replicas=16,
            telemetry=TelemetrySpec(in_flight=count),
            assignment="random",
        ).send(*range(1, 4000))
        herds = Counter((at // 100, engine) for at, engine in desk.run().decisions("at", "engine") if at > 1000)
        largest[jitter] = max(herds.values())
    assert largest[0.0] > 1.3 * largest[0.1], largest


def test_own_counts_have_delays_and_losses_too():
    """As reports have."""
    ticks = [10, 95, 105, 145, 155, 205, 255]
    for more, expected in (
        ({}, [0, 0, 2, 2, 2, 5, 5]),
        ({"delay_s": 0.04}, [0, 0, 0, 2, 2, 2, 5]),
        ({"loss_share": 1.0}, [0] * 7),
    ):
        spec = TelemetrySpec(in_flight=OwnCount(visibility="report", period_s=0.1, **more))
        assert seen((), spec, ticks)[1].decisions("in_flight") == expected


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: TelemetrySpec(period_s=0.0), "period_s must be more than 0"),
        (lambda: TelemetrySpec(jitter_s=11.0), "jitter_s must be at most period_s"),
        (lambda: TelemetrySpec(kv_share=Timing(period_s=0.0)), "kv_share: period_s must be more than 0"),
        (lambda: TelemetrySpec(kv_share=Timing(jitter_s=11.0)), "kv_share: jitter_s must be at most"),
        (lambda: OwnCount(delay_s=1.0), "delay_s: the own count is read at times with visibility report alone"),
    ],
)
def test_times_that_cannot_be_are_refused(make, rule):
    """With the name of the field."""
    with pytest.raises(ValueError, match=rule):
        make()
