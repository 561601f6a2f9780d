"""What users of RL jobs met: scenarios of scenarios/cases about rollouts, with their outcome."""

import numpy as np
import pytest

from sim import load_scenario
from sim.log.frames import read_logs
from sim.metrics import measure
from sim.replication import replicate
from sim.scenario._find import SHIPPED

CASES = SHIPPED / "cases"


def logs(case, *arms, pair=0):
    """A log of each named arm."""
    scenario = load_scenario(CASES / f"{case}.yaml")
    return [replicate(scenario.arms[arm], pair) for arm in arms]


def values(case, *arms, pairs=1):
    """Metrics of each named arm, means over the first pairs."""
    scenario = load_scenario(CASES / f"{case}.yaml")
    for arm in arms:
        frames = read_logs([replicate(scenario.arms[arm], pair) for pair in range(pairs)], range(pairs))
        yield {name: column.mean() for name, column in measure(frames).to_dict().items()}


@pytest.mark.slow
def test_new_sessions_by_load_gain_most_at_middle_pressure():
    """P8: the 90th percentile of a group's time falls by nearly half at middle pressure, else by under 10 %."""
    gain = {}
    for pressure in ("low", "middle", "high"):
        took = []
        for pair in range(3):
            for log in logs("p08_new_sessions", f"hash_{pressure}", f"sticky_{pressure}", pair=pair):
                requests = log.numpy("requests")
                ends = [requests["ended"][requests["group"] == group].max() for group in range(100)]
                starts = [requests["submitted"][requests["group"] == group].min() for group in range(100)]
                took.append(np.quantile(np.subtract(ends, starts), 0.9))
        gain[pressure] = 1 - np.mean(took[1::2]) / np.mean(took[::2])
    assert 0.35 < gain["middle"] < 0.55
    assert abs(gain["low"]) < 0.1
    assert abs(gain["high"]) < 0.1


def test_refill_by_group_waits_for_the_slowest_of_eight():
    """P18: places are held 20 + 8/9 * 100 minutes in place of 70; a tenth of the decisions have no key."""
    by_sample, by_group = logs("p18_refill_by_group", "by_sample", "by_group")
    ends = [log.numpy("requests")["ended"].max() for log in (by_sample, by_group)]
    assert ends[1] / ends[0] == pytest.approx(108.9 / 70, rel=0.05)
    branches = by_sample.numpy("decisions")["branch"]
    assert np.mean(branches == by_sample.branches.index("no_key")) == pytest.approx(0.1, abs=0.015)


def test_siblings_in_one_request_share_their_prompt():
    """P20: one copy of the prompt, eight, or one a step later, by when a prompt can be found; four on four engines."""
    arms = ("at_schedule", "after_prefill", "deferred", "on_four_engines", "copies_on_four_engines")
    copies = [
        found["prefill_tokens"] / found["prefill_tokens_ideal"]
        for found in values("p20_siblings_in_one_request", *arms)
    ]
    assert copies == pytest.approx([1, 8, 1, 1, 4], rel=0.01)
    now, _, later = logs("p20_siblings_in_one_request", *arms[:3])
    first = [log.numpy("requests")["first_token"][1] - log.numpy("requests")["submitted"][1] for log in (now, later)]
    assert first[1] > first[0]


@pytest.mark.slow
def test_a_cap_has_a_peak_and_a_cliff_and_feedback_finds_it():
    """P37: twice the best cap loses more than half; a cap that moves comes near the best, and overshoots from above."""
    arms = ("cap_16", "cap_32", "cap_64", "cap_256", "feedback", "feedback_from_256")
    low, best, cliff, high, moving, above = (found["samples_per_s"] for found in values("p37_cap_by_feedback", *arms))
    assert best > 1.4 * low
    assert cliff < 0.5 * best
    assert high < 0.5 * best
    assert moving > 0.85 * best
    assert high < above < 0.7 * best


def found_before_computed(log):
    """Cached tokens of the first prompt of each version on each engine: nothing of that version is computed yet."""
    requests, steps = log.numpy("requests"), log.numpy("steps")
    found = 0
    for updated in steps["updated"][steps["updated"] >= 0]:
        for engine in range(4):
            after = (requests["engine"] == engine) & (requests["scheduled"] >= updated)
            if after.any():
                first = np.flatnonzero(after)[np.argmin(requests["scheduled"][after])]
                found += int(requests["cached_tokens"][first])
    return found


def test_caches_at_updates():
    """P41: nothing of old weights is found unless caches are kept; keeping costs fewer prefills, and is stale."""
    arms = ("flushed", "kept", "by_version", "drained", "aborted")
    by_arm = dict(zip(arms, logs("p41_cache_at_updates", *arms), strict=True))
    assert found_before_computed(by_arm["kept"]) > 0
    for arm in ("flushed", "by_version", "drained", "aborted"):
        assert found_before_computed(by_arm[arm]) == 0, arm
    flushed, kept, drained, aborted = values("p41_cache_at_updates", "flushed", "kept", "drained", "aborted")
    assert kept["prefill_tokens"] < 0.85 * flushed["prefill_tokens"]
    assert drained["step_time_mean_s"] > 1.05 * flushed["step_time_mean_s"]
    assert aborted["aborted_tokens_share"] > 0.01


def test_a_warm_cache_flatters_a_repeat():
    """P52: what the second step finds of the first is gone when caches are emptied; raced siblings find nothing."""
    cold, warm, raced = logs("p52_warm_caches", "cold", "warm", "raced")
    hits = []
    for log in (cold, warm, raced):
        requests = log.numpy("requests")
        second = requests["group"] >= 8
        first = np.flatnonzero(second)[np.argmin(requests["scheduled"][second])]
        hits.append((int(requests["cached_tokens"][first]), int(requests["cached_tokens"][second].sum())))
    assert hits[0][0] == 0
    assert hits[1][0] == 8000
    assert hits[1][1] - hits[0][1] == 8000
    assert hits[2] == (0, 0)
