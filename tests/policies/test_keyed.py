"""Edges of the policies that route by key or by load."""

import hashlib

import pytest

from policies._protocol import Report, pick_first
from policies.gym.sha256_mod import Sha256Mod
from policies.power_of_two import PowerOfTwo
from policies.sglang.consistent_hashing import ConsistentHashing as Modulo
from policies.smg.consistent_hashing import ConsistentHashing as Ring
from policies.sticky_least_loaded import StickyLeastLoaded
from policies.vllm.consistent_hash import ConsistentHash
from policies.vllm.sticky_least_loaded import StickyLeastLoaded as VllmSticky
from tests.policies.worlds import Picks, ask, fleet_of, set_available


def started(policy, loads):
    fleet = fleet_of(len(loads), loads)
    policy.start(fleet)

    def choose(now=0.0, **headers):
        engine, branch, _ = policy.choose(ask(0, **headers), fleet, now, Picks(0))
        return (engine.index if engine else None), branch

    return fleet, choose


def test_sha256_takes_the_first_eight_bytes():
    """Big endian, modulo the configured number of engines; an engine that is down is not replaced."""
    fleet, choose = started(Sha256Mod(), (0,) * 7)
    place = int(hashlib.sha256(b"session").hexdigest()[:16], 16) % 7
    assert choose(x_session_id="session") == (place, "key")
    set_available(fleet, [index != place for index in range(7)])
    assert choose(x_session_id="session") == (None, "unavailable")


def test_a_sticky_session_stays():
    """A known key keeps its engine whatever the load; new keys go to fewest sessions."""
    fleet, choose = started(StickyLeastLoaded(), (0, 0, 0))
    assert [choose(x_session_id=key) for key in "abcab"] == [
        (0, "new_key"),
        (1, "new_key"),
        (2, "new_key"),
        (0, "known_key"),
        (1, "known_key"),
    ]
    fleet.engines[0].in_flight = 100
    assert choose(x_session_id="a") == (0, "known_key")
    assert choose() == (0, "no_key")


def test_a_sticky_session_moves_for_good():
    """A session whose engine is down is placed anew and does not return."""
    fleet, choose = started(StickyLeastLoaded(), (0, 0))
    assert choose(x_session_id="a") == (0, "new_key")
    set_available(fleet, [False, True])
    assert choose(x_session_id="a") == (1, "moved_key")
    set_available(fleet, [True, True])
    assert choose(x_session_id="a") == (1, "known_key")
    assert choose(x_session_id="b") == (0, "new_key")


def test_an_idle_session_is_forgotten():
    """After ``idle_s`` without a request the session no longer counts, and is new when it returns."""
    _, choose = started(StickyLeastLoaded(idle_s=100), (0, 0))
    assert choose(now=0.0, x_session_id="a") == (0, "new_key")
    assert choose(now=50.0, x_session_id="b") == (1, "new_key")
    assert choose(now=99.0, x_session_id="b") == (1, "known_key")
    assert choose(now=100.0, x_session_id="c") == (0, "new_key")
    assert choose(now=100.0, x_session_id="a") == (0, "new_key")


def test_sessions_may_be_kept_for_ever():
    """Without ``idle_s`` nothing is forgotten."""
    _, choose = started(StickyLeastLoaded(idle_s=None), (0, 0))
    choose(x_session_id="a")
    assert choose(now=1e9, x_session_id="a") == (0, "known_key")


def test_sticky_ties_by_sessions_then_order():
    """Counting requests, equal loads go to the engine with fewest sessions."""
    fleet, choose = started(StickyLeastLoaded(count="requests", tie="sessions"), (0, 0, 1))
    assert [choose(x_session_id=key)[0] for key in "abc"] == [0, 1, 0]
    fleet.engines[2].in_flight = 0
    assert choose(x_session_id="d") == (2, "new_key")


@pytest.mark.parametrize(("load", "favourite"), [("requests", 1), ("reports", 0), ("reports_only", 0)])
def test_power_of_two_reads_its_signal(load, favourite):
    """Own counts and reported tokens may disagree; the parameter says which is believed."""
    fleet, choose = started(PowerOfTwo(load=load), (5, 1))
    for engine, tokens in zip(fleet.engines, (100, 200), strict=True):
        engine.report = Report(0.0, 1, 0, 0.5, tokens)
    assert choose() == (favourite, "better_of_two")


