"""Decision tables of smg's policies, where recorded decisions do not reach: reports, gRPC, lengths."""

import pytest

from policies.sglang.bucket import Bucket as SglangBucket
from policies.sglang.manual import Manual as SglangManual
from policies.sglang.prefix_hash import PrefixHash
from policies.smg.bucket import Bucket
from policies.smg.cache_aware import CacheAware
from policies.smg.least_load import LeastLoad
from policies.smg.manual import Manual
from policies.smg.passthrough import Passthrough
from policies.smg.power_of_two import PowerOfTwo
from policies.smg.prefix_hash import PrefixHash as SmgPrefixHash
from policies.smg.round_robin import RoundRobin
from policies.smg.sticky_override import StickyOverride
from tests.policies.worlds import Desk, ask

# A. least_load: (queued + credit) / throughput + 0.15 k / (1 - k)


def test_wait_is_queue_over_throughput():
    """8,000 tokens at 100 a second wait 80 s, 1,000 wait 10 s: the shorter wait serves, whatever is in flight."""
    desk = Desk(LeastLoad(), 0, 9)
    desk.report(0, queued_tokens=8000, kv_share=0.2, tokens_per_s=100.0)
    desk.report(1, queued_tokens=1000, kv_share=0.2, tokens_per_s=100.0)
    assert desk.choose() == (1, "least_wait")


def test_waiting_requests_stand_for_tokens():
    """An engine that does not count queued tokens is taken for 1,024 a waiting request."""
    desk = Desk(LeastLoad(), 0, 0)
    desk.report(0, waiting=8)
    desk.report(1, queued_tokens=8191)
    assert desk.choose() == (1, "least_wait")


def test_a_full_cache_is_a_wait():
    """Without queues KV usage of 0.8 costs 0.15 * 4 = 0.6 s, 0.9 costs 1.35 s, and 1.0 is taken for 0.999."""
    desk = Desk(LeastLoad(), 0, 0)
    desk.report(0, kv_share=0.9)
    desk.report(1, kv_share=0.8, queued_tokens=1000)  # 0.5 s more: 1.1 s
    assert desk.choose() == (1, "least_wait")
    desk = Desk(LeastLoad(), 0, 0)
    desk.report(0, kv_share=1.0)  # 149.85 s
    desk.report(1, queued_tokens=299_000)  # 149.5 s
    assert desk.choose() == (1, "least_wait")


def test_credit_lasts_until_the_next_report():
    """1,000 and 2,000 tokens at 100/s: after one request of 1,024 the first waits longer, until it reports again."""
    desk = Desk(LeastLoad(), 0, 0)
    desk.report(0, queued_tokens=1000, tokens_per_s=100.0)
    desk.report(1, queued_tokens=2000, tokens_per_s=100.0)
    assert [desk.choose()[0], desk.choose()[0]] == [0, 1]
    desk.report(0, at=10.0, queued_tokens=1000, tokens_per_s=100.0)
    assert desk.choose() == (0, "least_wait")


def test_grpc_credits_the_prompt():
    """Over gRPC a prompt of 10 tokens is credited as such: 1,000 + 10 still waits less than 2,000."""
    desk = Desk(LeastLoad(connection="grpc"), 0, 0)
    desk.report(0, queued_tokens=1000)
    desk.report(1, queued_tokens=2000)
    assert [desk.choose()[0], desk.choose()[0]] == [0, 0]


def test_a_missing_report_is_a_drain_time():
    """5 requests in flight at a peer's 2,000/s are 2.56 s; a peer with KV usage 0.9 waits 1.35 s."""
    desk = Desk(LeastLoad(), 0, 5)
    desk.report(0, kv_share=0.9)
    assert desk.choose() == (0, "least_wait")
    desk = Desk(LeastLoad(), 0, 2)
    desk.report(0, kv_share=0.9)
    assert desk.choose() == (1, "least_wait")  # 1.024 s


def test_ties_of_waits_and_of_counts_are_random():
    """Equal reports, and no reports at all, leave the choice to chance."""
    desk = Desk(LeastLoad(), 3, 1, 1)
    assert desk.choose() == (1, "least_wait")
    assert desk.tied == [1, 2]
    for place in range(3):
        desk.report(place)
    desk.choose()
    assert desk.tied == [0, 1, 2]


