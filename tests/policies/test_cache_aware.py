"""Edges of the cache-aware policies that recorded sequences do not reach."""

import pytest

from policies.sglang.cache_aware import CacheAware as SglangCacheAware
from policies.vllm.cache_aware import CacheAware as VllmCacheAware
from tests.policies.worlds import Desk, Picks, ask, fleet_of, set_available

POLICIES = pytest.mark.parametrize("cls", [SglangCacheAware, VllmCacheAware])


def world(policy, loads=(0, 0, 0)):
    """Asks a started policy for engine and branch; the prompt is a head of 30 tokens and a tail of its own."""
    fleet = fleet_of(len(loads), loads)
    policy.start(fleet)

    def choose(head, tail, tokens=70, now=0.0):
        request = ask(tail, ((head, 30), (1000 + tail, tokens)), "chat")
        engine, branch, matched = policy.choose(request, fleet, now, Picks(0))
        return engine.index, branch, matched

    return fleet, choose


@POLICIES
def test_the_threshold_is_strict(cls):
    """30 of 100 shared tokens are not more than 0.3, 30 of 99 are."""
    _, choose = world(cls())
    choose(0, 1)
    assert choose(0, 2)[1:] == ("miss", 30)
    assert choose(0, 3, tokens=69)[1:] == ("hit", 30)


@POLICIES
@pytest.mark.parametrize(("loads", "branch"), [((3, 6, 5), "miss"), ((3, 7, 5), "imbalanced"), ((9, 13, 9), "miss")])
def test_the_pool_is_uneven_by_both_measures(cls, loads, branch):
    """More than 3 requests and more than a factor of 1.5 between the extremes, both strictly."""
    _, choose = world(cls(balance_abs_threshold=3), loads)
    assert choose(0, 1) == (0, branch, 0)


@POLICIES
def test_uneven_requests_are_remembered(cls):
    """What an uneven pool sends to the least loaded engine is inserted for it."""
    fleet, choose = world(cls(balance_abs_threshold=3), (9, 1, 9))
    assert choose(0, 1)[:2] == (1, "imbalanced")
    fleet.engines[1].in_flight = 9
    assert choose(0, 1)[:2] == (1, "hit")


def test_sglang_deletes_an_unavailable_owner():
    """The owner that is down loses all it had; the first available engine serves, and nothing is inserted."""
    fleet, choose = world(SglangCacheAware(), (1, 0, 0))
    assert choose(0, 1)[:2] == (1, "miss")
    set_available(fleet, [True, False, True])
    assert choose(0, 1) == (0, "stale_owner", 100)
    set_available(fleet, [True, True, True])
    assert choose(0, 1) == (1, "miss", 0)


def test_vllm_shares_a_prefix_among_all_who_have_it():
    """The least loaded tenant serves; if no tenant is available, the least loaded of all becomes one."""
    fleet, choose = world(VllmCacheAware(), (0, 1, 2))
    assert choose(0, 1)[:2] == (0, "miss")
    fleet.engines[0].in_flight = 5
    set_available(fleet, [False, True, True])
    assert choose(0, 1) == (1, "miss", 100)
    set_available(fleet, [True, True, True])
    assert choose(0, 1) == (1, "hit", 100)
    fleet.engines[1].in_flight = 6
    assert choose(0, 1) == (0, "hit", 100)


def test_vllm_without_tokens_is_least_load():
    """A router that cannot tokenize remembers nothing."""
    _, choose = world(VllmCacheAware(can_tokenize=False), (2, 1, 2))
    assert choose(0, 1) == choose(0, 1) == (1, "not_tokenized", 0)


@POLICIES
def test_eviction_waits_for_its_pass(cls):
    """An oversized tree keeps everything until the interval is over, then the oldest prompt goes."""
    _, choose = world(cls(max_tree_size=200, eviction_interval_secs=60))
    for head in (1, 2, 3):
        choose(head, head)
    assert choose(1, 1, now=59.9)[1] == "hit"
    assert choose(2, 2, now=60.0)[1] == "miss"
    assert choose(1, 1, now=61.0)[1] == "hit"


def test_characters_fill_the_tree_of_sglang():
    """The size of the tree counts characters: four a token take four times the room."""
    policy = SglangCacheAware(max_tree_size=1200, eviction_interval_secs=1)
    fleet = fleet_of(1)
    policy.start(fleet)

    def matched(head, now):
        request = ask(head, ((head, 100),))
        request.chars_per_token = 4.0
        return policy.choose(request, fleet, now, Picks(0))[2]

    assert [matched(head, 0.0) for head in (1, 2, 3, 4)] == [0, 0, 0, 0]
    assert [matched(head, 1.0) for head in (2, 3, 4, 1)] == [100, 100, 100, 0]


@POLICIES
def test_no_eviction_without_an_interval(cls):
    """Interval 0 switches the passes off."""
    _, choose = world(cls(max_tree_size=1, eviction_interval_secs=0))
    choose(1, 1)
    assert choose(1, 1, now=1e9)[1] == "hit"


@POLICIES
def test_an_engine_that_left_owns_nothing(cls):
    """Leaving deletes an engine from the tree; a new one starts with nothing."""
    policy = cls()
    fleet, choose = world(policy, (0, 1, 1))
    assert choose(0, 1)[0] == 0
    gone = fleet.engines.pop(0)
    fleet.available[:] = fleet.engines
    policy.left(gone, fleet)
    policy.joined(gone, fleet)
    assert choose(0, 1)[1:] == ("miss", 0)


def test_misses_went_to_the_smallest_tree():
    """Up to 0.2.3 a queue of 60 does not count, nor that the engine is down: sgl-project/sglang issue 14305."""
    desk = Desk(SglangCacheAware(miss="smallest_tree"), 0, 0)
    desk.choose(desk.request(((1, 1000),)))
    owner = 1 - desk.choose(desk.request(((2, 100),)))[0]
    small = 1 - owner
    desk.load(*((60, 0) if small == 0 else (0, 60)))
    # Nine more misses of 100 fill its tree up to the other's 1,000; all of them go there, to the back of its queue.
    assert [desk.choose(desk.request(((3 + each, 100),)))[0] for each in range(9)] == [small] * 9
    desk.choose(desk.request(((20, 100),)))
    assert desk.tied == [0, 1]
    now = Desk(SglangCacheAware(), 60, 0)
    assert {now.choose(now.request(((each, 100),)))[0] for each in range(9)} == {1}


def test_the_smallest_tree_may_be_down():
    """Then the first available engine serves, and nothing is noted for it."""
    desk = Desk(SglangCacheAware(miss="smallest_tree"), 0, 0, 0)
    desk.choose(desk.request(((1, 300),)))
    desk.up(True, False, True)
    for each in range(2):
        assert desk.choose(desk.request(((5, 50),))) == (0, "smallest_down"), each
