"""Decision tables of the serving routers, worked by hand from their sources and descriptions."""

import pytest

from policies._hashes import md5_u128, xxh64_u64
from policies._prefill_time import A6000, V100
from policies.aibrix.least_kv_cache import LeastKvCache
from policies.aibrix.least_request import LeastRequest
from policies.aibrix.power_of_two import PowerOfTwo
from policies.aibrix.prefix_cache import PrefixCache
from policies.aibrix.prefix_cache_preble import PrefixCachePreble
from policies.dynamo.kv_router import KvRouter
from policies.kubeai.least_load import LeastLoad
from policies.kubeai.prefix_hash import PrefixHash
from policies.llmd.endpoint_picker import EndpointPicker
from policies.preble.e2 import E2
from policies.production_stack.kvaware import Kvaware
from policies.production_stack.prefixaware import Prefixaware
from policies.production_stack.session import Session
from policies.ray.prefix_aware import PrefixAware
from tests.policies.worlds import Desk, ask

EVERY = pytest.mark.parametrize(
    "cls",
    [
        E2,
        EndpointPicker,
        KvRouter,
        Kvaware,
        LeastKvCache,
        LeastLoad,
        LeastRequest,
        PowerOfTwo,
        PrefixAware,
        PrefixCache,
        PrefixCachePreble,
        PrefixHash,
        Prefixaware,
        Session,
    ],
)

serials = iter(range(10**6))


def prompt(*spans, encoding="text", **headers):
    return ask(next(serials), spans, encoding, **headers)


def holds(desk, *tokens):
    """Let engines tell how many tokens of any prompt they cache; None tells nothing."""
    for engine, held in zip(desk.fleet.engines, tokens, strict=True):
        engine.cached_tokens = None if held is None else Held(held)


class Held:
    def __init__(self, tokens):
        self.tokens = tokens

    def __call__(self, content):
        return self.tokens


@EVERY
def test_nobody_is_there(cls):
    """Without an available engine nothing is chosen, with a key and without."""
    desk = Desk(cls(), 0, 0)
    desk.up(False, False)
    assert desk.choose() == desk.choose(x_session_id="a") == (None, "no_engine")


@EVERY
def test_engines_change_under_way(cls):
    """An engine that leaves and rejoins, with requests begun before, is an engine like the others."""
    desk = Desk(cls(), 0, 0)
    sent = [desk.send(prompt((1, 40), (key, 5)), now=float(key)) for key in range(2, 6)]
    gone = desk.leave(0)
    assert desk.choose(prompt((1, 40)), now=10.0)[0] == 1
    desk.join(gone)
    for index, request in sent:
        desk.end(index, request)
    assert desk.choose(prompt((1, 40)), now=20.0)[0] in {0, 1}


# KubeAI


def test_kubeai_least_load():
    """Fewest in flight, random of equals, whoever is up; one that leaves or joins changes the candidates alone."""
    desk = Desk(LeastLoad(), 1, 0, 0)
    assert desk.choose(x_session_id="a") == (1, "least_loaded")
    assert desk.tied == [1, 2]
    desk.up(True, False, True)
    assert desk.choose(x_session_id="a") == (2, "least_loaded")
    desk.up(True, True, True)
    desk.load(0, 0, 0)
    desk.choose()
    assert desk.tied == [0, 1, 2]
    desk.load(3, 3, 2)
    assert desk.choose() == (2, "least_loaded")
    assert desk.tied == []
    desk.leave(2)
    desk.join()
    assert desk.choose() == (2, "least_loaded")


def test_xxh64_of_known_texts():
    """Published values of XXH64 with seed 0, and of MD5."""
    assert xxh64_u64("") == 0xEF46DB3751D8E999
    assert xxh64_u64("a") == 0xD24EC4F1A98C6E5B
    assert xxh64_u64("abc") == 0x44BC2CF5AD770999
    assert md5_u128("a") == 0x0CC175B9C0F1B6A831C399E269772661


def test_the_head_is_the_key():
    """Prompts that agree in 100 characters share an endpoint; the 100th decides, the 101st does not."""
    desk = Desk(PrefixHash(), *[0] * 8)
    own = desk.choose(prompt((1, 100), (2, 50)))
    assert own[1] == "ring"
    assert all(desk.choose(prompt((1, 100), (tail, 5))) == own for tail in range(3, 20))
    assert len({desk.choose(prompt((1, 99), (tail, 5)))[0] for tail in range(3, 20)}) > 1


def test_the_system_prompt_is_skipped_in_chats():
    """With 200 system tokens the next 100 decide; a plain text is hashed from its start."""
    desk = Desk(PrefixHash(system_tokens=200), *[0] * 8)
    chats = {desk.choose(prompt((1, 200), (user, 100), encoding="chat"))[0] for user in range(2, 20)}
    texts = {desk.choose(prompt((1, 200), (user, 100)))[0] for user in range(2, 20)}
    assert len(chats) > 1
    assert len(texts) == 1
    one = desk.choose(prompt((1, 200), (2, 150), encoding="chat"))
    assert desk.choose(prompt((1, 200), (2, 100), (3, 9), encoding="chat")) == one


