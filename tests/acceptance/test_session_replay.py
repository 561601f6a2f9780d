"""610 recorded sessions on twelve engines: where first turns go, and what every sane policy reuses."""

import numpy as np
import pytest

from sim import load_scenario, run
from sim.replication import replicate
from sim.report.document import document

SCENARIO = "nemo_gym_12_engines"


def first_turns(arm, pair, *overrides):
    """Sessions placed on each engine by their first turns."""
    requests = replicate(load_scenario(SCENARIO, overrides).arms[arm], pair).numpy("requests")
    return np.bincount(requests["engine"][requests["turn"] == 0], minlength=12)


def test_least_loaded_first_turns_are_even():
    """610 sessions that start at once: 50 or 51 an engine, as measured."""
    assert set(first_turns("cache_aware", 0)) == {50, 51}


@pytest.mark.slow
@pytest.mark.parametrize("tie", ["first", "random", "rotate", "sessions"])
@pytest.mark.parametrize("count", ["sessions", "requests"])
def test_every_tie_rule_places_sessions_that_start_at_once_evenly(count, tie):
    """Nothing ends between the first and the last placement, so requests in flight are sessions."""
    policy = "arms.sticky_least_loaded.router.policy"
    assert set(first_turns("sticky_least_loaded", 1, f"{policy}.count={count}", f"{policy}.tie={tie}")) == {50, 51}


@pytest.mark.slow
@pytest.mark.parametrize(("arm", "measured"), [("consistent_hash", (36, 68)), ("sha256_mod", (41, 59))])
def test_hashes_spread_sessions_as_measured(arm, measured):
    """The measured extremes lie within what ten replications show."""
    counts = [first_turns(arm, pair) for pair in range(10)]
    assert min(each.min() for each in counts) <= measured[0] <= max(each.min() for each in counts) + 1
    assert min(each.max() for each in counts) - 1 <= measured[1] <= max(each.max() for each in counts) + 3


@pytest.mark.slow
def test_sane_arms_reuse_alike(tmp_path):
    """Hit rates within one point of each other, 91 to 96 %; requests spread as measured; one wall is not far off."""
    arms = document(run(load_scenario(SCENARIO), out=tmp_path))["arms"]
    rates = [arm["prefix_hit_rate"]["mean"] for arm in arms.values()]
    assert max(rates) - min(rates) < 0.01
    assert all(0.91 <= rate <= 0.96 for rate in rates)
    spread = {name: arm["load_requests_max_over_mean"]["mean"] for name, arm in arms.items()}
    assert 1.1 <= spread["cache_aware"] <= 1.2
    assert all(1.2 <= spread[name] <= 1.45 for name in ("consistent_hash", "sha256_mod"))
    assert all(11 * 60 <= arm["makespan_s"]["mean"] <= 19 * 60 for arm in arms.values())
    assert arms["cache_aware"]["time_to_90pct_s"]["mean"] < arms["consistent_hash"]["time_to_90pct_s"]["mean"]
