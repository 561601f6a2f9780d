"""What users of real systems met around their policies: scenarios of scenarios/cases, with their outcome."""

from pathlib import Path

import numpy as np
import pytest

from sim import load_scenario, run
from sim.log.frames import read_logs
from sim.metrics import measure
from sim.replication import replicate
from sim.scenario import check
from sim.scenario._find import SHIPPED

CASES = SHIPPED / "cases"


def values(case, *arms, pairs=1):
    """Metrics of some arms, means over the first pairs: one dictionary an arm."""
    scenario = load_scenario(CASES / f"{case}.yaml")
    for arm in arms:
        frames = read_logs([replicate(scenario.arms[arm], pair) for pair in range(pairs)], range(pairs))
        yield {name: column.mean() for name, column in measure(frames).to_dict().items()}


def test_a_counter_in_each_process_tears_sessions_apart():
    """P6: one counter reuses what a hash reuses; sixteen compute several times the prompt tokens."""
    one, many, hashed = values("p06_counter_per_process", "one_process", "processes", "hashed")
    assert one["prefix_hit_rate"] > 0.85
    assert hashed["prefix_hit_rate"] == pytest.approx(one["prefix_hit_rate"], abs=0.005)
    assert many["prefix_hit_rate"] < one["prefix_hit_rate"] - 0.08
    assert many["prefill_tokens"] > 3 * one["prefill_tokens"]
    assert many["makespan_s"] > 1.1 * one["makespan_s"]


def test_a_router_that_hashes_on_one_core_is_the_bottleneck():
    """P48: its core is busy, the wait for it is the time to the first token; more cores or less hashing cure it."""
    slow, four, quick = values("p48_slow_router", "hashes_all", "four_cores", "hashes_nothing")
    assert slow["router_utilisation"] > 0.95
    assert slow["ttft_p95_s"] > 3
    assert slow["router_wait_p95_s"] > 0.9 * slow["ttft_p95_s"]
    assert 0.5 < four["router_utilisation"] < 0.95
    assert four["ttft_p95_s"] < 1
    assert quick["router_utilisation"] < 0.2
    # 12 turns of 128 users through one core of 30 ms: no fleet makes this shorter.
    assert slow["makespan_s"] == pytest.approx(12 * 128 * 0.03, rel=0.04)
    assert four["makespan_s"] < 0.4 * slow["makespan_s"]


def test_an_arm_that_refuses_looks_faster(tmp_path):
    """P50: lower latencies of fewer: goodput over what was offered falls, and the run says that latencies lack some."""
    scenario = load_scenario(CASES / "p50_rejecting_arm.yaml").select(pairs=2, arms=["refuses"])
    result = run(scenario, out=tmp_path)
    queues, refuses = (result.arms[name].values for name in ("queues", "refuses"))
    assert 0.10 < refuses["failed"].mean() / 2400 < 0.18  # one in seven
    assert refuses["e2e_p95_s"].mean() < queues["e2e_p95_s"].mean()
    assert refuses["goodput_per_s"].mean() < 0.95 * queues["goodput_per_s"].mean()
    assert any("refuses did not finish every request" in line and "e2e_p95_s" in line for line in result.warnings)


def test_asking_every_engine_pays_where_answers_differ_and_asking_is_quick():
    """P54: alike, dealing in turn wins; varied, a quick look wins, and a slow one loses what it gains."""
    turn, slow, quick = values("p54_asking_all", "in_turn", "asks_all", "asks_all_quickly")
    assert slow["makespan_s"] > 1.05 * turn["makespan_s"]
    assert turn["makespan_s"] <= quick["makespan_s"] < 1.01 * turn["makespan_s"]
    turn, slow, quick = values("p54_asking_all_varied", "in_turn", "asks_all", "asks_all_quickly", pairs=4)
    assert quick["makespan_s"] < 0.98 * turn["makespan_s"]
    assert quick["makespan_s"] < 0.98 * slow["makespan_s"]
    assert slow["makespan_s"] > 0.98 * turn["makespan_s"]


def test_sessions_that_never_meet_go_where_ties_go():
    """P25: 448 and 0 with first ties, 224 each with rotating ones, about even with random ones."""
    scenario = load_scenario(CASES / "p25_paced_sessions.yaml")
    placed = {}
    for arm, cell in scenario.arms.items():
        placed[arm] = np.bincount(replicate(cell, 0).numpy("decisions")["engine"], minlength=2).tolist()
    assert placed["first"] == [448, 0]
    assert placed["rotate"] == [224, 224]
    assert abs(placed["random"][0] - 224) < 4 * 448**0.5 / 2


def test_an_engine_that_restarts_is_cold_whatever_routers_remember():
    """P45: no hit on it for seconds, as many as before half a minute later; each prefix is computed again."""
    scenario = load_scenario(CASES / "p45_cold_restart.yaml")
    prefill = {}
    for arm, cell in scenario.arms.items():
        requests = replicate(cell, 0).numpy("requests")
        prefill[arm] = requests["prefill_tokens"].sum()
        assert (requests["status"] == 0).all()
        here = requests["engine"] == 0
        hits = {}
        for start, end in ((40, 55), (61, 66), (90, 120)):
            some = here & (requests["arrived"] >= start * 10**9) & (requests["arrived"] < end * 10**9)
            hits[start] = requests["cached_tokens"][some].sum() / requests["prompt_tokens"][some].sum()
        assert hits[40] > 0.9
        assert hits[90] > 0.9
        assert hits[61] > 0.9 if arm == "no_restart" else hits[61] == 0
    assert prefill["hashed"] > prefill["cache_aware"] > 1.15 * prefill["no_restart"]


def test_routers_that_read_at_the_same_times_herd():
    """P27: between two readings about half of all requests go to one of 16 engines; jitter or a draw spreads them."""
    scenario = load_scenario(CASES / "p27_herd.yaml")
    share = {}
    for arm in ("stale", "jittered", "drawn"):
        decisions = replicate(scenario.arms[arm], 0).numpy("decisions")
        second = decisions["at"] // 10**9
        herds = [np.bincount(decisions["engine"][second == each]) for each in range(2, int(second.max()))]
        share[arm] = np.mean([herd.max() / herd.sum() for herd in herds])
    assert share["stale"] > 0.4
    assert share["jittered"] < 0.6 * share["stale"]
    assert share["drawn"] < 0.15  # the largest of 16 even counts of 100 requests is about 11


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_case_has_a_key_without_effect(path: Path):
    """Every scenario of the folder loads, and says nothing that changes nothing."""
    assert [line for line in check(load_scenario(path)).warnings if "no effect" in line] == []
