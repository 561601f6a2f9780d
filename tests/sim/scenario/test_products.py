"""``router: {product, version, policy}``: what a version takes, what it refuses and with which words."""

import json
from pathlib import Path

import jsonschema
import pytest

from policies._products import PRODUCTS
from sim import registry
from sim.errors import ScenarioError
from sim.replication import replicate
from sim.scenario import load_scenario
from sim.scenario._schema import schema

BASE = {
    "name": "products",
    "fleet": {
        "engines": 4,
        "engine": {"preset": "sglang", "kv_tokens": 50_000, "cost": {"kind": "constant", "step_ms": 10}},
    },
    "workload": {
        "kind": "rollout",
        "groups": 8,
        "samples_per_group": 2,
        "prompt": {"group_tokens": 100, "system_tokens": 0},
        "output_tokens": 5,
        "max_tokens": 5,
    },
}
VALIDATOR = jsonschema.Draft202012Validator(schema())


def load(router, tmp_path: Path, **blocks):
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps({**BASE, **blocks, "router": router}), encoding="utf-8")
    return load_scenario(path)


def cell(router, tmp_path: Path, **blocks):
    return next(iter(load(router, tmp_path, **blocks).arms.values()))


def refused(router, tmp_path: Path) -> str:
    with pytest.raises(ScenarioError) as error:
        load(router, tmp_path)
    assert "\n" not in str(error.value)
    return str(error.value)


OFFERS = [
    (product, version, policy)
    for product, each in PRODUCTS.items()
    for policy, offer in each.policies.items()
    for version in offer.versions
]


@pytest.mark.parametrize(("product", "version", "policy"), OFFERS, ids=str)
def test_every_offer_is_a_policy(product, version, policy, tmp_path):
    """What the table offers loads, is the kind it says, and is the cell of that kind without a product."""
    offer = PRODUCTS[product].policies[policy]
    router = {"product": product, "version": version, "policy": policy}
    one = cell(router, tmp_path)
    assert one.resolved["router"]["policy"]["kind"] == offer.kind
    parameters = {**offer.defaults.get(version, {}), **offer.fixed}
    assert one.hash == cell({"policy": {"kind": offer.kind, **parameters}}, tmp_path).hash
    assert VALIDATOR.is_valid({**BASE, "router": router})


def test_the_table_knows_its_own_versions():
    """Every version that an offer names is one of the product's, and stands in one list only."""
    members = registry.scan(registry.POLICY)
    for product in PRODUCTS.values():
        for offer in product.policies.values():
            lists = [*offer.versions, *offer.inside, *offer.other_rule]
            assert len(set(lists)) == len(lists)
            assert set(lists) <= set(product.versions)
            assert set(offer.defaults) <= set(offer.versions)
            if not offer.kind:
                assert not (offer.versions)
                assert not (offer.inside)
                continue
            fields = {field.name for field in registry.fields(members[offer.kind])}
            assert {*offer.fixed, *offer.option_versions} <= fields
            assert {name for each in offer.defaults.values() for name in each} <= fields


def test_the_command_line_of_sglang_router_refuses_consistent_hashing(tmp_path):
    """Slime issue 1469: sglang-router 0.3.1 takes random, round_robin, cache_aware, power_of_two and manual."""
    taken = {name for name, offer in PRODUCTS["sglang-router"].policies.items() if "0.3.1" in offer.versions}
    assert taken == {"random", "round_robin", "cache_aware", "power_of_two", "manual"}
    router = {"product": "sglang-router", "version": "0.3.1", "policy": "consistent_hashing"}
    text = refused(router, tmp_path)
    assert "router.policy: the command line of sglang-router 0.3.1 refuses 'consistent_hashing'" in text
    assert "versions that have it: smg 1.13.0; slime 0.2.3, 0.2.4, 0.3.0, 0.3.1" in text
    assert "kind sglang.consistent_hashing" in text


