"""Decision tables and laws of the policies that belong to no product."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies._prefix_index import PrefixIndex
from policies.bounded_loads import BoundedLoads
from policies.dedicated import Dedicated
from policies.modulo import Modulo
from policies.rendezvous import Rendezvous
from policies.sticky_least_loaded import StickyLeastLoaded
from policies.weighted import Weighted
from tests.policies.worlds import Desk, ask, fleet_of

KEYS = [f"key-{number}" for number in range(400)]


def homes(desk):
    return {key: desk.choose(x_session_id=key)[0] for key in KEYS}


# Rendezvous


def test_rendezvous_ranks_each_engine():
    """A failed engine's keys spread over all others, no other key moves, and they return."""
    desk = Desk(Rendezvous(), *[0] * 5)
    before = homes(desk)
    desk.up(True, True, False, True, True)
    during = homes(desk)
    assert {key for key in KEYS if during[key] != before[key]} == {key for key in KEYS if before[key] == 2}
    assert {during[key] for key in KEYS if before[key] == 2} == {0, 1, 3, 4}
    desk.up(True, True, True, True, True)
    assert homes(desk) == before


def test_rendezvous_gives_a_joining_engine_its_share():
    """A join takes about 1/N of the keys, all for itself; a leave gives them back."""
    desk = Desk(Rendezvous(), *[0] * 4)
    before = homes(desk)
    joined = desk.join()
    after = homes(desk)
    moved = [key for key in KEYS if after[key] != before[key]]
    assert len(moved) / len(KEYS) == pytest.approx(1 / 5, abs=0.08)
    assert {after[key] for key in moved} == {joined.index}
    desk.leave(joined.index)
    assert homes(desk) == before


def test_rendezvous_is_even_in_the_mean():
    """Counts of 400 keys on 4 engines are those of a multinomial: within 4 standard deviations of 100."""
    placed = list(homes(Desk(Rendezvous(), 0, 0, 0, 0)).values())
    assert all(abs(placed.count(place) - 100) < 4 * (400 * 3 / 16) ** 0.5 for place in range(4))


@pytest.mark.parametrize("policy", [Rendezvous(), Modulo(), BoundedLoads()])
def test_without_a_key_or_an_engine(policy):
    """Keyless requests take any engine (the least loaded under a bound); with none available nothing is chosen."""
    desk = Desk(policy, 0, 0)
    assert desk.choose() == (0, "no_key")
    assert desk.tied == ([] if isinstance(policy, BoundedLoads) else [0, 1])
    desk.up(False, False)
    assert desk.choose(x_session_id="a") == (None, "no_engine")


def test_two_headers_may_hold_the_key():
    """The routing key is preferred to the session id, and both are the same string."""
    desk = Desk(Rendezvous(), *[0] * 8)
    assert desk.choose(x_session_id="a") == desk.choose(x_smg_routing_key="a", x_session_id="b")


# Modulo


def test_modulo_and_its_failures():
    """The engine down: its keys go to the next in order, are refused, or all keys are hashed over those left."""
    desks = {mode: Desk(Modulo(mode), 0, 0, 0) for mode in ("next", "refuse", "rehash")}
    before = homes(desks["next"])
    assert all(homes(desk) == before for desk in desks.values())
    for desk in desks.values():
        desk.up(True, True, False)
    assert homes(desks["next"]) == {key: 0 if home == 2 else home for key, home in before.items()}
    assert homes(desks["refuse"]) == {key: None if home == 2 else home for key, home in before.items()}
    changed = sum(homes(desks["rehash"])[key] != before[key] for key in KEYS if before[key] != 2)
    assert changed / len(KEYS) == pytest.approx(1 / 3, abs=0.1)


def test_next_in_order_skips_more_than_one():
    """With only the first engine left it takes everything, wrapping around."""
    desk = Desk(Modulo(), 0, 0, 0)
    desk.up(True, False, False)
    assert set(homes(desk).values()) == {0}


# Bounded loads


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=120), st.sampled_from([1.0, 1.25, 2.0]))
def test_no_engine_exceeds_the_bound(steps, c):
    """After each dispatch the chosen engine holds at most c times the average, rounded up."""
    desk = Desk(BoundedLoads(c=c), 0, 0, 0, 0)
    sent = []
    for key, ends in steps:
        if ends and sent:
            desk.end(*sent.pop(0))
        sent.append(desk.send(x_session_id=f"k{key}"))
        loads = [engine.in_flight for engine in desk.fleet.engines]
        assert loads[sent[-1][0]] <= math.ceil(c * sum(loads) / 4)