def test_kubeai_spills_clockwise():
    """Load 5 of (5, 2): 5 <= 1.25 * 8 / 2 = 5 stays; load 6: 6 > 5.625 goes on; with 50 % nobody is within."""
    desk = Desk(PrefixHash(), 0, 0)
    own = desk.choose(prompt((1, 100)))[0]
    desk.load(*((5, 2) if own == 0 else (2, 5)))
    assert desk.choose(prompt((1, 100))) == (own, "ring")
    desk.load(*((6, 2) if own == 0 else (2, 6)))
    assert desk.choose(prompt((1, 100))) == (1 - own, "spill")
    desk = Desk(PrefixHash(mean_load_percentage=50), 4, 4)
    assert desk.choose(prompt((1, 100))) == (own, "spill")


def test_kubeai_failure_and_points():
    """A head whose endpoint is down goes on around the ring and returns; a ring needs points."""
    desk = Desk(PrefixHash(), 0, 0, 0)
    own = desk.choose(prompt((1, 100)))[0]
    desk.up(*(place != own for place in range(3)))
    assert desk.choose(prompt((1, 100)))[0] != own
    desk.up(True, True, True)
    assert desk.choose(prompt((1, 100)))[0] == own
    with pytest.raises(ValueError, match=r"^replication must be one or more"):
        PrefixHash(replication=0)


# production-stack


def test_the_ring_of_uhashring():
    """Places as uhashring 2.5 gives them for four nodes, and with the third removed."""
    keys = ["a", "b", "session-0", "session-1", "user-7", "é"]
    desk = Desk(Session(), 0, 0, 0, 0)
    assert [desk.choose(x_session_id=key) for key in keys] == [(place, "session") for place in (2, 1, 2, 1, 3, 0)]
    desk.up(True, True, False, True)
    assert [desk.choose(x_session_id=key)[0] for key in keys] == [3, 1, 1, 1, 3, 0]
    desk.leave(2)
    assert [desk.choose(x_session_id=key)[0] for key in keys] == [3, 1, 1, 1, 3, 0]
    desk.fleet.engines[-1].in_flight = 99
    assert desk.choose(x_session_id="a") == (3, "session")


def test_without_a_session_the_lowest_rate():
    """First who never had a request, then fewest in 60 s with ties to the first; a reading leaves after its minute."""
    desk = Desk(Session(), 9, 0, 0)
    assert [desk.choose(now=float(second)) for second in range(4)] == [
        (0, "lowest_qps"),
        (1, "lowest_qps"),
        (2, "lowest_qps"),
        (0, "lowest_qps"),
    ]
    assert desk.choose(now=60.5)[0] == 0  # its request of second 0 is over: 1, 1, 1
    assert desk.choose(now=61.5)[0] == 1  # 0 has two of its requests left, 1 none


def test_the_header_can_be_named():
    """Another header holds the session; an empty session is one."""
    desk = Desk(Session(session_key="X-User-Id"), 0, 0, 0, 0)
    assert desk.choose(x_user_id="a") == (2, "session")
    assert desk.choose(x_session_id="a")[1] == "lowest_qps"
    assert desk.choose(x_user_id="")[1] == "session"


def test_the_first_holder_serves_if_it_holds_enough():
    """Of 5,000 tokens 3,000 are enough and 2,999 are not, whoever else holds more."""
    desk = Desk(Kvaware(), 9, 0, 0)
    holds(desk, 0, 3000, 5000)
    assert desk.choose(prompt((1, 5000), x_session_id="a")) == (1, "holder")
    holds(desk, 0, 2999, 5000)
    assert desk.choose(prompt((1, 5000), x_session_id="b")) == (desk.choose(x_session_id="b")[0], "session")


def test_short_prompts_follow_any_match():
    """Up to 2,000 tokens one token held is enough; none held is no match."""
    desk = Desk(Kvaware(), 0, 0)
    holds(desk, 0, 1)
    assert desk.choose(prompt((1, 2000))) == (1, "holder")
    holds(desk, 0, 0)
    assert desk.choose(prompt((1, 2000)))[1] == "lowest_qps"


def test_without_events_kvaware_is_its_fallback():
    """No engine tells what it holds: sessions on the ring, others by rate; a holder that is down is not seen."""
    desk, session = Desk(Kvaware(), 0, 0, 0), Desk(Session(), 0, 0, 0)
    for key in "abcdef":
        assert desk.choose(x_session_id=key) == session.choose(x_session_id=key)
    holds(desk, 10, None, 10)
    desk.up(False, True, True)
    assert desk.choose(prompt((1, 10))) == (2, "holder")


def test_prefixaware_follows_whole_chunks():
    """127 characters in common are no match; 128 are, by whoever has them, whatever the load."""
    desk = Desk(Prefixaware(), 9, 0, 0)
    assert desk.choose(prompt((1, 300))) == (0, "no_match")
    assert desk.tied == [0, 1, 2]
    assert desk.choose(prompt((1, 127), (2, 200)))[1] == "no_match"
    assert desk.choose(prompt((1, 128), (3, 200))) == (0, "match")
    assert desk.tied == [0]


