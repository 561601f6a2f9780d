"""Cases about where requests go: few keys, ties, misses, shared beginnings, engines that join and leave."""

from math import sqrt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sim import load_scenario, run
from sim.cli._main import run_command
from sim.errors import ScenarioError
from sim.log.frames import read_logs
from sim.metrics import measure
from sim.replication import replicate
from sim.report.document import document
from sim.scenario._find import SHIPPED
from sim.stats.power import pairs_needed, recombined, spread_from_interval

CASES = SHIPPED / "cases"


def file(name: str) -> Path:
    return CASES / f"{name}.yaml"


def logs(name, *arms, pair=0):
    """A log of each named arm."""
    scenario = load_scenario(file(name))
    return [replicate(scenario.arms[arm], pair) for arm in arms]


def placed(name, arm, pair=0):
    """Requests by engine."""
    cell = load_scenario(file(name)).arms[arm]
    return np.bincount(replicate(cell, pair).numpy("decisions")["engine"], minlength=cell.engines).tolist()


def values(name, *arms, pairs=1):
    """Metrics of each named arm, means over the first pairs."""
    scenario = load_scenario(file(name))
    for arm in arms:
        frames = read_logs([replicate(scenario.arms[arm], pair) for pair in range(pairs)], range(pairs))
        yield {metric: column.mean() for metric, column in measure(frames).to_dict().items()}


def test_four_keys_on_two_engines_are_luck(tmp_path):
    """P1: the splits, their order, an interval that holds 1.191, and the 8 pairs that such a spread needs."""
    found = document(run(load_scenario(file("p01_four_keys_on_two_engines")), out=tmp_path))
    exact = {each["class"]: each["p_exact"] for each in found["placements"]}
    assert exact == {"2:2": 0.375, "3:1": 0.5, "4:0": 0.125}
    split = {each["class"]: each["pairs"] for each in found["placements"]}
    chance = stats.chisquare([split[name] for name in exact], [20 * share for share in exact.values()]).pvalue
    assert sum(split.values()) == 20
    assert chance > 0.01
    ratio = {each["class"]: each["ratio"]["samples_per_s"] for each in found["placements"]}
    assert ratio["2:2"] > ratio["3:1"] > 1 > ratio["4:0"]
    (gain,) = [each for each in found["comparisons"] if each["metric"] == "samples_per_s"]
    assert gain["lo"] < 1.191 < gain["hi"]
    assert pairs_needed(0.191, spread_from_interval(gain["lo"], gain["hi"], 20)) in (7, 8, 9)


def test_the_published_pairs_recombine_and_need_eight():
    """P1: the classes' ratios give 1.191 with the draws seen and 1.177 with the exact shares; 0.147 needs 8 pairs."""
    ratios = [1.357, 1.149, 0.848]
    assert recombined(ratios, [8, 10, 2]) == pytest.approx(1.191, abs=0.001)
    assert recombined(ratios, [0.375, 0.5, 0.125]) == pytest.approx(1.177, abs=0.001)
    assert spread_from_interval(1.116, 1.269, 20) == pytest.approx(0.147, abs=0.01)
    assert pairs_needed(0.191, 0.147) == 8