def test_the_cap_skips_and_refuses():
    """A reported queue of 1 and one request since reach a cap of 2; all at the cap: refused; no report: eligible."""
    desk = Desk(LeastLoad(max_waiting_requests=2), 0, 0)
    desk.report(0, waiting=1, tokens_per_s=1e9)
    desk.report(1, waiting=2)
    assert desk.choose() == (0, "least_wait")
    assert desk.choose() == (None, "at_the_cap")
    desk.fleet.engines[1].report = None
    assert desk.choose() == (1, "least_wait")


def test_an_engine_that_rejoins_has_no_credit():
    """Leaving forgets what was sent there."""
    desk = Desk(LeastLoad(), 0, 0)
    desk.report(0, queued_tokens=1000)
    desk.report(1, queued_tokens=1500)
    assert desk.choose()[0] == 0
    desk.join(desk.leave(0))
    assert desk.choose()[0] == 0


# B. power_of_two: which load the pair is compared by


@pytest.mark.parametrize(("metric", "chosen"), [("expected_wait", 0), ("requests", 1), ("least_requests", 1)])
def test_power_of_two_metrics(metric, chosen):
    """5 requests without a queue against 2 requests with 50,000 queued tokens."""
    desk = Desk(PowerOfTwo(metric), 5, 2)
    desk.report(0, kv_share=0.1, tokens_per_s=100.0)
    desk.report(1, queued_tokens=50_000, kv_share=0.1, tokens_per_s=100.0)
    assert desk.choose()[0] == chosen


def test_least_requests_looks_at_all():
    """No pair is drawn: the third of four, with fewest in flight, serves."""
    desk = Desk(PowerOfTwo("least_requests"), 4, 5, 1, 3)
    assert desk.choose() == (2, "least_requests")
    assert desk.tied == []


def test_equal_counts_go_by_wait():
    """With equal counts the reports decide, and without reports chance does."""
    desk = Desk(PowerOfTwo("requests"), 2, 2)
    desk.choose()
    assert desk.tied == [0, 1]
    desk.report(0, queued_tokens=100)
    desk.report(1, queued_tokens=50)
    assert desk.choose()[0] == 1


def test_power_of_two_with_one_engine_left():
    """One available engine serves, none refuses."""
    desk = Desk(PowerOfTwo(), 0, 0)
    desk.up(False, True)
    assert desk.choose() == (1, "only_one")
    desk.up(False, False)
    assert desk.choose() == (None, "no_engine")


def test_power_of_two_forgets_who_left():
    """An engine that rejoins with its old report has no credit."""
    desk = Desk(PowerOfTwo(), 0, 0)
    desk.report(0, queued_tokens=1000)
    desk.report(1, queued_tokens=1500)
    assert desk.choose()[0] == 0
    desk.join(desk.leave(0))
    assert desk.choose()[0] == 0


# C. passthrough


def test_passthrough_is_the_first_available():
    """The first in order whatever the load; the next while it is down; the first again; a joining one never."""
    desk = Desk(Passthrough(), 9, 0, 0)
    assert desk.choose() == (0, "first")
    desk.up(False, True, True)
    assert desk.choose() == (1, "first")
    desk.up(True, True, True)
    assert desk.choose() == (0, "first")
    desk.join()
    assert desk.choose() == (0, "first")
    desk.leave(0)
    assert desk.choose() == (1, "first")
    desk.up(False, False, False)
    assert desk.choose() == (None, "no_engine")


# D. round_robin


def test_the_cycle_goes_on_at_a_random_place():
    """From the first engine, in order; after a change from any available one, then in order again."""
    desk = Desk(RoundRobin(), 0, 0, 0)
    assert [desk.choose()[0] for _ in range(4)] == [0, 1, 2, 0]
    desk.up(True, False, True)
    assert desk.choose() == (0, "pool_changed")
    assert desk.tied == [0, 1]
    assert [desk.choose() for _ in range(3)] == [(2, "turn"), (0, "turn"), (2, "turn")]


# E. prefix_hash