def test_the_last_chunk_matches_only_itself():
    """300 characters are two chunks and a rest of 44, which is known apart from what goes on after the chunks."""
    desk = Desk(Prefixaware(), 0, 0, 0)
    desk.choose(prompt((1, 300)))
    desk.up(False, True, True)
    desk.choose(prompt((1, 256), (2, 9)))
    desk.up(True, True, True)
    assert desk.choose(prompt((1, 300))) == (0, "match")
    assert desk.tied == [0]
    assert desk.choose(prompt((1, 400))) == (0, "match")
    assert desk.tied == [0, 1]


def test_the_deepest_chunk_with_somebody_available():
    """The engine of the whole prompt is down: those of its first chunk serve, and none of them: all."""
    desk = Desk(Prefixaware(), 0, 0, 0)
    desk.choose(prompt((1, 128), (2, 128)))
    desk.up(False, True, True)
    assert desk.choose(prompt((1, 128), (2, 128))) == (1, "no_match")
    assert desk.tied == [1, 2]
    desk.up(True, True, True)
    desk.choose(prompt((1, 128), (3, 300)))
    desk.up(False, False, True)
    assert desk.choose(prompt((1, 128), (2, 128)))[1] == "no_match"
    desk.up(False, True, True)
    assert desk.choose(prompt((1, 128), (4, 128))) == (1, "match")


def test_prompts_may_part_within_a_chunk():
    """Two prompts part at 140 characters: one that leaves the first at 150 shares one chunk, and both have it."""
    desk = Desk(Prefixaware(), 0, 0, 0)
    desk.choose(prompt((1, 140), (2, 116)))
    desk.up(False, True, True)
    desk.choose(prompt((1, 140), (3, 116)))
    desk.up(True, True, True)
    assert desk.choose(prompt((1, 140), (2, 10), (5, 106))) == (0, "match")
    assert desk.tied == [0, 1]


def test_a_short_match_goes_by_rate():
    """Below 256 characters matched the request rate decides, from 256 on the match."""
    desk = Desk(Prefixaware(prefix_min_match_length=256), 0, 0)
    assert desk.choose(prompt((1, 400)))[1] == "short_match"
    assert desk.choose(prompt((1, 255), (2, 400))) == (1, "short_match")
    assert desk.choose(prompt((1, 256), (3, 400))) == (0, "match")


def test_chunks_are_counted_in_characters():
    """At four characters a token 32 tokens are a chunk."""
    desk = Desk(Prefixaware(), 0, 0)

    def choose(*spans):
        request = prompt(*spans)
        request.chars_per_token = 4.0
        return desk.choose(request)[1]

    assert [choose((1, 64)), choose((1, 31), (2, 9)), choose((1, 32), (3, 9))] == ["no_match", "no_match", "match"]


# Dynamo: cost in blocks of 16


def test_a_cached_block_saves_a_block():
    """Ten blocks: 4 held by the second worker cost it 6 + 10 against 10 + 10; equal costs are a tie."""
    desk = Desk(KvRouter(), 0, 0)
    holds(desk, 0, 64)
    assert desk.choose(prompt((1, 160))) == (1, "overlap")
    holds(desk, 15, 0)
    assert desk.choose(prompt((1, 160))) == (0, "no_overlap")
    assert desk.tied == [0, 1]


def test_work_under_way_costs():
    """A request of 10 blocks under way costs 10 of prefill and 10 of decode until its first token, then 10, then 0."""
    desk = Desk(KvRouter(use_kv_events=False), 0, 0)
    index, request = desk.send(prompt((1, 160)))
    assert index == 0
    assert desk.choose(prompt((1, 160), (2, 320))) == (1, "no_overlap")  # 30 + 40 + 10 - 10 against 30 + 30
    desk = Desk(KvRouter(use_kv_events=False), 0, 0)
    index, request = desk.send(prompt((1, 160)))
    engine = desk.fleet.engines[0]
    desk.policy.first_token(request, engine)
    desk.policy.first_token(request, engine)
    assert desk.choose(prompt((1, 160), (3, 160)))[0] == 0  # 10 of overlap against 10 of decode: a tie
    assert desk.tied == [0, 1]
    desk.end(0, request)
    assert desk.choose(prompt((1, 160), (4, 160))) == (0, "overlap")


def test_blocks_that_active_prompts_share():
    """Counted once, a copy of an active prompt costs no block, until the last copy has ended."""
    for shared, other in (("each", 1), ("once", 0)):
        desk = Desk(KvRouter(use_kv_events=False, prefill_load_scale=0.0, shared_blocks=shared), 0, 0)
        first, request = desk.send(prompt((1, 160)))
        assert desk.choose(prompt((1, 160)))[0] == (first if other == 0 else 1 - first)  # 10 against 10, or 20
    second, again = desk.send(prompt((1, 160), (2, 40)))
    assert second == first  # 12 against 12 elsewhere would be a tie: two whole blocks of its own
    desk.end(first, request)
    assert len(desk.policy._shared[desk.fleet.engines[first]]) == 12
    desk.end(first, again)
    assert not desk.policy._shared[desk.fleet.engines[first]]