def test_one_key_spills_clockwise():
    """With c = 1 four requests of one key may hold one an engine: 1/4, 2/4, 3/4 and 4/4, rounded up."""
    desk = Desk(BoundedLoads(c=1.0), 0, 0, 0, 0)
    places = [desk.send(x_session_id="a")[0] for _ in range(5)]
    assert sorted(places[:4]) == [0, 1, 2, 3]
    assert places[4] == places[0]


def test_a_load_at_the_bound_is_full():
    """Two engines, 1.25 * 8 / 2 = 5: a load of 4 may become 5, a load of 5 not 6."""
    desk = Desk(BoundedLoads(), 0, 0)
    own = desk.choose(x_session_id="a")[0]
    desk.load(*((4, 3) if own == 0 else (3, 4)))
    assert desk.choose(x_session_id="a") == (own, "key")
    desk.load(*((5, 2) if own == 0 else (2, 5)))
    assert desk.choose(x_session_id="a") == (1 - own, "spill")


def test_the_bound_is_exact():
    """Ten requests on one engine with c = 1.1: 11 may be held, though 1.1 * 10 is a little more in floats."""
    desk = Desk(BoundedLoads(c=1.1), 0, 0)
    own = desk.choose(x_session_id="a")[0]
    desk.load(*((11, 8) if own == 0 else (8, 11)))
    assert desk.choose(x_session_id="a") == (1 - own, "spill")


def test_no_room_anywhere():
    """Below c = 1 nobody may be within the bound: the key's own engine serves, available or the next on the ring."""
    desk = Desk(BoundedLoads(c=0.5), 0, 0)
    own = desk.choose(x_session_id="a")[0]
    desk.load(5, 5)
    assert desk.choose(x_session_id="a") == (own, "spill")
    desk.up(own != 0, own != 1)
    assert desk.choose(x_session_id="a") == (1 - own, "spill")


def test_the_ring_of_bounded_loads_moves_one_share():
    """A join takes about 1/N of the keys, all for itself, and a leave gives them back."""
    desk = Desk(BoundedLoads(), *[0] * 4)
    before = homes(desk)
    joined = desk.join()
    after = homes(desk)
    moved = {key for key in KEYS if after[key] != before[key]}
    assert len(moved) / len(KEYS) == pytest.approx(1 / 5, abs=0.1)
    assert {after[key] for key in moved} == {joined.index}
    desk.leave(joined.index)
    assert homes(desk) == before


def test_a_ring_needs_points():
    """No point, no ring."""
    with pytest.raises(ValueError, match=r"^points must be one or more"):
        BoundedLoads(points=0)


# Dedicated engines


def test_a_session_has_an_engine_to_itself():
    """Three sessions take three engines, keep them whatever the load, and a fourth shares."""
    desk = Desk(Dedicated(), 0, 0, 0)
    assert [desk.choose(x_session_id=key) for key in "abc"] == [(0, "taken"), (1, "taken"), (2, "taken")]
    desk.load(9, 0, 0)
    assert desk.choose(x_session_id="a") == (0, "own_engine")
    assert desk.choose(x_session_id="d") == (0, "shared")
    assert desk.tied == [0, 1, 2]


def test_a_full_fleet_may_refuse():
    """With ``refuse`` the second session on one engine fails until the first has been idle for more than its time."""
    desk = Desk(Dedicated(when_full="refuse", idle_s=10.0), 0)
    assert desk.choose(x_session_id="a", now=0.0) == (0, "taken")
    assert desk.choose(x_session_id="b", now=10.0) == (None, "all_taken")
    assert desk.choose(x_session_id="b", now=10.5) == (0, "taken")


def test_a_session_in_flight_is_not_idle():
    """A request that runs for longer than the idle time keeps the engine; the time counts from its end."""
    desk = Desk(Dedicated(when_full="refuse", idle_s=10.0), 0)
    one, two = desk.send(x_session_id="a"), desk.send(x_session_id="a")
    assert desk.choose(x_session_id="b", now=50.0) == (None, "all_taken")
    desk.end(*one)
    desk.end(*two)
    assert desk.choose(x_session_id="b", now=60.0) == (None, "all_taken")
    assert desk.choose(x_session_id="b", now=60.5) == (0, "taken")