@pytest.mark.parametrize(
    ("router", "words"),
    [
        ({"product": "sglang-roter", "policy": "random"}, "unknown product 'sglang-roter'; did you mean"),
        ({"product": "sglang-router", "version": "0.3", "policy": "random"}, "known: 0.2.3, 0.2.4, 0.3.0, 0.3.1"),
        ({"product": "sglang-router", "version": 0.3, "policy": "random"}, "a version is a text"),
        ({"version": "0.3.1", "policy": {"kind": "random"}}, "router.version: needs the product"),
        ({"product": "sglang-router", "policy": "cache_awre"}, "did you mean 'cache_aware'?"),
        ({"product": "sglang-router", "policy": {"cache_threshold": 1}}, "router.policy.kind: required key is missing"),
        ({"product": "sglang-router", "policy": ["random"]}, "must be the name of a policy"),
        (
            {"product": "sglang-router", "version": "0.3.0", "policy": "manual"},
            "sglang-router 0.3.0 has no policy 'manual'; versions that have it: sglang-router 0.3.1, 0.3.2; smg 1.13.0",
        ),
        (
            {"product": "sglang-router", "version": "0.3.1", "policy": {"kind": "manual", "assignment_mode": "random"}},
            "assignment_mode: not an option of manual of sglang-router 0.3.1; versions that have it: 0.3.2",
        ),
        (
            {"product": "sglang-router", "policy": {"kind": "cache_aware", "cache_treshold": 0.2}},
            "router.policy.cache_treshold: not an option of cache_aware of sglang-router 0.3.2; did you mean",
        ),
        ({"product": "sglang-router", "policy": {"kind": "power_of_two", "load": "requests"}}, "it has none"),
        ({"product": "smg", "version": "1.9.0", "policy": "cache_aware"}, "is not modelled; modelled: sglang-router"),
        ({"product": "vllm-router", "version": "0.1.12", "policy": "sticky_least_loaded"}, "vllm-router 0.1.17"),
        ({"product": "vllm-router", "policy": "kv_aware"}, "is not modelled; modelled: none"),
        ({"product": "slime", "version": "0.2.4", "policy": "slime_router"}, "slime 0.2.0, 0.2.1, 0.2.2, 0.2.3"),
        ({"product": "slime", "policy": {"kind": "manual", "over": "random"}}, "router.policy.over: not an option"),
        ({"product": "nemo-gym", "version": "0.5.0", "policy": "sha256_mod"}, "nemo-gym c84b7ed4b"),
    ],
)  # fmt: skip
def test_what_is_refused(router, words, tmp_path):
    """One line, at its key, that says what would do."""
    assert words in refused(router, tmp_path)


def test_the_default_policy_is_the_versions(tmp_path):
    """Without a policy it is the one that the product starts with; without a version the last one known."""
    kinds = [
        cell(router, tmp_path).resolved["router"]["policy"]["kind"]
        for router in (
            {"product": "sglang-router"},
            {"product": "nemo-gym", "version": "0.5.0"},
            {"product": "nemo-gym"},
        )
    ]
    assert kinds == ["sglang.cache_aware", "gym.counter", "gym.sha256_mod"]


def test_a_version_moves_an_output(tmp_path):
    """NeMo Gym counted sessions until 0.5.0, so they spread evenly; since c84b7ed4b it hashes them."""
    placed = {}
    for version in ("0.5.0", "c84b7ed4b"):
        log = replicate(cell({"product": "nemo-gym", "version": version}, tmp_path), 0)
        placed[version] = log.numpy("requests")["engine"].tolist()
    assert sorted(placed["0.5.0"].count(engine) for engine in range(4)) == [4, 4, 4, 4]
    assert placed["0.5.0"] != placed["c84b7ed4b"]


def test_an_older_version_sends_misses_elsewhere(tmp_path):
    """sglang-router 0.2.3 takes the smallest tree and 0.3.2 the least loaded engine: placements differ."""
    placed = {}
    for version in ("0.2.3", "0.3.2"):
        workload = {**BASE["workload"], "arrivals": {"kind": "poisson", "groups_per_s": 0.1}}
        found = cell({"product": "sglang-router", "version": version}, tmp_path, workload=workload)
        placed[version] = sorted(replicate(found, 0).numpy("requests")["engine"].tolist())
    assert len(set(placed["0.3.2"])) == 1
    assert len(set(placed["0.2.3"])) == 4


def test_arms_may_differ_in_the_version(tmp_path):
    """The default that sglang-router 0.3.1 halved: seconds between eviction passes."""
    arms = {"new": {}, "old": {"router": {"version": "0.3.0"}}}
    router = {"product": "sglang-router", "version": "0.3.1"}
    found = load(router, tmp_path, arms=arms).arms
    seconds = {name: each.resolved["router"]["policy"]["eviction_interval_secs"] for name, each in found.items()}
    assert seconds == {"new": 60.0, "old": 120.0}
    assert VALIDATOR.is_valid({**BASE, "router": router, "arms": {"a": {"router": {"policy": "random"}}}})
