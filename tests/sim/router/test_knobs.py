"""Every key of the router moves an output: in a world where everything happens, changing one changes the log."""

from dataclasses import fields, replace

import pytest

from policies._protocol import Policy
from sim.router.spec import (
    Around,
    Breaker,
    Counted,
    Decision,
    ExactIndex,
    Health,
    Limit,
    OwnCount,
    Reported,
    Retries,
    TelemetrySpec,
    Timing,
)  # fmt: skip
from tests.sim.router.desks import Desk

EVERYTHING = Around(
    overhead_s=0.003,
    replicas=3,
    assignment="random",
    decision=Decision(fixed_s=0.001, per_token_s=0.00001, per_candidate_s=0.001, cores=1),
    telemetry=TelemetrySpec(
        period_s=0.04,
        delay_s=0.004,
        loss_share=0.2,
        jitter_s=0.01,
        waiting=Counted(visibility="choice"),
        in_flight=OwnCount(visibility="report", period_s=0.02, delay_s=0.0, loss_share=0.0, jitter_s=0.0),
    ),
    cache_index=ExactIndex(lag_s=0.001),
    retries=Retries(attempts=3, backoff_s=0.02, factor=1.5, max_backoff_s=0.025, jitter_share=0.1),
    health=Health(period_s=0.1, timeout_s=0.03, fall=2, rise=2),
    breaker=Breaker(failures=2, window_s=0.3, half_open_s=0.06, successes=2),
    limit=Limit(3, queue_requests=2, wait_s=0.02),
)
TELEMETRY = EVERYTHING.telemetry
CHANGES = {
    Around: {
        "overhead_s": 0.004,
        "replicas": 2,
        "assignment": "connection",
        "decision": None,
        "telemetry": None,
        "cache_index": "approximate",
        "retries": None,
        "health": None,
        "breaker": None,
        "limit": None,
        "record_regret": True,
    },
    Decision: {"fixed_s": 0.002, "per_token_s": 0.00002, "per_candidate_s": 0.002, "cores": 2},
    Retries: {"attempts": 2, "backoff_s": 0.01, "factor": 1.2, "max_backoff_s": 0.03, "jitter_share": 0.0},
    Health: {"period_s": 0.12, "timeout_s": 0.08, "fall": 1, "rise": 1},
    Breaker: {"failures": 1, "window_s": 0.001, "half_open_s": 0.08, "successes": 1},
    Limit: {"concurrency": 2, "queue_requests": 1, "wait_s": 0.001},
    TelemetrySpec: {
        "period_s": 0.05,
        "delay_s": 0.02,
        "loss_share": 0.5,
        "jitter_s": 0.0,
        "running": Reported(visibility="choice"),
        "waiting": Counted(),
        "tokens": Counted(unit="requests"),
        "kv_share": Timing(period_s=0.01),
        "in_flight": OwnCount(),
        "also": (),
    },
    OwnCount: {
        "visibility": "choice", "unit": "tokens", "period_s": 0.03, "delay_s": 0.01, "loss_share": 0.5,
        "jitter_s": 0.02,
    },
    Counted: {
        "visibility": "delivery", "unit": "tokens", "period_s": 0.02, "delay_s": 0.02, "loss_share": 0.9,
        "jitter_s": 0.0,
    },
    Timing: {"period_s": 0.02, "delay_s": 0.02, "loss_share": 0.9, "jitter_s": 0.0},
    ExactIndex: {"lag_s": 0.02},
}  # fmt: skip
PLACES = {
    ExactIndex: "cache_index",
    Decision: "decision",
    Retries: "retries",
    Health: "health",
    Breaker: "breaker",
    Limit: "limit",
}


FLAPS = [[(t, t + 25) for t in range(1200 + 30 * number, 1800, 45 + 7 * number)] for number in range(3)]
"""Times at which each engine is down for a moment, again and again."""