def test_a_keyless_request_is_a_session_of_its_own():
    """It takes an engine until its answer ends."""
    desk = Desk(Dedicated(when_full="refuse"), 0)
    sent = desk.send()
    assert desk.choose() == (None, "all_taken")
    desk.end(*sent)
    assert desk.choose() == (0, "taken")


def test_dedicated_engines_fail_leave_and_return():
    """The session of an engine that is down moves for good; one whose engine left is new; counts follow."""
    desk = Desk(Dedicated(sessions_per_engine=2), 0, 0)
    sent = desk.send(x_session_id="a")
    assert sent[0] == 0
    desk.up(False, True)
    assert desk.choose(x_session_id="a") == (1, "taken")
    desk.up(True, True)
    assert desk.choose(x_session_id="a") == (1, "own_engine")
    assert desk.choose(x_session_id="b") == (0, "taken")
    gone = desk.leave(1)
    assert desk.choose(x_session_id="a") == (0, "taken")
    desk.end(*sent)
    desk.join(gone)
    assert desk.choose(x_session_id="c") == (1, "taken")
    desk.up(False, False)
    assert desk.choose(x_session_id="a") == (None, "no_engine")


def test_an_answer_after_the_engine_left():
    """A request that ends on an engine that left changes nothing."""
    desk = Desk(Dedicated(), 0, 0)
    index, request = desk.send(x_session_id="a")
    gone = desk.leave(index)
    desk.policy.completed(request, gone)
    desk.policy.dispatched(desk.request(x_session_id="z"), gone)
    assert desk.choose(x_session_id="a") == (1, "taken")


# Weighted scores


def prompt(*spans):
    return ask(0, spans)


def test_a_prefix_outweighs_a_load():
    """Half of the prompt at weight 2 makes 1: as much as being the least loaded, and a longer match wins."""
    desk = Desk(Weighted(), 0, 1, 1)
    assert desk.choose(prompt((1, 60))) == (0, "score")
    desk.load(5, 0, 5)
    assert desk.choose(prompt((1, 60), (2, 60))) == (0, "score")  # 1 + 0 against 0 + 1: a tie
    assert desk.tied == [0, 1]
    assert desk.choose(prompt((1, 60), (3, 61))) == (1, "score")


def test_load_is_scaled_between_extremes():
    """Loads 0, 1, 4 score 1, 0.75 and 0; two matches of 1/8 decide for the second: 0.25 more."""
    desk = Desk(Weighted(prefix=2.1), 1, 0, 4)
    desk.choose(prompt((1, 10)))
    desk.load(0, 1, 4)
    assert desk.choose(prompt((1, 10), (2, 70))) == (1, "score")


def test_events_replace_the_guess():
    """Engines that tell what they cache are believed, also when that is nothing."""
    desk = Desk(Weighted(requests=0.0), 0, 0)
    desk.choose(prompt((1, 10)))
    for engine, tokens in zip(desk.fleet.engines, (0, 5), strict=True):
        engine.cached_tokens = dict.fromkeys([((1, 10),)], tokens).__getitem__
    assert desk.choose(prompt((1, 10))) == (1, "score")


def test_reported_scores():
    """The queue is scaled, KV use is not, and an engine without a report counts as empty."""
    desk = Desk(Weighted(prefix=0.0, requests=0.0, waiting=1.0, kv_share=1.0), 0, 0, 0)
    desk.report(0, waiting=0, kv_share=0.9)  # 1 + 0.1
    desk.report(1, waiting=2, kv_share=0.2)  # 0.8 + 0.8
    desk.report(2, waiting=10, kv_share=0.0)  # 0 + 1
    assert desk.choose() == (1, "score")
    desk.fleet.engines[2].report = None  # 1 + 1
    assert desk.choose() == (2, "score")


def test_tokens_and_affinity():
    """A key returns to its engine while affinity outweighs the tokens in flight there; leaving frees it of them."""
    desk = Desk(Weighted(prefix=0.0, requests=0.0, tokens=1.0, affinity=1.5), 0, 0)
    sent = desk.send(x_session_id="a")
    assert desk.choose(x_session_id="b")[0] == 1
    assert desk.choose(x_session_id="a")[0] == 0
    desk.end(*sent)
    desk.choose()
    assert desk.tied == [0, 1]
    desk.up(False, True)
    assert desk.choose(x_session_id="a")[0] == 1
    desk.join(desk.leave(0))
    desk.up(False, False)
    assert desk.choose() == (None, "no_engine")