def test_prefix_hash_needs_tokens():
    """sglang-router 0.3.2 over HTTP refuses even with every engine idle; with none available there is no engine."""
    desk = Desk(PrefixHash(), 0, 0)
    assert desk.choose(x_smg_routing_key="k") == (None, "no_tokens")
    desk.up(False, False)
    assert desk.choose() == (None, "no_engine")


@pytest.mark.parametrize("policy", [PrefixHash, SmgPrefixHash])
def test_heads_over_grpc(policy):
    """Prompts that share the first 256 tokens have one engine; one that differs in the 256th may have another."""
    desk = Desk(policy(connection="grpc"), *[0] * 8)
    own = desk.choose(ask(0, ((7, 256), (1, 40))))
    assert own[1] == "ring"
    assert all(desk.choose(ask(0, ((7, 256), (tail, 9 + tail)))) == own for tail in range(2, 20))
    others = {desk.choose(ask(0, ((7, 255), (tail, 40))))[0] for tail in range(2, 20)}
    assert len(others) > 1


@pytest.mark.parametrize(
    ("policy", "loads", "answer"),
    [
        (PrefixHash, (0, 0), "own ring"),
        (PrefixHash, (5, 4), "own ring"),  # 5 <= 1.25 * 10 / 2
        (PrefixHash, (7, 3), "other overflow"),  # 7 > 1.25 * 11 / 2 = 6.875
        (SmgPrefixHash, (15, 0), "own ring"),  # 15 <= 8 + 10
        (SmgPrefixHash, (22, 0), "other overflow"),  # 22 > max(14.4, 11.5 + 10)
        (SmgPrefixHash, (21, 0), "own ring"),  # 21 <= 11 + 10
    ],
)
def test_the_load_bound(policy, loads, answer):
    """The head's own engine serves up to the limit, with equality; then the least loaded one does."""
    desk = Desk(policy(connection="grpc"), 0, 0)
    own = desk.choose()[0]
    desk.load(*(loads if own == 0 else loads[::-1]))
    index, branch = desk.choose()
    assert f"{'own' if index == own else 'other'} {branch}" == answer


def test_everyone_beyond_the_limit():
    """With a factor below 1 nobody is within it, and the head's own engine serves after all."""
    desk = Desk(PrefixHash(connection="grpc", prefix_hash_load_factor=0.5), 0, 0)
    own = desk.choose()[0]
    desk.load(5, 5)
    assert desk.choose() == (own, "all_full")


@pytest.mark.parametrize("policy", [PrefixHash, SmgPrefixHash])
def test_prefix_hash_follows_the_pool(policy):
    """A head whose engine is down goes to another, and comes back; one that leaves takes no head with it."""
    desk = Desk(policy(connection="grpc"), 0, 0, 0)
    own = desk.choose()[0]
    desk.up(*(place != own for place in range(3)))
    assert desk.choose()[0] != own
    desk.up(True, True, True)
    assert desk.choose()[0] == own
    gone = desk.leave(own)
    assert desk.choose()[0] != own
    desk.join(gone)
    assert desk.choose()[0] == own


# F. manual


def test_keys_that_manual_reads():
    """0.3.2 ignores keys beyond ASCII; smg takes UTF-8 and ignores more than 128 bytes."""
    for policy, short, long in [(SglangManual(), "no_key", "no_key"), (Manual(), "new_key", "no_key")]:
        desk = Desk(policy, 0, 0)
        assert desk.choose(x_smg_routing_key="é")[1] == short
        assert desk.choose(x_smg_routing_key="é" * 65)[1] == long
        assert desk.choose()[1] == desk.choose(x_smg_routing_key="")[1] == "no_key"


def test_manual_returns_to_its_first_engine():
    """The second place serves while the first is down, even after it left and joined again."""
    desk = Desk(Manual("min_load"), 0, 1, 2)
    assert desk.choose(x_smg_routing_key="a") == (0, "new_key")
    gone = desk.leave(0)
    assert desk.choose(x_smg_routing_key="a") == (1, "moved_key")
    desk.join(gone)
    assert desk.choose(x_smg_routing_key="a") == (0, "known_key")