def test_weights_of_the_cost():
    """Active requests cost w blocks each; the prefill scale 0 makes it decode alone; the credit 0 makes it blind."""
    desk = Desk(KvRouter(decode_active_request_weight=3.0), 2, 0)
    holds(desk, 80, 0)
    assert desk.choose(prompt((1, 160)))[0] == 1  # 5 + 6 against 10
    desk = Desk(KvRouter(prefill_load_scale=0.0), 0, 0)
    holds(desk, 160, 0)
    desk.choose(prompt((1, 160)))
    assert desk.tied == [0, 1]
    desk = Desk(KvRouter(overlap_score_credit=0.0), 0, 0)
    holds(desk, 160, 0)
    desk.choose(prompt((1, 160)))
    assert desk.tied == [0, 1]


def test_the_credit_decays_with_prefill():
    """20 blocks of prefill in excess, 10 in the prompt: at decay 1 the credit of 10 is a third of it."""
    desk = Desk(KvRouter(overlap_score_credit_decay=1.0), 0, 0)
    engines = desk.fleet.engines
    desk.policy._prefill = {engines[0]: 320.0}
    costs = desk.policy._costs(engines, prompt((1, 160)), dict(zip(engines, (160.0, 0.0), strict=True)))
    assert costs == pytest.approx([20 + 10 - 10 / 3 + 10, 10 + 10])


def test_dynamo_temperature():
    """Costs 20 and 10 at temperature 0.5 have odds of 1 to exp(2)."""
    desk = Desk(KvRouter(router_temperature=0.5), 0, 0)
    holds(desk, 0, 160)
    desk.choose(prompt((1, 160)))
    assert desk.weights == pytest.approx([0.1353352832, 1.0])


def test_predictions_expire():
    """Without events the prompt is thought cached for 120 s after it was last sent."""
    desk = Desk(KvRouter(), 0, 0)
    assert desk.choose(prompt((1, 160)), now=0.0)[1] == "no_overlap"
    assert desk.choose(prompt((1, 160)), now=119.0) == (0, "overlap")
    assert desk.choose(prompt((1, 160)), now=238.9) == (0, "overlap")
    assert desk.choose(prompt((1, 160)), now=359.0) == (0, "no_overlap")


def test_dynamo_survives_odd_answers():
    """An answer of a request that was never dispatched is ignored; so are two attempts of one; blocks have a size."""
    desk = Desk(KvRouter(), 0, 0)
    desk.policy.completed(prompt((1, 9)), desk.fleet.engines[0])
    desk.policy.first_token(prompt((1, 9)), desk.fleet.engines[0])
    request = prompt((1, 160))
    first, second = desk.send(request), desk.send(request)
    desk.end(*first)
    desk.end(*second)
    assert set(desk.policy._prefill.values()) == {0.0}
    with pytest.raises(ValueError, match=r"^block_size must be one or more"):
        KvRouter(block_size=0)


# llm-d


def test_llmd_prefix_and_queue():
    """Half of the prompt at weight 2 equals an empty queue at weight 1; a block more decides."""
    desk = Desk(EndpointPicker(), 0, 0)
    holds(desk, 80, 0)
    desk.report(0, waiting=5)
    desk.report(1, waiting=0)
    assert desk.choose(prompt((1, 160))) == (0, "max_score")
    assert desk.tied == [0, 1]
    holds(desk, 96, 0)
    assert desk.choose(prompt((1, 160))) == (0, "max_score")
    assert desk.tied == []


def test_llmd_guesses_without_events():
    """Its own index: whole blocks of 16 tokens, of the first 256 blocks; 15 shared tokens are nothing."""
    desk = Desk(EndpointPicker(queue=0.0), 0, 0)
    desk.choose(prompt((1, 160)))
    desk.choose(prompt((1, 15), (2, 160)))
    assert desk.tied == [0, 1]
    assert desk.choose(prompt((1, 16), (3, 160))) == (0, "max_score")
    assert desk.tied == []


@pytest.mark.parametrize(
    ("weights", "chosen"),
    [
        ({"queue": 1.0}, 0),  # waiting 0, 4, 128
        ({"kv_cache_utilization": 1.0}, 1),  # use 0.9, 0.2, 0.5
        ({"load_aware": 1.0}, 0),
        ({"load_aware": 1.0, "kv_cache_utilization": 1.0}, 1),  # 0.6, 0.484 + 0.8, 0 + 0.5
        ({"active_request": 1.0}, 2),  # in flight 4, 2, 0
        ({"active_request": 1.0, "queue": 0.6}, 1),  # 0 + 0.6, 0.5 + 0.58, 1 + 0
        ({"active_request": 1.0, "max_busy_score": 0.1, "queue": 0.96}, 2),  # 0.96, 0.05 + 0.93, 1
    ],
)
def test_llmd_scores(weights, chosen):
    """Each load score by hand, alone and mixed."""
    desk = Desk(EndpointPicker(**{"prefix_cache": 0.0, "queue": 0.0, **weights}), 4, 2, 0)
    for place, (waiting, share) in enumerate([(0, 0.9), (4, 0.2), (128, 0.5)]):
        desk.report(place, waiting=waiting, kv_share=share)
    assert desk.choose()[0] == chosen
    assert desk.tied == []


