"""A group as one request: one decision, siblings at one engine at one instant, places held until the last answer."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.log.record import TABLES
from sim.replication import replicate
from sim.specs import ClientSpec
from tests.laws.test_rollout_steps import trained_worlds
from tests.sim.spies import Refusing, under
from tests.strategies import cell_of, world

MS = 1_000_000
LENGTHS = {"kind": "uniform", "low": 1, "high": 60}
ONE = {"group_as_one_request": True}


def test_one_decision_for_all_siblings():
    """Four groups of eight on two engines: four decisions, each group on one engine, all its requests at once."""
    workload = {"groups": 4, "samples_per_group": 8, "output_tokens": LENGTHS, "max_tokens": 60}
    log = replicate(cell_of(world(engines=2, workload=workload, client=ONE, policy={"kind": "least_load"})), 0)
    requests, decisions = log.numpy("requests"), log.numpy("decisions")
    assert decisions["request"].tolist() == [0, 8, 16, 24]
    assert decisions["total_in_flight"].tolist() == [0, 1, 2, 3]
    for group in range(4):
        mine = requests["group"] == group
        assert len(set(requests["engine"][mine].tolist())) == 1
        assert set(requests["arrived"][mine].tolist()) == {0}
    assert (requests["status"] == 0).all()
    assert log.numpy("groups")["finished"].tolist() == [8] * 4


def test_places_are_held_until_the_last_answer():
    """With one group at a time the next starts at the end of the longest; the answers end one by one in the engine."""
    workload = {"groups": 2, "samples_per_group": 4, "output_tokens": LENGTHS, "max_tokens": 60}
    log = replicate(cell_of(world(workload=workload, client=ONE | {"max_groups_in_flight": 1})), 0)
    requests = log.numpy("requests")
    first = requests["group"] == 0
    assert set(requests["submitted"][~first].tolist()) == {int(requests["ended"][first].max())}
    assert len(set(requests["ended"][first].tolist())) > 1


@pytest.mark.parametrize(("visibility", "copies"), [("at_schedule", 1), ("after_prefill", 8), ("deferred", 1)])
def test_copies_of_a_prompt_by_visibility(visibility, copies):
    """Eight answers to one prompt of 4,096 tokens: its prefill is computed once, or by each that starts with it."""
    engine = {
        "preset": "sglang",
        "visibility": visibility,
        "kv_tokens": 10**6,
        "chunked_prefill_tokens": 10**5,
        "max_prefill_tokens": 10**5,
    }
    workload = {"groups": 1, "samples_per_group": 8, "prompt": {"group_tokens": 4096, "system_tokens": 0}}
    requests = replicate(cell_of(world(engine=engine, workload=workload, client=ONE)), 0).numpy("requests")
    assert requests["prefill_tokens"].sum() == pytest.approx(copies * 4096, abs=16)


def test_a_group_passes_the_clients_processes_once():
    """A prompt of 1,000 tokens at 1,000 tokens a second: one request is sent after 1 s, copies after 1, 2, 3 and 4."""
    workload = {"groups": 1, "samples_per_group": 4, "prompt": {"group_tokens": 1000, "system_tokens": 0}}
    sent = [
        replicate(cell_of(world(workload=workload, client=client | {"tokens_per_s": 1000.0})), 0).numpy("requests")
        for client in (ONE, {})
    ]
    assert [sorted((each["submitted"] // (1000 * MS)).tolist()) for each in sent] == [[1, 1, 1, 1], [1, 2, 3, 4]]


def test_a_group_that_begins_anew_travels_as_one_again():
    """Deferred groups are sent as one request each time: decisions are fewer than requests by the siblings."""
    training = {"groups_per_step": 4, "oversampling_batch": 6, "unfinished": "defer"}
    workload = {"groups": 24, "samples_per_group": 3, "output_tokens": LENGTHS, "max_tokens": 60}
    log = replicate(cell_of(world(workload=workload, client=ONE) | {"training": training}), 0)
    requests, decisions = log.numpy("requests"), log.numpy("decisions")
    assert requests["attempt"].max() >= 1
    assert 3 * len(decisions["request"]) == len(requests["request"])


def test_later_turns_travel_alone():
    """Only first turns go together."""
    workload = {"groups": 2, "samples_per_group": 3, "turns": 3, "tool_delay_s": 0.02}
    log = replicate(cell_of(world(workload=workload, client=ONE)), 0)
    assert len(log.numpy("decisions")["request"]) == 2 + 2 * 3 * 2
    assert len(log.numpy("requests")["request"]) == 18


def test_a_cap_on_sessions_is_refused():
    """A group cannot wait for places one by one."""
    with pytest.raises(ValueError, match="needs max_groups_in_flight"):
        ClientSpec(group_as_one_request=True, max_sessions_in_flight=4)


def test_a_refused_bundle_is_refused_for_all():
    """A router that chooses no engine fails every sibling."""
    workload = {"groups": 2, "samples_per_group": 2}
    log = replicate(under(cell_of(world(workload=workload, client=ONE)), Refusing()), 0)
    requests = log.numpy("requests")
    assert requests["status"].tolist() == [1, 1, 0, 0]
    assert requests["reason"][:2].tolist() == [1, 1]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(trained_worlds(), st.booleans())
def test_bundles_keep_the_laws(case, is_trained):
    """L1, L11: with and without a trainer every sample ends, and jumping is stepping."""
    resolved, _ = case
    resolved["client"] |= ONE | {"max_sessions_in_flight": None, "max_sessions_per_engine": None}
    if not is_trained:
        resolved["training"] = None
    cell = cell_of(resolved)
    one, two = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    assert all(getattr(one, table) == getattr(two, table) for table in TABLES)
    groups = one.numpy("groups")
    if not is_trained:
        assert (groups["ended"] >= 0).all()
        assert len(groups["group"]) == 8
    assert not np.isin(one.numpy("requests")["status"], [4]).any()