def test_temperature_draws_by_score():
    """Scores 1 and 0 at temperature 0.5 have odds of exp(2) to 1; equal scores are a plain tie."""
    desk = Desk(Weighted(prefix=0.0, temperature=0.5), 0, 3)
    desk.choose()
    assert desk.weights == pytest.approx([1.0, 0.1353352832])
    desk.load(3, 3)
    desk.choose()
    assert desk.weights is None


# Sticky sessions that let go


@pytest.mark.parametrize(("loads", "answer"), [((4, 2), (0, "known_key")), ((5, 2), (1, "moved_key"))])
def test_the_margin_of_one_key(loads, answer):
    """A key stays while its engine is within 2 requests of the least loaded, equality included."""
    desk = Desk(StickyLeastLoaded(count="requests", break_margin=2), 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_key")
    desk.load(*loads)
    assert desk.choose(x_session_id="a") == answer


@pytest.mark.parametrize(
    ("loads", "answer"),
    [((1, 1, 9), (1, "known_key")), ((1, 4, 10), (0, "moved_key")), ((9, 9, 18), (1, "known_key"))],
)
def test_the_margins_of_the_pool(loads, answer):
    """Beyond 8 requests and a factor of 2, both strictly, any key may be placed anew."""
    policy = StickyLeastLoaded(count="requests", balance_abs_threshold=8, balance_rel_threshold=2.0)
    desk = Desk(policy, 1, 0, 1)
    assert desk.choose(x_session_id="a") == (1, "new_key")
    desk.load(*loads)
    assert desk.choose(x_session_id="a") == answer


def test_a_moved_key_goes_where_requests_are_fewest():
    """Counting sessions, engine 0 has fewer than engine 1 once its own has left, and most requests all the same."""
    desk = Desk(StickyLeastLoaded(count="sessions", break_margin=2), 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_key")
    assert desk.choose(x_session_id="b") == (1, "new_key")
    desk.load(9, 1)
    assert desk.choose(x_session_id="a") == (1, "moved_key")


@pytest.mark.parametrize("name", ["break_margin", "balance_abs_threshold"])
def test_margins_are_not_negative(name):
    """Below zero a margin means nothing."""
    with pytest.raises(ValueError, match=f"^{name} must be zero or more"):
        StickyLeastLoaded(**{name: -1})


# The index of prompts sent


def test_the_index_matches_whole_blocks():
    """37 shared tokens are two blocks of 16; beyond the longest head nothing counts; what is gone is gone."""
    one, two = fleet_of(2).engines
    index = PrefixIndex(16, longest_tokens=64)
    index.add(((1, 37), (2, 50)), one)
    index.add(((1, 37), (3, 50)), two)
    assert index.match(((1, 40),)) == {one: 32, two: 32}
    assert index.match(((1, 37), (2, 50))) == {one: 64, two: 32}
    assert index.match(((1, 15),)) == {}
    index.forget([one])
    assert index.match(((1, 37), (2, 50))) == {two: 32}


def test_the_index_forgets_by_time():
    """Ten seconds after it was last sent a prompt is gone, with the prefix that nobody else keeps up."""
    (one,) = fleet_of(1).engines
    index = PrefixIndex(ttl_s=10.0)
    index.add(((1, 5), (2, 5)), one, 0.0)
    index.add(((1, 5), (3, 5)), one, 6.0)
    index.add(((1, 5), (2, 5)), one, 9.0)
    assert index.match(((1, 5), (2, 5)), 15.9) == {one: 10}
    assert index.match(((1, 5), (3, 5)), 16.0) == {one: 5}
    assert index.match(((1, 5), (2, 5)), 18.9) == {one: 10}
    assert index.match(((1, 5), (2, 5)), 19.0) == {}
    assert index.size(one) == 0


def test_the_index_has_a_capacity():
    """64 tokens and a 32nd more: a third prompt of 33 drives out the oldest."""
    (one,) = fleet_of(1).engines
    index = PrefixIndex(capacity_tokens=64)
    for source in (1, 2):
        index.add(((source, 33),), one)
    assert index.size(one) == 66
    index.add(((3, 1),), one)
    assert index.size(one) == 34
    assert index.match(((1, 33),)) == {}
    assert index.match(((2, 33),)) == {one: 33}