def test_manual_remembers_two_places():
    """A third place drives out the oldest."""
    desk = Desk(Manual("min_load"), 0, 1, 2)
    desk.choose(x_smg_routing_key="a")
    desk.up(False, True, True)
    desk.choose(x_smg_routing_key="a")
    desk.up(False, False, True)
    assert desk.choose(x_smg_routing_key="a") == (2, "moved_key")
    desk.up(True, True, True)
    assert desk.choose(x_smg_routing_key="a") == (1, "known_key")


def test_min_group_counts_keys_in_flight():
    """Two requests of one key are one key; when they end, the key counts nothing though it is placed."""
    desk = Desk(Manual("min_group"), 0, 0)
    sent = [desk.send(x_smg_routing_key="a"), desk.send(x_smg_routing_key="a")]
    assert desk.send(x_smg_routing_key="b")[0] == 1
    desk.choose(x_smg_routing_key="c")
    assert desk.tied == [0, 1]
    for index, request in sent:
        desk.end(index, request)
    assert desk.choose(x_smg_routing_key="d") == (0, "new_key")
    assert desk.tied == []


def test_keyless_requests_are_no_group():
    """They count as load, not as a key."""
    desk = Desk(Manual("min_group"), 0, 0)
    index, request = desk.send()
    assert desk.send(x_smg_routing_key="a")[0] == 0
    desk.end(index, request)
    assert desk.send(x_smg_routing_key="b")[0] == 1


def test_idle_keys_go_at_a_pass():
    """Idle for 100 s at the pass of 120 s: forgotten; used at 21 s: 99 s idle, kept until the next pass."""
    desk = Desk(Manual("min_load", max_idle_secs=100), 0, 1)
    desk.choose(x_smg_routing_key="a", now=20.0)
    desk.choose(x_smg_routing_key="b", now=21.0)
    desk.load(1, 0)
    assert desk.choose(x_smg_routing_key="b", now=121.0) == (0, "known_key")
    assert desk.choose(x_smg_routing_key="a", now=121.0) == (1, "new_key")


# G. sticky override


def test_the_cut_of_keys():
    """One mark of an attempt, then one of a turn, each only at the end and with a number."""
    desk = Desk(StickyOverride(), *[0] * 9)
    homes = {}
    for key in ("conv", "conv_t2_r1", "conv_r1_t2", "conv_r1", "conv_t1_t2", "conv_t1", "conv_t", "conv_tx"):
        homes[key] = desk.choose(x_smg_routing_key=key)
    assert homes["conv"][0] == homes["conv_t2_r1"][0] == homes["conv_r1"][0] == homes["conv_t1"][0]
    assert [homes[key][1] for key in ("conv_r1_t2", "conv_t1_t2", "conv_t", "conv_tx")] == ["new_key"] * 4


@pytest.mark.parametrize("mode", ["min_load", "min_group", "random"])
def test_assignment_of_new_keys(mode):
    """A mode places new keys in place of the policy below; keyless requests still go there."""
    desk = Desk(StickyOverride(assignment=mode), 3, 0, 2)
    assert desk.choose(x_smg_routing_key="a") == ((1 if mode == "min_load" else 0), "new_key")
    assert desk.tied == {"min_load": [], "min_group": [0, 1, 2], "random": [0, 1, 2]}[mode]
    assert desk.choose() == (0, "turn")


def test_a_pin_moves_with_failure_and_with_leaving():
    """A pin to an engine that is down moves for good; one that left is forgotten."""
    desk = Desk(StickyOverride(over="least_load"), 0, 0)
    assert desk.choose(x_smg_routing_key="a") == (0, "new_key")
    desk.up(False, True)
    assert desk.choose(x_smg_routing_key="a") == (1, "moved_key")
    desk.up(True, True)
    assert desk.choose(x_smg_routing_key="a") == (1, "pinned")
    desk.join(desk.leave(1))
    assert desk.choose(x_smg_routing_key="a") == (0, "new_key")


def test_over_the_limit_the_pin_stays():
    """Two requests in flight on each engine: the third is placed anew, and the pin stays where it was."""
    desk = Desk(StickyOverride(over="least_load"), 0)
    for _ in range(2):
        desk.send(x_smg_routing_key="a")
    assert desk.choose(x_smg_routing_key="a") == (0, "over_limit")


