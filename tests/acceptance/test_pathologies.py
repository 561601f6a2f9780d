"""What goes wrong with which policy: each scenario of ``scenarios/cases`` says what to expect, and here it is held."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from policies.sglang.consistent_hashing import ConsistentHashing as Modulo
from policies.smg.consistent_hashing import ConsistentHashing as Ring
from sim import run
from sim.report.result import Result
from sim.scenario import load_scenario
from tests.policies.worlds import Desk, Picks, ask, fleet_of

CASES = Path(__file__).parents[2] / "scenarios" / "cases"


def result(name: str, folder: Path, pairs: int = 1) -> Result:
    return run(load_scenario(CASES / f"{name}.yaml").select(pairs=pairs), out=folder)


def placed(found: Result, arm: str, pair: int = 0) -> list[int]:
    """Requests of each engine, most first."""
    requests = found.arms[arm].tables().requests.filter((pl.col("pair") == pair) & (pl.col("engine") >= 0))
    return sorted(requests["engine"].value_counts()["count"].to_list(), reverse=True)


def values(found: Result, arm: str, metric: str) -> np.ndarray:
    return found.arms[arm].column(metric)


def test_first_ties_on_an_idle_pool(tmp_path: Path) -> None:
    """Sglang issue 32983, verl 7613, slime's router: 200/0/0/0, bar a pair that overlaps; else even."""
    found = result("idle_pool", tmp_path)
    for arm in ("sglang_cache_aware", "verl", "slime_router", "vllm_cache_aware"):
        assert placed(found, arm)[0] >= 198, arm
    for arm in ("smg_cache_aware", "verl_random_ties"):
        # Binomial of 200 at 1/4: 50 and a standard deviation of 6.1; 30 to 70 holds all four at once.
        assert len(placed(found, arm)) == 4
        assert placed(found, arm)[0] <= 70
        assert placed(found, arm)[-1] >= 30
    assert placed(found, "rotate") == [50, 50, 50, 50]


def test_a_shared_system_prompt_is_one_family(tmp_path: Path) -> None:
    """The owner stays 64 above the others: 96 = 72 + 3 * 8; smg leaves one cold; above the shared part all is even."""
    found = result("shared_system_prompt", tmp_path)
    assert placed(found, "sglang") == [72, 8, 8, 8]
    assert placed(found, "smg") == [32, 32, 32]
    assert placed(found, "sglang_threshold_0.9") == [24, 24, 24, 24]
    slow, even = (values(found, arm, "makespan_s")[0] for arm in ("sglang", "least_load"))
    assert slow > 1.5 * even


def test_locality_is_dropped_while_the_pool_is_uneven(tmp_path: Path) -> None:
    """Sglang pull request 32195: a third of the decisions ignore the prefix; a fifth more is prefilled."""
    found = result("imbalance_drops_locality", tmp_path)
    branches = found.arms["as_shipped"].tables().decisions["branch"]
    assert 0.2 < (branches == "imbalanced").mean() < 0.6
    assert values(found, "as_shipped", "prefill_tokens")[0] > 1.15 * values(found, "sticky", "prefill_tokens")[0]
    assert values(found, "as_shipped", "prefix_hit_rate")[0] < values(found, "sticky", "prefix_hit_rate")[0] - 0.02


def test_power_of_two_without_reports_is_random(tmp_path: Path) -> None:
    """Times to the first token are those of random placement within a factor of two; smg's are under a third."""
    found = result("power_of_two_without_reports", tmp_path, pairs=2)
    sglang, random, smg = (values(found, arm, "ttft_p95_s").mean() for arm in ("sglang", "random", "smg"))
    assert 0.5 < sglang / random < 2
    assert smg < random / 3
    assert any("reads what engines report" in each for each in found.warnings)


