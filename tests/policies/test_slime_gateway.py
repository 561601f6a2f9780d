"""What slime's requests carry: tables from THUDM/slime at 624b824a8."""

import random

import pytest

from policies._products import PRODUCTS
from policies.slime.gateway import Gateway
from policies.slime.router import Router
from tests.policies.worlds import Desk

KEY = {"x_smg_routing_key": "session"}


@pytest.mark.parametrize("over", ["sglang.consistent_hashing", "smg.consistent_hashing"])
def test_consistent_hashing_gets_the_key(over):
    """The built-in generation sends it, by the policy's name: one engine for the session, whatever runs there."""
    desk = Desk(Gateway(over=over), 0, 0, 0)
    home = desk.choose(**KEY)
    assert home[1] == "routing_key_hit"
    desk.load(*(9 if place == home[0] else 0 for place in range(3)))
    assert desk.choose(**KEY) == home


@pytest.mark.parametrize("over", ["sglang.manual", "sglang.cache_aware", "round_robin", "random"])
def test_other_policies_get_none(over):
    """manual, too: its table of keys stays empty, and each turn is placed by chance."""
    policy = Gateway(over=over)
    assert policy.key_headers == ()
    desk = Desk(policy, 0, 0, 0)
    branches = {desk.choose(**KEY)[1] for _ in range(3)}
    assert branches <= {"no_key", "miss", "hit", "turn", "random"}


def test_the_adapters_send_it_to_every_policy():
    """With the agent adapters manual remembers; the id "default" is no key."""
    policy = Gateway(over="sglang.manual", agent_adapter=True)
    assert policy.key_headers == ("x-smg-routing-key",)
    desk = Desk(policy, 0, 0, 0)
    assert [desk.choose(**KEY)[1] for _ in range(2)] == ["new_key", "known_key"]
    assert [desk.choose(x_smg_routing_key="default")[1] for _ in range(2)] == ["no_key", "no_key"]


def test_a_dead_engine_leaves_the_rest_alone():
    """What the policy below hears is what it would hear alone: counts, failure, return."""
    desk = Desk(Gateway(over="sglang.manual", agent_adapter=True), 0, 0)
    home, request = desk.send(**KEY)
    desk.up(*(place != home for place in range(2)))
    assert desk.choose(**KEY) == (1 - home, "moved_key")
    desk.up(True, True)
    assert desk.choose(**KEY) == (home, "known_key")
    desk.end(home, request)


def test_over_must_be_a_policy_of_the_gateway():
    """No policy stands below itself, and what is none is refused."""
    for wrong in ("slime.gateway", "smg.sticky_override", "nothing", "_manual"):
        with pytest.raises(ValueError, match="^over must be"):
            Gateway(over=wrong)


def test_slime_has_thresholds_of_its_own():
    """From 0.2.3 on 10 and 1.2 where the gateway has 64 and 1.5: a pool 11 requests apart counts as uneven."""
    prompt = ((1, 100),)
    for offered, branch in ((PRODUCTS["slime"].policies["cache_aware"].defaults["0.3.1"], "imbalanced"), ({}, "hit")):
        desk = Desk(Gateway(**offered), 0, 0)
        home, _ = desk.choose(desk.request(prompt))
        desk.load(*(11 if place == home else 0 for place in range(2)))
        assert desk.choose(desk.request(prompt))[1] == branch
    assert "0.2.2" not in PRODUCTS["slime"].policies["cache_aware"].defaults
    with pytest.raises(ValueError, match=r"^balance_abs_threshold is no parameter of round_robin"):
        Gateway(over="round_robin", balance_abs_threshold=10)


@pytest.mark.parametrize("seed", range(20))
def test_the_radix_tree_middleware_changes_no_placement(seed):
    """Pull request 1735: the former router decides alike with and without it, whatever the loads and failures."""
    draw = random.Random(seed)
    desks = [Desk(Router(radix_tree_middleware=on), 0, 0, 0, 0) for on in (False, True)]
    for _ in range(60):
        loads = [draw.randrange(4) for _ in range(4)]
        up = [draw.random() < 0.8 for _ in range(4)]
        content = ((draw.randrange(3), 50), (draw.randrange(10), draw.randrange(1, 50)))
        choices = []
        for desk in desks:
            desk.load(*loads)
            desk.up(*up)
            choices.append(desk.choose(desk.request(content)))
        assert choices[0] == choices[1]