def test_requests_that_ended_leave_room():
    """After one of two has ended the key stays; keyless requests pass through and count for nobody."""
    desk = Desk(StickyOverride(over="least_load"), 0, 0)
    sent = [desk.send(x_smg_routing_key="a"), desk.send(x_smg_routing_key="a")]
    keyless = desk.send()
    assert keyless[0] == 1
    desk.end(*keyless)
    desk.end(*sent[0])
    assert desk.choose(x_smg_routing_key="a") == (0, "pinned")


def test_a_refusal_below_is_a_refusal():
    """What the policy below refuses stays refused, and is not pinned."""
    desk = Desk(StickyOverride(over="sglang.prefix_hash"), 0)
    assert desk.choose(x_smg_routing_key="a") == (None, "no_tokens")
    desk.up(False)
    assert desk.choose(x_smg_routing_key="a") == (None, "no_engine")


@pytest.mark.parametrize(
    "kind", ["sglang.manual", "smg.consistent_hashing", "none", "smg._headers", "gym", "smg.sticky_override"]
)
def test_what_cannot_lie_below(kind):
    """Sticky policies and names that are no policy."""
    with pytest.raises(ValueError, match=r"^over must be"):
        StickyOverride(over=kind)


# H. bucket: characters, thresholds 64 and 1.5, re-cut every 5 s


def lengths(desk, *lengths, now=0.0):
    return [desk.choose(ask(0, ((0, length),)), now)[0] for length in lengths]


BUCKETS = pytest.mark.parametrize("policy", [Bucket, SglangBucket])


@BUCKETS
def test_the_first_intervals(policy):
    """4,096 over three engines: 0..1364, 1365..2729, and the rest."""
    wide = policy(balance_abs_threshold=1 << 40)
    assert lengths(Desk(wide, 0, 0, 0), 1364, 1365, 2729, 2730, 10**6, 0) == [0, 1, 1, 2, 2, 0]


@BUCKETS
def test_bounds_are_recut(policy):
    """5, 10, 15, 20, 24, 26 are 100 characters, 33 an engine: 0..20, 21..26, and the rest."""
    desk = Desk(policy(balance_abs_threshold=300), 0, 0, 0)
    assert lengths(desk, 5, 10, 15, 20, 24, 26) == [0] * 6
    assert lengths(desk, 20, 21, 26, 27, now=5.0) == [0, 1, 1, 2]


@BUCKETS
def test_one_length_fills_several_intervals(policy):
    """33, 34, 34: 0..33, then 34..67 because 34 is no length beyond 34, and the rest."""
    desk = Desk(policy(balance_abs_threshold=300), 0, 0, 0)
    lengths(desk, 33, 34, 34)
    assert lengths(desk, 33, 34, 67, 68, now=5.0) == [0, 1, 1, 2]


@BUCKETS
def test_uneven_characters_go_to_the_fewest(policy):
    """64 characters more are not uneven, 65 are; ties of the fewest are random."""
    desk = Desk(policy(), 0, 0, 0)
    assert lengths(desk, 64) == [0]
    assert desk.choose(ask(0, ((0, 1),))) == (0, "interval")
    assert desk.choose(ask(0, ((0, 1),))) == (1, "fewest_chars")
    assert desk.tied == [1, 2]


@BUCKETS
def test_the_ratio_counts_too(policy):
    """200 and 300 differ by more than 64, but 300 is not more than 1.5 times 200."""
    desk = Desk(policy(balance_abs_threshold=10), 0, 0)
    desk.policy._chars = dict(zip(desk.fleet.engines, (300, 200), strict=True))
    assert desk.choose(ask(0, ((0, 1),))) == (0, "interval")
    assert desk.choose(ask(0, ((0, 1),))) == (1, "fewest_chars")


@BUCKETS
def test_a_stable_share_is_not_recut(policy):
    """A share that changed by no more than a factor of 2 leaves the bounds; an empty window does too."""
    desk = Desk(policy(balance_abs_threshold=1 << 40), 0, 0)
    lengths(desk, 10, 20)
    assert lengths(desk, 10, 11, now=5.0) == [0, 0]  # share 15: 0..20
    lengths(desk, 20, 20, now=5.0)  # 91 in the window, share 45: more than twice 15
    assert lengths(desk, 20, 21, now=10.0) == [0, 1]
    lengths(desk, 40, now=10.5)  # share 71, not more than twice 45
    assert lengths(desk, 20, 21, now=15.0) == [0, 1]