def test_prefix_hash_over_http(tmp_path: Path) -> None:
    """sglang-router 0.3.2 refuses all 160; smg's is least load to the last decision, and a hash of heads is not."""
    found = result("prefix_hash_refuses", tmp_path)
    assert values(found, "sglang", "failed")[0] == 160
    assert found.arms["smg"].decisions == found.arms["least_load"].decisions
    hit = {arm: values(found, arm, "prefix_hit_rate")[0] for arm in ("smg", "hashed")}
    assert hit["hashed"] > 1.5 * hit["smg"]


def test_a_saturated_engine_keeps_its_sessions(tmp_path: Path) -> None:
    """prime-rl pull request 3255: more sessions than fit evict each other; the same sessions spread evenly do not."""
    found = result("saturated_home", tmp_path, pairs=3)
    assert placed(found, "sticky") == [150] * 8
    assert placed(found, "hash")[0] >= 8 * 30
    assert values(found, "sticky", "prefix_hit_rate").min() > 0.93
    assert values(found, "hash", "prefix_hit_rate").max() < 0.87
    more = values(found, "hash", "prefill_tokens") / values(found, "sticky", "prefill_tokens")
    assert 2.5 < more.min() < more.max() < 8
    assert (values(found, "hash", "makespan_s") / values(found, "sticky", "makespan_s")).min() > 1.5


def test_a_cold_engine_stays_cold(tmp_path: Path) -> None:
    """Smg's spill gate measures against the mean of all: three engines share a hot prefix, and the fourth gets none."""
    found = result("hot_prefix", tmp_path)
    assert placed(found, "smg") == [18, 18, 17]
    assert placed(found, "least_load") == [14, 13, 13, 13]


def test_a_group_key_spills_in_twos(tmp_path: Path) -> None:
    """Of 8 samples under one key no more than 2 or 3 are together; manual has all 8; prefill is 1.5 times or more."""
    found = result("group_key_spills", tmp_path, pairs=2)
    together = {}
    for arm in ("manual", "override"):
        requests = found.arms[arm].tables().requests
        together[arm] = requests.group_by("pair", "group", "engine").len().group_by("pair", "group").agg(pl.max("len"))
    assert together["manual"]["len"].min() == 8
    assert together["override"]["len"].max() <= 3
    assert (values(found, "override", "prefill_tokens") / values(found, "manual", "prefill_tokens")).min() > 1.5


def test_without_a_session_header_one_engine_has_all(tmp_path: Path) -> None:
    """vllm-router 0.1.17: the key is one constant; with the header eight engines share."""
    found = result("no_session_header", tmp_path)
    assert placed(found, "other_header") == [200]
    assert len(placed(found, "session_header")) == 8
    assert any("all of the decisions were on requests without a routing key" in each for each in found.warnings)


def test_without_tokens_cache_aware_is_least_load(tmp_path: Path) -> None:
    """vllm-router: not one decision differs; with tokens nearly twice as much is found. The report says the first."""
    found = result("no_tokenizer", tmp_path)
    assert found.arms["no_tokens"].decisions == found.arms["least_load"].decisions
    assert values(found, "tokens", "prefix_hit_rate")[0] > 1.6 * values(found, "no_tokens", "prefix_hit_rate")[0]
    assert any("arms no_tokens and least_load: no decision differs" in each for each in found.warnings)
    assert any("arm no_tokens: the index is empty" in each for each in found.warnings)


def test_affinity_ends_at_the_129th_id(tmp_path: Path) -> None:
    """AReaL: 128 live ids all keep their server; of 144 none does, and four fifths are prefilled again."""
    found = result("areal_129_ids", tmp_path)
    kept = {arm: found.arms[arm].tables().decisions["branch"] == "known_id" for arm in found.arms}
    assert kept["ids_128"].sum() == 128 * 7
    assert kept["larger_table"].sum() == 144 * 7
    assert kept["ids_144"].sum() == 0
    assert values(found, "ids_144", "prefix_hit_rate")[0] < 0.25  # what was left at the first server five turns ago
    assert values(found, "larger_table", "prefix_hit_rate")[0] > 0.75