def test_llmd_session_and_cold_pods():
    """The session returns to its pod; cold prompts go to who had one longest ago, warm ones are neutral."""
    desk = Desk(EndpointPicker(prefix_cache=0.0, queue=0.0, session_affinity=1.0), 0, 0)
    desk.choose(x_session_id="a")
    desk.up(False, True)
    for key in "b":
        desk.choose(x_session_token=key)
    desk.up(True, True)
    assert [desk.choose(x_session_token=key)[0] for key in "ab"] == [0, 1]
    desk = Desk(EndpointPicker(queue=0.0, no_hit_lru=1.0), 0, 0, 0)
    assert [desk.choose(prompt((cold, 32)))[0] for cold in range(1, 6)] == [0, 1, 2, 0, 1]
    assert desk.choose(prompt((3, 32), (9, 16)))[0] == 2
    desk.up(True, False, False)
    assert desk.choose(prompt((8, 32)))[0] == 0


def test_llmd_counts_pods_that_are_down_among_the_cold():
    """With the first of three down, the second and third had places 1 and 2 of 3, which scores 0 for both of two."""
    desk = Desk(EndpointPicker(queue=0.0, no_hit_lru=1.0), 0, 0, 0)
    assert [desk.choose(prompt((cold, 32)))[0] for cold in range(1, 4)] == [0, 1, 2]
    desk.up(False, True, True)
    desk.choose(prompt((8, 32)))
    assert desk.tied == [1, 2]


def test_llmd_pickers():
    """By score, at random whatever the score, and in proportion to it; all zero is at random."""
    weights = {"prefix_cache": 0.0, "queue": 1.0}
    desks = {
        picker: Desk(EndpointPicker(picker=picker, **weights), 0, 0, 0) for picker in ("random", "weighted_random")
    }
    for desk in desks.values():
        for place, waiting in enumerate((0, 1, 4)):
            desk.report(place, waiting=waiting)
        desk.choose()
        assert desk.tied == [0, 1, 2]
    assert desks["random"].weights is None
    assert desks["weighted_random"].weights == [1.0, 0.75, 0.0]
    desk = Desk(EndpointPicker(picker="weighted_random", prefix_cache=0.0, queue=0.0), 0, 0)
    desk.choose()
    assert (desk.tied, desk.weights) == ([0, 1], None)


# Ray Serve


def test_ray_levels_misses_by_tree():
    """Misses go to who has fewest characters, the shorter queue of equals, first in order."""
    desk = Desk(PrefixAware(), 1, 0, 0)
    assert desk.choose(prompt((1, 50))) == (1, "smallest_tree")
    assert desk.choose(prompt((2, 40))) == (2, "smallest_tree")
    desk.load(9, 0, 0)
    assert desk.choose(prompt((3, 60))) == (0, "smallest_tree")
    assert desk.choose(prompt((4, 5))) == (2, "smallest_tree")


def test_a_tenth_is_a_match():
    """10 of 100 characters are a match, 9 are not; the owner serves, whatever its queue."""
    desk = Desk(PrefixAware(), 0, 0, 0)
    desk.choose(prompt((1, 10), (2, 90)))
    assert desk.choose(prompt((1, 10), (3, 90))) == (0, "match")
    assert desk.choose(prompt((1, 9), (4, 91))) == (1, "smallest_tree")
    desk.load(50, 0, 0)
    assert desk.choose(prompt((1, 10), (5, 90))) == (0, "match")


def test_the_deepest_node_of_those_available():
    """While the owner is down a shallower owner serves, and if there is none, the smallest tree."""
    desk = Desk(PrefixAware(), 0, 0, 0)
    desk.choose(prompt((1, 50), (2, 50)))
    desk.up(False, True, True)
    assert desk.choose(prompt((1, 50), (2, 50))) == (1, "smallest_tree")
    desk.up(True, False, True)
    assert desk.choose(prompt((1, 50), (2, 50), (3, 10))) == (0, "match")


def test_the_smallest_may_be_down():
    """Nobody with the smallest tree is available: two random ones, the shorter queue, the first drawn of equals."""
    desk = Desk(PrefixAware(), 0, 0, 0)
    desk.choose(prompt((1, 50)))
    desk.choose(prompt((2, 50)))
    desk.up(True, True, False)
    assert desk.choose(prompt((3, 50))) == (0, "no_candidate")
    desk.load(2, 1, 0)
    assert desk.choose(prompt((4, 50))) == (1, "no_candidate")
    desk.up(True, False, False)
    assert desk.choose(prompt((5, 50))) == (0, "no_candidate")


def test_ray_drops_locality_when_uneven():
    """Queues 5 apart are not over a threshold of 5, 6 apart are."""
    desk = Desk(PrefixAware(imbalanced_threshold=5), 0, 0)
    desk.choose(prompt((1, 50)))
    desk.load(5, 0)
    assert desk.choose(prompt((1, 50))) == (0, "match")
    desk.load(6, 0)
    assert desk.choose(prompt((1, 50))) == (1, "imbalanced")
    with pytest.raises(ValueError, match=r"^imbalanced_threshold must be zero or more"):
        PrefixAware(imbalanced_threshold=-1)


