"""Recorded decisions of real routers, replayed: determined rows exactly, open rows by what the rule allows."""

import json
from collections import Counter
from pathlib import Path

import pytest
from scipy.stats import chisquare

from policies._protocol import RequestView
from sim.conform import distribution, open_world, replay
from tests.policies.worlds import members

VECTORS = Path(__file__).parent / "vectors"
NAMES = sorted(path.stem for path in VECTORS.glob("*.json") if path.stem != "distributions")
CASES = json.loads((VECTORS / "distributions.json").read_text())

KINDS = {
    ("sglang-router", "random"): ("random", {}),
    ("smg", "random"): ("random", {}),
    ("vllm-router", "random"): ("random", {}),
    ("sglang-router", "round_robin"): ("round_robin", {}),
    ("smg", "round_robin"): ("smg.round_robin", {}),
    ("vllm-router", "round_robin"): ("round_robin", {}),
    ("sglang-router", "power_of_two"): ("power_of_two", {"load": "reports_only"}),
    ("smg", "power_of_two"): ("smg.power_of_two", {}),
    ("vllm-router", "power_of_two"): ("power_of_two", {"load": "reports"}),
    ("smg", "least_load"): ("smg.least_load", {}),
    ("sglang-router", "consistent_hashing"): ("sglang.consistent_hashing", {}),
    ("sglang-router", "cache_aware"): ("sglang.cache_aware", {}),
    ("sglang-router", "manual"): ("sglang.manual", {}),
    ("sglang-router", "prefix_hash"): ("sglang.prefix_hash", {}),
    ("smg", "cache_aware"): ("smg.cache_aware", {}),
    ("smg", "consistent_hashing"): ("smg.consistent_hashing", {}),
    ("smg", "manual"): ("smg.manual", {}),
    ("smg", "prefix_hash"): ("smg.prefix_hash", {}),
    ("vllm-router", "consistent_hash"): ("vllm.consistent_hash", {}),
    ("vllm-router", "cache_aware"): ("vllm.cache_aware", {}),
    ("vllm-router", "sticky_least_loaded"): ("vllm.sticky_least_loaded", {}),
}


def model_of(record):
    kind, extra = KINDS[record["router"], record["policy"]]
    params = dict(record["params"])
    if params.pop("routing_key_override", False):
        return members()["smg.sticky_override"](over=kind, **params)
    return members()[kind](**extra, **params)


def load(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_reproduced(name):
    """Every recorded row is what our policy does, or one of the things it may do."""
    vector = load(name)
    rows = replay(vector, model_of(vector))
    assert len(rows) == len(vector["requests"])
    assert [row for row in rows if not row.passes] == []


def test_most_rows_are_determined():
    """The vectors leave little to chance: a replay that allowed everything would not pass here."""
    kinds = Counter(row.kind for name in NAMES for row in replay(load(name), model_of(load(name))))
    assert kinds == {"determined": 1392, "open": 254}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['router']}-{case['policy']}-{case['note'] or 'idle'}")
def test_counts_fit_the_exact_distribution(case):
    """Recorded counts of random choices fit the probabilities that our policy's picks have."""
    urls = [f"http://127.0.0.1:{21001 + place}" for place in range(case["workers"])]
    world = open_world(model_of(case), urls, case["inflight_throughout"])
    shares = list(distribution(world, RequestView(0, {}, ((0, 10),), 10)).values())
    assert sum(shares) == pytest.approx(1)
    assert all(count == 0 for count, share in zip(case["counts"], shares, strict=True) if share == 0)
    possible = [(count, share * case["requests"]) for count, share in zip(case["counts"], shares, strict=True) if share]
    if len(possible) > 1:
        assert chisquare(*zip(*possible, strict=True)).pvalue > 0.001
    else:
        assert possible[0][0] == case["requests"]
