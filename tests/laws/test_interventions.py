"""L11 and L1 where requests are aborted, caches flushed, weights changed, engines paused, lost and started again.

What is done to an engine is an event of its own at a tick of its own, often exactly at the end of a step, and is not
known to the engine beforehand.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.instants import TELEMETRY
from sim.log.record import BUSY, ENGINES
from tests.laws.test_conservation import Recount
from tests.reference.scenarios import serve
from tests.reference.test_crowds import FIELDS, crowds

many = settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=150, derandomize=True)

TICKS = st.one_of(st.integers(0, 40).map(lambda step: 10 * step), st.integers(0, 400))
BACK = {"pause": "resume", "fail": "restart"}


@st.composite
def disturbed(draw, preset):
    """A crowd, and what is done to its engine; who is paused or lost comes back."""
    scenario = draw(crowds(preset))
    serials = [each.serial for each in scenario.asked]
    orders = [(5000, "restart"), (5000, "resume")]
    for _ in range(draw(st.integers(1, 6))):
        what = draw(st.sampled_from(["abort"] * 3 * bool(serials) + ["flush", "version", "pause", "fail"]))
        when = draw(TICKS)
        which = {"abort": st.sampled_from(serials or [0]), "version": st.integers(0, 2)}.get(what)
        orders.append((when, what) if which is None else (when, what, draw(which)))
        if what in BACK:
            orders.append((when + draw(st.sampled_from([0, 1, 10, 95])), BACK[what]))
    return replace(scenario, orders=tuple(sorted(orders, key=lambda order: order[0])))


def busy_by(now, data):
    """Ticks by ``now`` that lie in busy rows of the engines table."""
    rows = np.frombuffer(bytes(data), np.int64).reshape(-1, len(ENGINES))
    start, end, kind = (rows[:, ENGINES.index(name)] for name in ("start", "end", "kind"))
    return int(np.maximum(np.minimum(end, now) - start, 0)[kind == BUSY].sum())


def assert_same(scenario, polls):
    """Stepping, jumping, and jumping while somebody looks at the engine at many instants: one log."""
    logs, changes, seen, recounts = [], [], [], []

    def watch_at(ticks):
        readings = []

        def look(engine):
            contents = [each.content for each in scenario.asked[:3]]
            now = engine.env.now
            readings.append((now, engine.peek(now), [engine.cached_tokens(each) for each in contents]))

        def watch(scheduler, env, engine):
            logs.append(engine.rows.data)
            changes.append(engine.changes.data)
            recounts.append(Recount(scheduler))
            for tick in ticks:
                env.at(tick, TELEMETRY, look, engine)

        seen.append(readings)
        return watch

    stepping = serve(scenario, step_by_step=True, watch=watch_at(polls))
    assert serve(scenario, watch=watch_at(())) == stepping
    assert serve(scenario, watch=watch_at(polls)) == stepping
    assert logs[0] == logs[1] == logs[2]
    assert changes[0] == changes[1] == changes[2]
    assert seen[0] == seen[2]
    for now, load, _ in seen[2]:
        assert load.busy == busy_by(now, logs[2])
    assert all(not recount.holders() for recount in recounts)
    for arrived, *_, generated, status in stepping[0].values():
        assert arrived < 0 or status in ("finished", "aborted", "failed")
        assert generated >= 0


@pytest.mark.parametrize("preset", FIELDS)
def test_a_disturbed_engine(preset):
    """L11: one log whether engines jump or step and whether they are looked at; L1: memory at every decision."""

    @some
    @given(disturbed(preset), st.lists(TICKS, max_size=8))
    def hold(scenario, polls):
        assert_same(scenario, polls)

    hold()


@pytest.mark.parametrize("preset", FIELDS)
def test_aborts_by_who_is_answered(preset):
    """L11 where an answer aborts others at once, in the midst of the end of a step, as when a group is complete."""
    places = st.integers(0, 40)

    @some
    @given(disturbed(preset), st.lists(st.tuples(places, places), min_size=1, max_size=6), st.lists(TICKS, max_size=3))
    def hold(scenario, pairs, polls):
        serials = [each.serial for each in scenario.asked]
        if serials:
            chains = tuple((serials[one % len(serials)], serials[two % len(serials)]) for one, two in pairs)
            assert_same(replace(scenario, chains=chains), polls)

    hold()


@pytest.mark.slow
@pytest.mark.parametrize("preset", FIELDS)
def test_many_disturbed_engines(preset):
    """The same over many more."""

    @many
    @given(disturbed(preset), st.lists(TICKS, max_size=8))
    def hold(scenario, polls):
        assert_same(scenario, polls)

    hold()