def test_ray_eviction_is_off_unless_asked_for():
    """With 60 characters allowed and 40 kept, 70 lose the older 40 at the pass; by default nothing goes."""
    for does, branch in [(True, "no_candidate"), (False, "match")]:
        policy = PrefixAware(do_eviction=does, eviction_threshold_chars=60, eviction_target_chars=40)
        desk = Desk(policy, 0, 0)
        desk.up(True, False)
        desk.choose(prompt((1, 40)))
        desk.choose(prompt((2, 30)))
        assert desk.choose(prompt((1, 40)), now=9.9)[1] == "match"
        desk.choose(prompt((2, 30)), now=9.9)
        assert desk.choose(prompt((1, 40)), now=10.0)[1] == branch


def test_a_joining_replica_gets_every_miss():
    """It has nothing in the tree until it has caught up."""
    desk = Desk(PrefixAware(), 0, 0)
    for source in range(4):
        desk.choose(prompt((source, 10)))
    desk.join()
    assert [desk.choose(prompt((source, 10)))[0] for source in range(10, 13)] == [2, 2, 0]


# AIBrix


def test_aibrix_least_request_and_pair():
    """Fewest running with random ties; two random pods, first drawn on a tie; one left; none of it sees prompts."""
    desk = Desk(LeastRequest(), 3, 1, 1)
    assert desk.choose(x_session_id="a") == (1, "least_request")
    assert desk.tied == [1, 2]
    desk = Desk(PowerOfTwo(), 3, 1)
    assert desk.choose() == (1, "better_of_two")
    desk.load(1, 1)
    assert desk.choose() == (0, "better_of_two")
    desk.up(False, True)
    assert desk.choose() == (1, "only_one")


def test_aibrix_least_kv_cache():
    """Lowest reading, last of equals; a pod without one is passed over; without any at all the choice is random.

    So it is over engines without a CPU cache, whatever their GPU's: V1 of vLLM and SGLang.
    """
    blind = Desk(LeastKvCache(), 0, 0)
    blind.report(0, kv_share=0.9)
    blind.report(1, kv_share=0.1)
    assert blind.choose() == (0, "no_report")
    assert blind.tied == [0, 1]
    desk = Desk(LeastKvCache(has_cpu_metric=True), 9, 0, 0)
    assert desk.choose() == (0, "no_report")
    assert desk.tied == [0, 1, 2]
    desk.report(0, kv_share=0.5)
    assert desk.choose() == (0, "least_kv_cache")
    desk.report(1, kv_share=0.2)
    assert desk.choose() == (1, "least_kv_cache")
    desk.report(2, kv_share=0.2)
    assert desk.choose() == (2, "least_kv_cache")
    desk.report(2, kv_share=0.3)
    assert desk.choose() == (1, "least_kv_cache")
    assert not desk.tied
    desk.up(True, False, True)
    assert desk.choose() == (2, "least_kv_cache")


def test_aibrix_prefers_the_better_match():
    """More of the prompt first, then fewer running, then chance."""
    desk = Desk(PrefixCache(), 0, 0, 0)
    desk.choose(prompt((1, 50), (2, 50)))
    desk.up(False, True, False)
    desk.choose(prompt((1, 50)))
    desk.up(True, True, True)
    assert desk.choose(prompt((1, 50), (2, 50))) == (0, "match")
    assert desk.choose(prompt((1, 50), (3, 50))) == (0, "match")
    assert desk.tied == [0, 1]
    desk.load(1, 0, 1)
    assert desk.choose(prompt((1, 50), (4, 50))) == (1, "match")


def test_aibrix_skips_busy_matches():
    """The deviation is the sample's: 7, 1, 1 have mean 3 and deviation 3.46, so the limit is 6.46, or 9.93 with two."""
    desk = Desk(PrefixCache(), 0, 0, 0)
    desk.choose(prompt((1, 50)))
    desk.load(7, 1, 1)
    assert desk.choose(prompt((1, 50))) == (1, "match_too_busy")
    desk = Desk(PrefixCache(), 0, 0, 0)
    desk.choose(prompt((1, 50)))
    desk.load(1, 1, 1)
    assert desk.choose(prompt((1, 50))) == (0, "match")
    desk = Desk(PrefixCache(std_dev_factor=2.0), 0, 0, 0)
    desk.choose(prompt((1, 50)))
    desk.load(7, 1, 1)
    assert desk.choose(prompt((1, 50))) == (0, "match")
    # 7, 5, 0: mean 4, deviation sqrt(26 / 2) = 3.61; divided by the number of pods it would be 2.94, and 7 too busy.
    desk = Desk(PrefixCache(), 0, 0, 0)
    desk.choose(prompt((1, 50)))
    desk.load(7, 5, 0)
    assert desk.choose(prompt((1, 50))) == (0, "match")


def test_aibrix_counts_percent_of_whole_blocks():
    """Of 10 tokens in blocks of 4 two blocks count: both is 100 %, one 50 %, and the two odd tokens are nothing."""
    desk = Desk(PrefixCache(), 0, 0)
    desk.choose(prompt((1, 8), (2, 2)))
    desk.up(False, True)
    desk.choose(prompt((1, 8), (3, 2)))
    desk.up(True, True)
    assert desk.choose(prompt((1, 8), (2, 2))) == (0, "match")
    assert desk.tied == [0, 1]


