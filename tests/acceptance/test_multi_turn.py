"""Long rollouts routed turn by turn, against pinning each to an engine."""

import pytest

from sim import load_scenario, run
from sim.report.document import document

SCENARIO = "slime_multi_turn"
PINNED = ("sticky_least_loaded", "consistent_hashing")
CENTRE = [
    "workload.groups=32",
    "client.max_sessions_per_engine=32",
    "fleet.engine.kv_tokens=400000",
    "workload.output_tokens.median=140",
    "workload.observation_tokens.median=430",
    "workload.tool_delay_s.median=0.85",
]


def ratio(found, arm, metric):
    return next(each["ratio"] for each in found["comparisons"] if (each["candidate"], each["metric"]) == (arm, metric))


def prefill(found, arm):
    return found["arms"][arm]["prefill_tokens"]["mean"]


def test_pinned_rollouts_compute_their_context_once(tmp_path):
    """A short form of the scenario: 24 turns, four rollouts an engine, contexts that fit."""
    small = [
        "workload.groups=4",
        "workload.turns=24",
        "client.max_sessions_per_engine=4",
        "fleet.engine.kv_tokens=150000",
    ]
    found = document(run(load_scenario(SCENARIO, small), pairs=1, out=tmp_path))
    for pinned in PINNED:
        assert prefill(found, pinned) < prefill(found, "round_robin") / 3
        assert prefill(found, pinned) >= found["arms"][pinned]["prefill_tokens_ideal"]["mean"]


@pytest.mark.slow
def test_round_robin_loses_more_than_a_factor_of_six(tmp_path):
    """The scenario as shipped: throughput of the pinned arm over round robin, and what is computed."""
    found = document(run(load_scenario(SCENARIO), out=tmp_path))
    assert ratio(found, "round_robin", "requests_per_s") < 1 / 6
    assert all(prefill(found, pinned) < prefill(found, "round_robin") / 6 for pinned in PINNED)


@pytest.mark.slow
def test_nobody_wins_where_contexts_do_not_fit(tmp_path):
    """The middle of the plausible ranges: pinned or not, most contexts are evicted before their next turn."""
    found = document(run(load_scenario(SCENARIO, CENTRE), pairs=2, arms=["round_robin"], out=tmp_path))
    assert 0.8 < ratio(found, "round_robin", "requests_per_s") < 1.25
    assert all(arm["prefix_hit_rate"]["mean"] < 0.5 for arm in found["arms"].values())