@BUCKETS
def test_bucket_refuses_an_unavailable_owner(policy):
    """The owner of the interval is down: refused, and its characters count all the same."""
    desk = Desk(policy(), 0, 0)
    desk.up(False, True)
    assert desk.choose(ask(0, ((0, 100),))) == (None, "unavailable")
    assert desk.choose(ask(0, ((0, 100),))) == (1, "fewest_chars")


@pytest.mark.parametrize(("policy", "place"), [(SglangBucket, 1), (Bucket, 0)])
def test_ids_are_measured_in_tokens(policy, place):
    """1,000 ids at four characters each are 4,000 characters to sglang's router and 1,000 tokens to smg."""
    desk = Desk(policy(balance_abs_threshold=1 << 40), 0, 0)
    request = ask(0, ((0, 1000),), "input_ids")
    request.chars_per_token = 4.0
    assert desk.choose(request)[0] == place


@BUCKETS
def test_nothing_to_recut(policy):
    """A re-cut before the first request changes nothing, and the last engine may leave."""
    desk = Desk(policy(balance_abs_threshold=1 << 40), 0, 0)
    assert lengths(desk, 2047, 2048, now=5.0) == [0, 1]
    desk.leave(0)
    desk.leave(1)
    assert desk.choose() == (None, "no_engine")


@BUCKETS
def test_a_join_gives_all_to_the_first(policy):
    """The second division is of the whole range, so every real length is the first engine's until a re-cut."""
    desk = Desk(policy(balance_abs_threshold=1 << 40), 0, 0)
    assert lengths(desk, 3000) == [1]
    desk.join()
    assert lengths(desk, 3000, 10**6) == [0, 0]
    desk.leave(0)
    assert lengths(desk, 3000) == [1]


# I. cache_aware


def test_the_spill_gate():
    """Load 8 with mean 2.67: over 1.5 * 2.67 and over 2.67 + max(4, ceil(3.27)): spills; 6 with mean 2 does not."""
    desk = Desk(CacheAware(), 1, 0, 1)
    assert desk.choose(ask(0, ((1, 100),))) == (1, "miss")
    desk.load(0, 6, 0)
    assert desk.choose(ask(0, ((1, 100),))) == (1, "hit")
    desk.load(0, 8, 0)
    assert desk.choose(ask(0, ((1, 100),))) == (0, "spill")
    assert desk.tied == [0, 2]
    desk.load(5, 0, 9)
    assert desk.choose(ask(0, ((1, 100),))) == (1, "hit")
    desk.up(False, False, True)
    assert desk.choose(ask(0, ((1, 100),))) == (2, "miss")


def test_ids_match_in_pages():
    """31 shared tokens are a page of 16; under 16 tokens nothing matches; texts and ids never match each other."""
    desk = Desk(CacheAware(cache_threshold=0.5), 1, 0)
    ids = {"encoding": "input_ids"}
    assert desk.choose(ask(0, ((1, 31), (2, 9)), **ids)) == (1, "miss")
    desk.load(0, 1)
    assert desk.choose(ask(0, ((1, 31),), **ids)) == (1, "hit")  # 16 of 31
    assert desk.choose(ask(0, ((1, 31), (3, 1)), **ids)) == (0, "miss")  # 16 of 32
    assert desk.choose(ask(0, ((1, 15),), **ids)) == (0, "miss")
    assert desk.choose(ask(0, ((1, 31),))) == (0, "miss")


def test_one_budget_for_all_engines():
    """With 100 tokens for all, three prompts of 50 lose the oldest at the pass, whoever had it."""
    desk = Desk(CacheAware(max_tree_size=100), 0, 0)
    for place, source in enumerate((1, 2, 3)):
        desk.load(place % 2, 1 - place % 2)
        desk.choose(ask(0, ((source, 50),)))
    assert desk.choose(ask(0, ((4, 1),)), now=60.0)[1] == "miss"
    assert [desk.choose(ask(0, ((source, 50),)), now=60.0)[1] for source in (3, 2, 1)] == ["hit", "hit", "miss"]