def test_aibrix_gate():
    """8 apart is even, 9 is not: then only the least loaded are candidates, with their matches."""
    desk = Desk(PrefixCache(std_dev_factor=9.0), 0, 0)
    desk.choose(prompt((1, 50)))
    desk.load(8, 0)
    assert desk.choose(prompt((1, 50))) == (0, "match")
    desk.load(9, 0)
    assert desk.choose(prompt((1, 50))) == (1, "match_too_busy")
    assert desk.choose(prompt((1, 50))) == (1, "match")


def test_aibrix_forgets():
    """20 minutes after its last use a prompt is unknown."""
    desk = Desk(PrefixCache(), 0, 0)
    desk.choose(prompt((1, 50)), now=0.0)
    assert desk.choose(prompt((1, 50)), now=1199.0) == (0, "match")
    assert desk.choose(prompt((1, 50)), now=2398.9)[1] == "match"
    assert desk.choose(prompt((1, 50)), now=3599.0)[1] == "no_match"


# Prefill times of Preble and AIBrix


@pytest.mark.parametrize(
    ("time", "tokens", "context", "ms"),
    [
        (A6000, 100, 100, 22 + 0.32),
        (A6000, 200, 200, -118 + 250 - 102.4 + 0.32),
        (A6000, 1000, 1000, 108.42571 + 4.209777054806409 + 0.32),
        (A6000, 1000, 2000, 108.42571 + 4.209777054806409 + (0.372 + 0.159) / 2),
        (A6000, 2000, 2000, 216.85142 + 4.209777054806409 + 0.372 + 0.159),
        (A6000, 5000, 5000, 542.12855 + 4.209777054806409 + 0.93 + 0.159 - 7.37 + 19.3 + 54.0),
        (V100, 100, 100, 55 + 0.8),
        (V100, 1000, 1000, 271.06428 + 10.52444263 + 0.8),
        (V100, 0, 2000, 55 + 0.93 + 0.398),
    ],
)
def test_prefill_times(time, tokens, context, ms):
    """The fitted formula by hand, on both sides of its limits."""
    assert time.seconds(tokens, context) == pytest.approx(ms / 1000 / 0.9)


# AIBrix preble


def test_over_half_is_a_match():
    """51 of 100 tokens are over half, 50 are not: then the pod of lowest cost, first on a tie."""
    desk = Desk(PrefixCachePreble(), 0, 0)
    assert desk.choose(prompt((1, 51), (2, 49))) == (0, "cost")
    assert desk.choose(prompt((1, 51), (3, 49))) == (0, "match")
    assert desk.choose(prompt((1, 50), (4, 50))) == (1, "cost")


def test_costs_are_levelled():
    """Misses go in turn while their costs are equal; a long prompt costs more than two short ones."""
    desk = Desk(PrefixCachePreble(decoding_length=0), 0, 0)
    assert [desk.choose(prompt((source, 100)))[0] for source in range(4)] == [0, 1, 0, 1]
    assert desk.choose(prompt((9, 8000)))[0] == 0
    assert [desk.choose(prompt((source, 100)))[0] for source in range(10, 16)] == [1] * 6


def test_of_several_owners_the_fewest_requests():
    """Two pods have the prefix: that with fewer requests in the window, chance if equal; then who is available."""
    desk = Desk(PrefixCachePreble(), 0, 0)
    desk.choose(prompt((1, 100)))
    desk.up(False, True)
    assert desk.choose(prompt((1, 100))) == (1, "cost")
    desk.up(True, True)
    desk.choose(prompt((1, 100), (2, 9)))
    assert desk.tied == [0, 1]
    assert desk.choose(prompt((1, 100), (3, 9))) == (1, "match")
    desk.up(True, False)
    assert desk.choose(prompt((1, 100))) == (0, "match")


def test_the_window_slides():
    """After three minutes nothing counts: costs are 0 and the first pod serves; the tree still knows its prompts."""
    desk = Desk(PrefixCachePreble(), 0, 0)
    assert desk.choose(prompt((1, 100)), now=0.0)[0] == 0
    assert desk.choose(prompt((2, 100)), now=180.0)[0] == 1
    assert desk.choose(prompt((3, 100)), now=361.0)[0] == 0
    assert desk.choose(prompt((2, 100)), now=600.0) == (1, "match")


def test_preble_is_restricted_while_the_pool_is_uneven():
    """8 apart is even, 9 is not: then only pods with fewest are candidates, for a match and for the cost."""
    desk = Desk(PrefixCachePreble(), 0, 0, 0)
    desk.choose(prompt((1, 100)))
    desk.load(8, 0, 0)
    assert desk.choose(prompt((1, 100))) == (0, "match")
    desk.load(9, 0, 0)
    assert desk.choose(prompt((1, 100)))[1] == "cost"
    assert desk.tied == [1, 2]
    assert desk.choose(prompt((1, 100))) == (1, "match")


def test_the_gpu_can_be_named():
    """On an A6000 8,000 tokens are cheaper than 120 short decodes; on a V100 the other coefficients apply."""
    costs = {}
    for gpu in ("A6000", "V100"):
        desk = Desk(PrefixCachePreble(target_gpu=gpu), 0)
        desk.choose(prompt((1, 8000)))
        costs[gpu] = desk.policy._costs(desk.fleet.engines)[desk.fleet.engines[0]]
    assert costs["V100"] / costs["A6000"] == pytest.approx(
        (V100.seconds(8000, 8000) + 6.75) / (A6000.seconds(8000, 8000) + 6.75)
    )