def test_rotating_ties_cost_locality(tmp_path: Path) -> None:
    """P35: the opposite of the idle pool. A turn finds what its engine saw four turns before, half of it at most."""
    found = result("p35_rotating_ties", tmp_path, pairs=2)
    assert values(found, "first", "prefix_hit_rate").min() > 0.7
    assert values(found, "rotate", "prefix_hit_rate").max() < 0.45
    assert (values(found, "rotate", "prefill_tokens") / values(found, "first", "prefill_tokens")).min() > 2


def test_nothing_to_reuse_is_no_loss(tmp_path: Path) -> None:
    """P32: unique prompts. Cache-aware policies are least load to the last decision; hashing prompts is not."""
    found = result("p32_nothing_to_reuse", tmp_path, pairs=2)
    for arm in ("sglang", "vllm"):
        assert found.arms[arm].decisions == found.arms["least_load"].decisions
    assert placed(found, "least_load") == [256] * 4
    assert values(found, "hashed", "load_requests_max_over_mean").min() > 1.03
    assert (values(found, "hashed", "makespan_s") / values(found, "least_load", "makespan_s")).min() > 1.01


def test_the_distance_to_the_oracle(tmp_path: Path) -> None:
    """Sticky and cache-aware placement are within 3 % of full knowledge here; least load is a tenth off or more."""
    found = result("distance_to_the_oracle", tmp_path, pairs=2)
    best = values(found, "oracle", "e2e_p95_s")
    for arm in ("sticky", "cache_aware"):
        assert values(found, arm, "e2e_p95_s") == pytest.approx(best, rel=0.03), arm
        assert values(found, arm, "prefix_hit_rate") == pytest.approx(
            values(found, "oracle", "prefix_hit_rate"), abs=0.01
        )
    assert (values(found, "least_load", "e2e_p95_s") / best).min() > 1.1
    assert values(found, "least_load", "prefill_tokens").min() > 2 * values(found, "oracle", "prefill_tokens").max()


@pytest.mark.parametrize("engines", [4, 12])
def test_a_restart_moves_every_key_of_sglang_and_none_of_smg(engines: int) -> None:
    """A.5: 0.3.2 takes the key modulo a list whose order is drawn at each start; a ring does not know the order."""
    moved = {}
    for cls in (Modulo, Ring):
        homes = []
        for start in (1, 2):
            fleet = fleet_of(engines)
            order = np.random.default_rng(start).permutation(engines)
            fleet.engines[:] = [fleet.engines[place] for place in order]
            fleet.available[:] = fleet.engines
            policy, picks = cls(), Picks(0)
            policy.start(fleet)
            asked = [ask(key, x_smg_routing_key=f"session {key}") for key in range(400)]
            homes.append([policy.choose(each, fleet, 0.0, picks)[0].index for each in asked])
        moved[cls] = np.mean([one != other for one, other in zip(*homes, strict=True)])
    assert moved[Ring] == 0
    # Of a random order a place keeps its engine with probability 1/N; these two orders keep none or one.
    assert moved[Modulo] >= 1 - 2 / engines


def test_churn_moves_nearly_every_key_of_sglang() -> None:
    """One of eight leaves: 7/8 of the keys that stay move under the modulo, none under the ring."""
    moved = {}
    for cls in (Modulo, Ring):
        desk = Desk(cls(), *[0] * 8)
        before = {key: desk.choose(x_smg_routing_key=key)[0] for key in (f"session {each}" for each in range(800))}
        desk.leave(3)
        after = {key: desk.choose(x_smg_routing_key=key)[0] for key in before}
        stay = [key for key, engine in before.items() if engine != 3]
        moved[cls] = np.mean([before[key] != after[key] for key in stay])
    assert moved[Ring] == 0
    assert 0.8 < moved[Modulo] < 0.95