class Everything(Policy):
    """Weighs all that it can see."""

    reads_content = True

    def choose(self, request, fleet, now, pick):
        if not fleet.available:
            return None, "no_engine", 0
        chosen = min(fleet.available, key=lambda each: (self.score(each, request), each.index))
        return chosen, "scored", round(1000 * self.score(chosen, request))

    def score(self, engine, request):
        report = engine.report
        score = 1000.0 + 3 * engine.in_flight
        if engine.cached_tokens is not None:
            score -= 0.1 * engine.cached_tokens(((request.id // 20, 100),))
        if report is not None:
            score += 2 * report.running + 0.01 * report.tokens + report.kv_share + report.waiting
            score += 0.001 * (report.queued_tokens or 70) + 0.01 * (report.tokens_per_s or 50)
            score += report.busy_share or 0
            if report.ended is not None:
                score += 0.1 * report.ended.prompt_tokens + report.ended.output_tokens
                score += 100 * report.ended.prefill_s + 100 * report.ended.decode_s
        return score


def tell(event):
    """An engine caches 100 tokens of what requests of this time begin with."""
    engine, tick = event
    engine.tell(True, ((tick // 60, 100),), 0)


def log_of(around):
    """What is decided and how it ends, where engines work, fail one after the other, and come back."""
    desk = Desk(Everything, engines=3, service=13, **{each.name: getattr(around, each.name) for each in fields(Around)})
    for number, engine in enumerate(desk.engines):
        engine.cached, engine.queued = 10 * number, 20 * number
        for tick in range(number, 2200, 50):
            desk.at(tick, tell, (engine, tick))
        for down, up in ((400 + 250 * number, 780 + 250 * number), *FLAPS[number], (1850, 2100)):
            desk.at(down, lambda _, engine=engine: engine.fail())
            desk.at(up, lambda _, engine=engine: engine.restart())
        for tick in range(0, 2200, 7):
            desk.at(tick, lambda tick, engine=engine: setattr(engine, "share", tick % 97 / 97), tick)
            desk.at(tick, lambda tick, engine=engine: setattr(engine, "busy", tick // (2 + engine.index)), tick)
    ticks = [*range(0, 2200, 3), *range(1000, 1100, 2)]
    for tick in sorted(ticks):
        desk.send(tick, prompt=50 + tick % 71, session=tick // 5)
    desk.run()
    ends = [(each.status, each.reason, each.arrived, each.ended) for each in desk.requests]
    return desk.log.decisions.data, ends


BASE = log_of(EVERYTHING)


def changed(cls, name):
    """Everything, with one key of one block changed."""
    value = {name: CHANGES[cls][name]}
    if cls is Around:
        return replace(EVERYTHING, **value)
    if cls in PLACES:
        return replace(EVERYTHING, **{PLACES[cls]: replace(getattr(EVERYTHING, PLACES[cls]), **value)})
    if cls is TelemetrySpec:
        return replace(EVERYTHING, telemetry=replace(TELEMETRY, **value))
    signal = {OwnCount: "in_flight", Counted: "waiting", Timing: "kv_share"}[cls]
    own = getattr(TELEMETRY, signal)
    if name == "visibility" and cls is OwnCount:
        own = OwnCount()
    return replace(EVERYTHING, telemetry=replace(TELEMETRY, **{signal: replace(own, **value)}))


KNOBS = [(cls, name) for cls, names in CHANGES.items() for name in names]


@pytest.mark.parametrize(("cls", "name"), KNOBS, ids=[f"{cls.__name__}.{name}" for cls, name in KNOBS])
def test_every_key_moves_the_log(cls, name):
    """Decisions or ends differ from those of the world where everything happens."""
    assert log_of(changed(cls, name)) != BASE


@pytest.mark.parametrize("silent", ["queued_tokens", "tokens_per_s", "busy_share", "ended"])
def test_each_thing_that_engines_also_say_moves_the_log(silent):
    """All but one of them."""
    also = tuple(each for each in TELEMETRY.also if each != silent)
    assert log_of(replace(EVERYTHING, telemetry=replace(TELEMETRY, also=also))) != BASE


def test_no_key_is_forgotten():
    """Each field of each block is in the table above, and everything happens in its world."""
    for cls, names in CHANGES.items():
        assert set(names) == {each.name for each in fields(cls)} - {"kind"}, cls
    reasons = {reason for _, reason, _, _ in BASE[1]}
    assert reasons == {0, 2, 3, 5}