# Preble E2


def sent(desk, *spans, now=0.0, max_tokens=None):
    request = prompt(*spans)
    request.max_tokens = max_tokens
    return desk.send(request, now)


def branch(desk, *spans, now=0.0):
    return desk.choose(prompt(*spans), now)


def test_e2_explores_then_exploits():
    """A new prompt goes to the cheapest, one with a shorter new part to its owner; equal parts explore."""
    desk = Desk(E2(), 0, 0)
    assert branch(desk, (1, 100)) == (0, "explore")
    assert branch(desk, (1, 100), (2, 99)) == (0, "exploit")
    assert branch(desk, (3, 100)) == (1, "explore")
    assert branch(desk, (3, 100), (4, 100))[1] == "explore"


def test_e2_levels_cost():
    """Equal prompts in turn; requests under way add 0.15 s for each token they may generate."""
    desk = Desk(E2(), 0, 0)
    first = sent(desk, (1, 100), max_tokens=1000)
    assert first[0] == 0
    assert [sent(desk, (source, 100), max_tokens=10)[0] for source in range(2, 6)] == [1, 1, 1, 1]
    desk.end(*first)
    assert branch(desk, (9, 100))[0] == 0


def test_e2_takes_a_place_for_a_number():
    """GPUs 1 and 2 have the prefix and 2 is cheaper: its place in the set is 1, so GPU 1 serves; fixed, GPU 2 does."""
    for fix, expected in [(False, 1), (True, 2)]:
        desk = Desk(E2(index_fix=fix), 0, 0, 0)
        branch(desk, (1, 100))  # GPU 0
        branch(desk, (2, 100))  # GPU 1
        node = desk.policy._leaf
        desk.policy._gpus[node] = [desk.fleet.engines[1], desk.fleet.engines[2]]
        desk.policy._active[node] = {desk.fleet.engines[1]: 5}
        assert branch(desk, (2, 100), (3, 50)) == (expected, "exploit")


def test_e2_replaces_who_is_down():
    """The owner is down: the cheapest of those that are up; it does not become an owner by that."""
    desk = Desk(E2(), 0, 0, 0)
    branch(desk, (1, 100))
    desk.up(False, True, True)
    assert branch(desk, (1, 100), (2, 50)) == (1, "exploit")
    desk.up(True, True, True)
    assert branch(desk, (1, 100), (3, 50)) == (0, "exploit")


def test_e2_without_an_owner():
    """The owner left: what exploits its prefix may go anywhere, and the cheapest takes it."""
    desk = Desk(E2(), 0, 0, 0)
    branch(desk, (1, 100))
    desk.leave(0)
    assert branch(desk, (1, 100), (2, 50)) == (1, "exploit")


def test_e2_forgets_after_the_window():
    """A node without a request for three minutes is nobody's: what exploits it then may go anywhere."""
    desk = Desk(E2(), 0, 0)
    branch(desk, (1, 100), now=0.0)
    assert branch(desk, (1, 100), (2, 10), now=180.0) == (0, "exploit")
    desk = Desk(E2(), 0, 0)
    branch(desk, (1, 100), now=0.0)
    branch(desk, (5, 100), now=1.0)
    assert branch(desk, (6, 100), now=200.0) == (0, "explore")


def test_e2_slides_its_window_after_the_choice():
    """A pause of three minutes: the next choice still sees the costs from before it, the one after does not."""
    desk = Desk(E2(), 0, 0)
    assert branch(desk, (1, 8000), now=0.0) == (0, "explore")
    assert branch(desk, (5, 100), now=1.0) == (1, "explore")
    assert branch(desk, (6, 100), now=200.0) == (1, "explore")
    assert branch(desk, (7, 100), now=201.0) == (0, "explore")


def test_e2_moves_visits_to_the_upper_part():
    """A prompt splits a long node: the shared part has the visits if it is the larger one, and its GPU."""
    desk = Desk(E2(), 0, 0)
    branch(desk, (1, 100), now=0.0)
    assert branch(desk, (1, 80), (2, 20), now=1.0) == (0, "exploit")
    (node,) = desk.policy._window.visits
    assert (node.size, desk.policy._window.visits[node].count, desk.policy._window.visits[node].depth) == (80, 2, 80)
    desk = Desk(E2(), 0, 0)
    branch(desk, (1, 100), now=0.0)
    branch(desk, (1, 40), (2, 90), now=1.0)
    assert sorted(node.size for node in desk.policy._window.visits) == [60, 90]


def test_e2_ignores_unknown_answers():
    """The end of a request that was never sent changes nothing, and two attempts of one end twice."""
    desk = Desk(E2(), 0, 0)
    desk.policy.completed(prompt((1, 9)), desk.fleet.engines[0])
    request = prompt((1, 100))
    one, two = desk.send(request), desk.send(request)
    desk.end(*one)
    desk.end(*two)
    assert desk.policy._leaves == {}