@pytest.mark.parametrize(("load", "first_loses"), [("reports", True), ("reports_only", False)])
def test_power_of_two_needs_both_reports(load, first_loses):
    """With one report missing, own counts decide, or, where none are kept, the first drawn."""
    policy, fleet = PowerOfTwo(load=load), fleet_of(2, (5, 1))
    fleet.engines[1].report = Report(0.0, 1, 0, 0.5, 10)
    chosen = policy.choose(ask(0), fleet, 0.0, pick_first)[0]
    assert chosen.index == (1 if first_loses else 0)


def test_target_counts_within_what_the_router_hands_over():
    """0.3.2 numbers the available engines, 1.13.0 all of them and refuses one that is down."""
    for policy, answers in [(Modulo(), [1, 2, None]), (Ring(), [None, 1, 2])]:
        fleet, choose = started(policy, (0, 0, 0))
        set_available(fleet, [False, True, True])
        assert [choose(x_smg_target_worker=target)[0] for target in "012"] == answers


def test_long_keys_are_no_keys_on_the_ring():
    """Of more than 128 bytes, not characters, a key is absent; 0.3.2 has no limit but reads only ASCII."""
    _, choose = started(Ring(), (0,) * 4)
    branches = {length: choose(x_smg_routing_key="é" * length)[1] for length in (30, 64, 65)}
    assert branches == {30: "routing_key_hit", 64: "routing_key_hit", 65: "random_fallback"}
    _, choose = started(Modulo(), (0,) * 4)
    assert choose(x_smg_routing_key="q" * 5000)[1] == "routing_key_hit"
    assert choose(x_smg_routing_key="é")[1] == "random_fallback"


def test_vllm_sends_orphans_to_the_first_available():
    """Keys of an engine that is down do not go to their next point but all to one engine."""
    fleet, choose = started(ConsistentHash(), (0,) * 4)
    homes = {key: choose(x_session_id=key)[0] for key in map(str, range(40))}
    set_available(fleet, [True, True, True, False])
    for key, home in homes.items():
        assert choose(x_session_id=key) == ((0, "first_available") if home == 3 else (home, "key"))
    assert len({choose() for _ in range(5)}) == 1


def test_headers_of_the_rings():
    """A target, an implicit key and none of them; with no engine available each is refused."""
    for policy in (Modulo(), Ring()):
        fleet, choose = started(policy, (0,) * 4)
        assert choose(cookie="c")[1] == "implicit_key_hit"
        assert choose(cookie="")[1] == choose()[1] == choose(cookie="é" * 65)[1] == "random_fallback"
        set_available(fleet, [False] * 4)
        assert choose(x_smg_routing_key="a") == (None, "no_healthy_workers")


def test_vllm_sessions_expire_at_a_sweep():
    """A session idle for its time counts until a sweep, which comes at most once a minute."""
    _, choose = started(VllmSticky(session_expiration_s=100.0), (0, 0))
    home = choose(now=0.0, x_session_id="a")[0]
    assert choose(now=1.0, x_session_id="b") == (1 - home, "new_session")
    assert choose(now=59.0, x_session_id="b") == (1 - home, "known_session")
    assert choose(now=99.0, x_session_id="a") == (home, "known_session")
    assert choose(now=158.0, x_session_id="b") == (1 - home, "known_session")
    assert choose(now=159.0, x_session_id="b") == (1 - home, "known_session")
    assert choose(now=258.0, x_session_id="a") == (home, "new_session")


def test_vllm_sessions_move_and_leave():
    """A session whose engine is down is placed anew for good, and one whose engine left is new."""
    policy = VllmSticky()
    fleet, choose = started(policy, (0, 0))
    home = choose(x_session_id="a")[0]
    set_available(fleet, [home != 0, home != 1])
    assert choose(x_session_id="a") == (1 - home, "moved_session")
    set_available(fleet, [True, True])
    assert choose(x_session_id="a") == (1 - home, "known_session")
    gone = next(engine for engine in fleet.engines if engine.index != home)
    fleet.engines.remove(gone)
    fleet.available[:] = fleet.engines
    policy.left(gone, fleet)
    assert choose(x_session_id="a") == (home, "new_session")
