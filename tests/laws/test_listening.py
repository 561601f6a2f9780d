"""KV events: an index that is fed by them knows at every instant what a prompt would hit, jumping or stepping."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies._content import count, cut
from sim.engine.spec import resolve
from sim.instants import TELEMETRY
from tests.laws.test_interventions import TICKS, disturbed
from tests.reference.scenarios import serve
from tests.reference.test_crowds import FIELDS

many = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=120, derandomize=True)


class Index:
    """Whole blocks by their content from the start of the prompt, as the events of one engine tell."""

    def __init__(self, block):
        self.block = block
        self.known = set()
        self.events = []

    def hear(self, now, is_stored, content, before):
        self.events.append((now, is_stored, content, before))
        ends = range(before // self.block * self.block + self.block, count(content) + 1, self.block)
        blocks = {cut(content, end) for end in ends}
        if not content:
            self.known = set()
        elif is_stored:
            self.known |= blocks
        else:
            assert blocks <= self.known
            self.known -= blocks

    def match(self, content):
        ends = range(self.block, count(content) + 1, self.block)
        return next((end - self.block for end in ends if cut(content, end) not in self.known), len(ends) * self.block)


def listened(scenario, polls, *, step_by_step):
    """Marks of a run in which somebody listens, and the events; the index is compared to the cache at ``polls``."""
    index = Index(scenario.spec.block_tokens)
    hits = []

    def compare(engine):
        for each in scenario.asked:
            cached = engine.cached_tokens(each.content)
            assert index.match(each.content) == cached
            hits.append(cached)

    def watch(scheduler, env, engine):  # noqa: ARG001
        engine.listen(index.hear)
        for tick in polls:
            env.at(tick, TELEMETRY, compare, engine)

    return serve(scenario, step_by_step=step_by_step, watch=watch), index.events, hits


def new_versions(scenario):
    """Weights are never put back: a listener forgets what other weights computed."""
    orders = [(*order[:2], 1 + at) if order[1] == "version" else order for at, order in enumerate(scenario.orders)]
    return replace(scenario, orders=tuple(orders))


def assert_told(scenario, polls):
    scenario = new_versions(scenario)
    jumping = listened(scenario, polls, step_by_step=False)
    assert jumping == listened(scenario, polls, step_by_step=True)
    assert jumping[0] == serve(scenario)


@pytest.mark.parametrize("preset", FIELDS)
def test_an_index_of_events(preset):
    """The same events at the same ticks; the index is right at any instant; nothing else changes."""

    @some
    @given(disturbed(preset), st.lists(TICKS, min_size=1, max_size=8))
    def hold(scenario, polls):
        assert_told(scenario, polls)

    hold()


@pytest.mark.slow
@pytest.mark.parametrize("preset", FIELDS)
def test_many_indices(preset):
    """The same over many more."""

    @many
    @given(disturbed(preset), st.lists(TICKS, min_size=1, max_size=8))
    def hold(scenario, polls):
        assert_told(scenario, polls)

    hold()


@pytest.mark.parametrize("preset", FIELDS)
def test_the_events_are_worth_hearing(preset):
    """Content is stored and removed, bit by bit and at once, and there are hits to agree on."""
    told, hits = [], []

    @settings(some, max_examples=40)
    @given(disturbed(preset))
    def gather(scenario):
        spec = resolve(replace(scenario.spec, kv_tokens=240))
        _, events, found = listened(new_versions(replace(scenario, spec=spec)), (100, 200, 300), step_by_step=False)
        told.extend(events)
        hits.extend(found)

    gather()
    assert sum(is_stored for _, is_stored, _, _ in told) > 100
    assert sum(not is_stored and bool(content) for _, is_stored, content, _ in told) > 20
    assert sum(not content for _, _, content, _ in told) > 10
    assert sum(hit > 0 for hit in hits) > 50