def test_a_version_refuses_what_its_command_line_refuses(capsys):
    """P3: before anything runs, in one line with the versions that have it; a typing error names the nearest name."""
    case = str(file("p03_refused_by_version"))
    assert run_command(["check", case, "--set", "router.policy=consistent_hashing"]) == 1
    said = capsys.readouterr().err
    assert "the command line of sglang-router 0.3.1 refuses 'consistent_hashing'" in said
    assert "versions that have it: smg 1.13.0" in said
    assert "kind sglang.consistent_hashing" in said
    with pytest.raises(ScenarioError, match="did you mean 'cache_aware'"):
        load_scenario(case, ["router.policy=cache_awre"])
    assert run_command(["policies", "sglang.consistent_hashing"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "sglang-router consistent_hashing: in 0.3.1, 0.3.2, whose command line refuses it" in page
    # The three ways round it run, and two of them keep a session where it is by its key.
    for log_ in logs("p03_refused_by_version", "rule_alone", "other_router"):
        requests = log_.numpy("requests")
        homes = {(int(s), int(e)) for s, e in zip(requests["session"], requests["engine"], strict=True)}
        assert len(homes) == 16


def test_sessions_one_after_the_other_go_where_ties_go():
    """P11: 200/0/0/0 with first ties; random ties within four deviations of 50; exactly 50 in turn."""
    assert placed("p11_first_ties", "first") == [200, 0, 0, 0]
    assert placed("p11_first_ties", "in_turn") == [50] * 4
    for pair in range(4):
        assert max(abs(each - 50) for each in placed("p11_first_ties", "random", pair)) < 4 * sqrt(200 * 3 / 16)


def test_misses_to_the_smallest_tree_go_to_the_longest_queue():
    """P22: every miss after the first prompt goes to one engine, beside an idle one, until 64 more are in flight."""
    smallest, by_load = logs("p22_smallest_tree", "smallest_tree", "by_load")
    decisions = smallest.numpy("decisions")
    first, later = decisions["engine"][0], decisions["engine"][1:]
    is_miss = decisions["branch"][1:] == smallest.branches.index("miss")
    assert (later[is_miss] == 1 - first).all()
    assert is_miss[:100].all(), "the pool is not uneven at first"
    assert {smallest.branches[code] for code in np.unique(decisions["branch"])} == {"miss", "imbalanced"}
    counts = np.bincount(by_load.numpy("decisions")["engine"][1:], minlength=2)
    assert counts.min() > 90
    slow, even = values("p22_smallest_tree", "smallest_tree", "by_load")
    assert slow["ttft_p95_s"] > 100 * even["ttft_p95_s"]
    assert slow["idle_with_queue_s"] > 30
    assert even["idle_with_queue_s"] == 0


def test_a_heavy_weight_of_overlap_makes_one_engine_of_eight():
    """P28: even at 0 and at 1; at 64 on one, or two if the second request came too soon; a draw spreads again."""
    used = {
        arm: [sum(1 for each in placed("p28_overlap_weight", arm, pair) if each) for pair in range(3)]
        for arm in ("weight_0", "weight_1", "weight_4", "weight_16", "weight_64", "weight_64_drawn")
    }
    assert used["weight_0"] == used["weight_1"] == used["weight_64_drawn"] == [8, 8, 8]
    assert min(used["weight_64"]) == 1
    assert max(used["weight_64"]) <= 2
    assert all(1 < each < 8 for each in used["weight_4"])
    assert max(used["weight_16"]) < min(used["weight_4"])
    even, heavy = values("p28_overlap_weight", "weight_1", "weight_64", pairs=3)
    assert 0 < heavy["prefix_hit_rate"] - even["prefix_hit_rate"] < 0.02


def test_where_nothing_is_shared_overlap_has_no_weight(tmp_path):
    """P28: 512 unique prompts fall evenly whatever the credit, and the run says that none changes a decision."""
    found = run(load_scenario(file("p28_nothing_shared")).select(pairs=1), out=tmp_path)
    counts = placed("p28_nothing_shared", "credit_1")
    assert min(counts) > 0.95 * 512 / 5
    assert len({arm.decisions for arm in found.arms.values()}) == 1
    assert sum("no decision differs" in line for line in found.warnings) == 3
    assert any("the index is empty" in line for line in found.warnings)


def test_ids_that_are_matched_as_prefixes_pile_up():
    """P30: all 200 sessions are taken for the first one; above the common part, or by equality, they spread."""
    as_prefix, above = logs("p30_ids_as_prefix", "as_prefix", "threshold_0.95")
    assert sorted(placed("p30_ids_as_prefix", "as_prefix")) == [0, 0, 0, 1000]
    branches = as_prefix.numpy("decisions")["branch"]
    assert np.sum(branches == as_prefix.branches.index("taken_for_another")) == 199
    assert "taken_for_another" not in above.branches
    assert max(placed("p30_ids_as_prefix", "threshold_0.95")) < 300
    assert max(placed("p30_ids_as_prefix", "by_equality")) < 300


def test_a_system_prompt_of_the_whole_fleet_is_one_family():
    """P30: one engine of four has all; spreading computes the system prompt three times more, and is much sooner."""
    assert sorted(placed("p30_shared_system_prompt", "as_shipped")) == [0, 0, 0, 240]
    for arm in ("threshold_0.8", "session_key"):
        assert min(placed("p30_shared_system_prompt", arm)) > 40
    piled, spread = values("p30_shared_system_prompt", "as_shipped", "threshold_0.8", pairs=2)
    assert 0.8 * 36_000 < spread["prefill_tokens"] - piled["prefill_tokens"] <= 36_000 + 1000
    assert piled["ttft_p95_s"] > 2 * spread["ttft_p95_s"]
    assert piled["makespan_s"] > 1.1 * spread["makespan_s"]


def test_two_policies_that_never_differ_are_named(tmp_path):
    """P33: matching whole prompts alone is least load in every decision, and the run says so; a beginning is not."""
    found = run(load_scenario(file("p33_whole_prompt")).select(pairs=2), out=tmp_path)
    said = [line for line in found.warnings if "no decision differs" in line]
    assert said == ["arms least_load and whole_prompt: no decision differs, but for the names of engines"]
    assert found.arms["beginning"].decisions != found.arms["least_load"].decisions


# -- engines that join and leave ---------------------------------------------------------------------------------------


def moved_at(name, arm, at_s, pairs=3):
    """Sessions that went on elsewhere after a change of the fleet, those that went on, and the engines they went to."""
    cell = load_scenario(file(name)).arms[arm]
    moved = alive = 0
    to: set[tuple[int, int]] = set()
    for pair in range(pairs):
        requests = read_logs([replicate(cell, pair)], [pair]).requests.sort("session", "turn")
        before = requests.filter(pl.col("submitted_s") < at_s).group_by("session").agg(pl.col("engine").last())
        after = requests.filter(pl.col("submitted_s") >= at_s).group_by("session").agg(new=pl.col("engine").first())
        both = before.join(after, on="session")
        changed = both.filter(pl.col("engine") != pl.col("new"))
        moved += changed.height
        alive += both.height
        to |= set(changed.select("engine", "new").iter_rows())
    return moved, alive, to


def within(moved, alive, share):
    """Whether a count of keys is binomial, within four deviations, and a ring's own unevenness of 3 % of the share."""
    return abs(moved - share * alive) < 4 * sqrt(alive * share * (1 - share)) + 0.03 * share * alive


def test_half_of_the_sessions_move_when_one_becomes_two():
    """P46: ring, rendezvous and modulo 1/2, all to the new engine; a table none."""
    for arm in ("ring", "rendezvous", "modulo"):
        moved, alive, to = moved_at("p46_one_becomes_two", arm, 300)
        assert alive == 192
        assert within(moved, alive, 1 / 2), arm
        assert to == {(0, 1)}
    assert moved_at("p46_one_becomes_two", "table", 300)[0] == 0
    ring, table = values("p46_one_becomes_two", "ring", "table")
    assert table["reprefilled_tokens"] == 0
    assert ring["reprefilled_tokens"] > 150_000
    assert ring["recovery_s"] > table["recovery_s"]


@pytest.mark.slow
def test_an_eighth_of_the_sessions_moves_or_all_but_an_eighth():
    """P46, 8 to 7 to 8: 1/8 each time by ring and rendezvous, 7/8 by modulo; a table moves what lost its engine."""
    for arm in ("ring", "rendezvous"):
        moved, alive, to = moved_at("p46_eight_seven_eight", arm, 250)
        assert alive == 720
        assert within(moved, alive, 1 / 8), arm
        assert {old for old, _ in to} == {3}, "no session of a survivor moves"
        moved, alive, to = moved_at("p46_eight_seven_eight", arm, 450)
        assert within(moved, alive, 1 / 8), arm
        assert {new for _, new in to} == {8}
    for at_s in (250, 450):
        moved, alive, _ = moved_at("p46_eight_seven_eight", "modulo", at_s)
        assert within(moved, alive, 7 / 8), at_s
    moved, alive, to = moved_at("p46_eight_seven_eight", "table", 250)
    assert within(moved, alive, 1 / 8)
    assert {old for old, _ in to} == {3}
    assert moved_at("p46_eight_seven_eight", "table", 450)[0] == 0


def test_the_bill_of_a_restart():
    """P45: a stale table and a hash compute more again, and longer, than a tree that forgets the engine it lost."""
    arms = ("cache_aware", "hashed", "table", "no_restart")
    tree, hashed, table, kept = values("p45_cold_restart", *arms, pairs=2)
    assert kept["reprefilled_tokens"] == 0
    assert kept["recovery_s"] is None
    for found in (hashed, table):
        assert found["recovery_s"] > 1.3 * tree["recovery_s"] > 10
        assert found["reprefilled_tokens"] > 1.5 * tree["reprefilled_tokens"]
        assert found["prefill_tokens"] > 1.4 * kept["prefill_tokens"]
        assert found["makespan_s"] > kept["makespan_s"]


def test_two_routers_have_two_maps() -> None:
    """A turn through the other router stays one time in eight: 1/2 (1 - 1/8) of the turns move; by the ring none do."""
    two, one, rings = values("two_routers_two_maps", "two_routers", "one_router", "two_rings", pairs=3)
    moved = [each["moved_turns_rate"] for each in (two, one, rings)]
    assert moved == [pytest.approx(1 / 2 * 7 / 8, abs=0.08), 0, 0]
    assert two["prefix_hit_rate"] < rings["prefix_hit_rate"] - 0.05


def test_a_key_modulo_the_list_moves_nearly_all_sessions_when_an_engine_leaves():
    """sglang-router 0.3.2: 7/8 of the sessions move and are computed again; of smg those of the engine that left."""
    nearly_all, alive, _ = moved_at("churn_moves_keys", "sglang", 200)
    assert alive > 700
    assert within(nearly_all, alive, 7 / 8)
    few, alive, to = moved_at("churn_moves_keys", "smg", 200)
    assert within(few, alive, 1 / 8)
    assert {old for old, _ in to} == {3}
    sglang, smg = values("churn_moves_keys", "sglang", "smg", pairs=3)
    assert sglang["reprefilled_tokens"] / smg["reprefilled_tokens"] == pytest.approx(nearly_all / few, rel=0.15)


def test_the_keys_of_a_dead_engine_go_to_the_first_that_is_available():
    """vllm-router: one engine has two engines' sessions; the ring of smg walks on, to several."""
    to = {}
    for arm in ("first_available", "next_point"):
        moved, alive, ways = moved_at("keys_of_a_dead_engine", arm, 160, pairs=1)
        assert within(moved, alive, 1 / 8), arm
        assert {old for old, _ in ways} == {3}
        to[arm] = {new for _, new in ways}
    assert len(to["first_available"]) == 1
    assert len(to["next_point"]) >= 4
    one, several = values("keys_of_a_dead_engine", "first_available", "next_point", pairs=3)
    assert one["failed"] == several["failed"] == 0
    assert one["load_requests_max_over_mean"] > 1.1 * several["load_requests_max_over_mean"]


def test_the_bill_of_modulo_is_seven_times_the_ring_s():
    """P46: two moves of 7/8 against two of 1/8; the hit rate takes several times as long to be as before."""
    ring, modulo, table = values("p46_eight_seven_eight", "ring", "modulo", "table")
    assert 4 < modulo["reprefilled_tokens"] / ring["reprefilled_tokens"] < 10
    assert modulo["moved_turns_rate"] == pytest.approx(2 * (7 / 8) / 29, rel=0.1)
    assert table["reprefilled_tokens"] < ring["reprefilled_tokens"]
    assert modulo["recovery_s"] > 3 * ring["recovery_s"]
