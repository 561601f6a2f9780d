"""Decision tables of the routers inside RL frameworks, worked by hand from their descriptions."""

import hashlib

import pytest

from policies._protocol import EngineView, FleetView
from policies.areal.sticky_round_robin import StickyRoundRobin
from policies.gym.counter import Counter
from policies.nemo_rl.least_in_flight import LeastInFlight
from policies.openrlhf.least_unfinished import LeastUnfinished
from policies.prime_rl.consistent_hash import ConsistentHash
from policies.roll.env_affinity import EnvAffinity
from policies.roll.prompt_affinity import PromptAffinity
from policies.skyrl.agent_service import AgentService
from policies.skyrl.session_hash import SessionHash
from policies.slime.router import Router
from policies.verl.global_load_balancer import GlobalLoadBalancer
from policies.vllm.consistent_hash import ConsistentHash as VllmConsistentHash
from tests.policies.worlds import Desk, Picks, ask

EVERY = pytest.mark.parametrize(
    "cls",
    [
        AgentService,
        ConsistentHash,
        Counter,
        EnvAffinity,
        GlobalLoadBalancer,
        LeastInFlight,
        LeastUnfinished,
        PromptAffinity,
        Router,
        SessionHash,
        StickyRoundRobin,
    ],
)


@EVERY
def test_nobody_is_there(cls):
    """Without an available engine nothing is chosen, with a key and without."""
    desk = Desk(cls(), 0, 0)
    desk.up(False, False)
    assert desk.choose() == desk.choose(x_session_id="a") == (None, "no_engine")


# slime's router


def test_slime_takes_fewest_then_first():
    """Fewest active; the first of equals; a dead one is skipped; a joining idle one gets the next."""
    for middleware in (False, True):
        desk = Desk(Router(radix_tree_middleware=middleware), 2, 1, 1)
        assert desk.choose() == (1, "least_loaded")
        desk.up(True, False, True)
        assert desk.choose(x_session_id="a") == (2, "least_loaded")
        desk.join()
        assert desk.choose(x_session_id="a") == (3, "least_loaded")
        desk.leave(3)
        desk.up(True, True, True)
        desk.load(0, 0, 0)
        places = []
        for _ in range(200):
            index, request = desk.send()
            desk.end(index, request)
            places.append(index)
        assert places == [0] * 200


# NeMo-RL


def test_ties_go_by_address():
    """Of equals the address that comes first as a text, wherever it stands in the list; port 10000 before 9000."""
    engines = [EngineView(0, "http://a:9000"), EngineView(1, "http://a:10000"), EngineView(2, "http://b:1")]
    fleet = FleetView(engines, list(engines))
    policy = LeastInFlight()

    def choose():
        return policy.choose(ask(0), fleet, 0.0, Picks(0))[0].index

    assert choose() == 1
    engines[1].in_flight = 1
    assert choose() == 0
    engines[0].in_flight = 1
    assert choose() == 2
    engines[2].in_flight = 1
    assert choose() == 1
    fleet.available.remove(engines[1])
    assert choose() == 0


# verl


def test_a_trajectory_stays_with_verl():
    """New ids go to the fewest in flight, first on ties; known ones stay; a keyless request is new."""
    desk = Desk(GlobalLoadBalancer(), 1, 0, 0)
    assert desk.choose(x_session_id="a") == (1, "new_id")
    desk.load(0, 9, 0)
    assert desk.choose(x_session_id="a") == (1, "known_id")
    assert desk.choose() == (0, "new_id")
    assert desk.tied == []


def test_verl_moves_for_good():
    """An id whose server is down or gone is placed anew and stays there; a joining server takes nothing."""
    desk = Desk(GlobalLoadBalancer(), 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_id")
    desk.up(False, True)
    assert desk.choose(x_session_id="a") == (1, "moved_id")
    desk.up(True, True)
    assert desk.choose(x_session_id="a") == (1, "known_id")
    desk.join()
    assert desk.choose(x_session_id="a") == (1, "known_id")
    desk.leave(1)
    assert desk.choose(x_session_id="a") == (0, "new_id")


def test_verl_remembers_so_many_ids():
    """With room for two, the third drives out the least recently used; a known id counts as used."""
    desk = Desk(GlobalLoadBalancer(max_cache_size=2), 0, 0)
    for key in "aba":
        desk.choose(x_session_id=key)
    desk.choose(x_session_id="c")
    desk.load(9, 0)
    assert desk.choose(x_session_id="a") == (0, "known_id")
    assert desk.choose(x_session_id="b") == (1, "new_id")


def test_verl_by_hash():
    """Under full determinism load means nothing; ids are spread over all servers, and margins do not move them."""
    desk = Desk(GlobalLoadBalancer(full_determinism=True, affinity_break_margin=1, balance_abs_threshold=1), 0, 0, 0)
    homes = {key: desk.choose(x_session_id=key) for key in "abcdefgh"}
    assert {branch for _, branch in homes.values()} == {"hash"}
    assert {place for place, _ in homes.values()} == {0, 1, 2}
    desk.load(9, 0, 0)
    for key, (place, _) in homes.items():
        assert desk.choose(x_session_id=key) == (place, "known_id")


def test_verl_by_hash_keeps_known_ids():
    """The map is asked before the hash: a server that joins moves no known id, and takes new ones."""
    desk = Desk(GlobalLoadBalancer(full_determinism=True), 0, 0)
    homes = {str(key): desk.choose(x_session_id=str(key))[0] for key in range(8)}
    desk.join()
    assert homes == {key: desk.choose(x_session_id=key)[0] for key in homes}
    assert 2 in {desk.choose(x_session_id=f"new {key}")[0] for key in range(20)}


def test_verl_balance_thresholds():
    """Pull request 6533: known ids are placed anew while max - min > abs and max > rel * min, both strictly."""
    desk = Desk(GlobalLoadBalancer(balance_abs_threshold=4, balance_rel_threshold=2.0), 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_id")
    for loads, choice in (
        ((4, 0), (0, "known_id")),  # a difference of exactly 4
        ((10, 5), (0, "known_id")),  # more than 4, and exactly twice
        ((5, 0), (1, "moved_id")),
        ((0, 5), (0, "moved_id")),
        ((5, 0), (1, "moved_id")),
        ((11, 5), (1, "moved_id")),  # placed anew, at the least loaded server: where it was
    ):
        desk.load(*loads)
        assert desk.choose(x_session_id="a") == choice, loads


def test_verl_ties_and_margin():
    """Random ties are asked of chance; a margin of 2 lets a server be 2 above the least, not 3."""
    desk = Desk(GlobalLoadBalancer(tie="random", affinity_break_margin=2), 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_id")
    assert desk.tied == [0, 1]
    desk.load(2, 0)
    assert desk.choose(x_session_id="a") == (0, "known_id")
    desk.load(3, 0)
    assert desk.choose(x_session_id="a") == (1, "moved_id")
    with pytest.raises(ValueError, match=r"^affinity_break_margin must be zero or more"):
        GlobalLoadBalancer(affinity_break_margin=-1)


# NeMo Gym's counter


def test_one_ledger_counts_sessions():
    """The k-th new session goes to k mod N and stays; requests without a session are new ones."""
    desk = Desk(Counter(), 0, 0, 0)
    assert [desk.choose(x_session_id=key) for key in "abac"] == [
        (0, "new_session"),
        (1, "new_session"),
        (0, "known_session"),
        (2, "new_session"),
    ]
    assert desk.choose() == (0, "new_session")
    assert desk.choose() == (1, "new_session")


def test_an_endpoint_that_is_down_is_not_replaced():
    """Its sessions are refused and stay in the ledger; a joining endpoint is N + 1 for all from then on."""
    desk = Desk(Counter(), 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_session")
    desk.up(False, True)
    assert desk.choose(x_session_id="a") == (None, "unavailable")
    desk.up(True, True)
    desk.choose(x_session_id="b")
    desk.join()
    assert desk.choose(x_session_id="c") == (2, "new_session")


def test_each_process_has_its_ledger():
    """A session that changes process is new there: pinned to two engines, and known to both when it returns."""
    desk = Desk(Counter(processes=2), 0, 0, 0)
    served = iter([0, 0, 1, 0, 1])
    desk._pick = lambda _candidates: next(served)
    answers = [desk.choose(x_session_id=key) for key in "abbbb"]
    assert answers == [
        (0, "new_session"),
        (1, "new_session"),
        (0, "new_session"),
        (1, "known_session"),
        (0, "known_session"),
    ]


@pytest.mark.parametrize(("share", "asked"), [(0.0, [0, 1, 2]), (0.25, [True, False]), (1.0, [])])
def test_a_turn_may_stay_with_its_process(share, asked):
    """Share 0 draws a process each time, 1 never again, 0.25 draws whether it stays, at odds of 1 to 3."""
    desk = Desk(Counter(processes=3, stay_share=share), 0)
    desk.choose(x_session_id="a")
    assert desk.tied == [0, 1, 2]
    desk.choose(x_session_id="a")
    assert desk.tied == asked
    assert desk.weights == ((0.25, 0.75) if asked == [True, False] else None)


def test_many_processes_scatter_a_session():
    """With 8 processes and a random one each time, 40 turns meet several engines; with one process a single one."""

    def engines_of(processes):
        desk = Desk(Counter(processes=processes), *[0] * 4)
        desk._pick = Picks(5)
        for _ in range(30):
            for key in "abcdefg":
                desk.choose(x_session_id=key)
        return {desk.choose(x_session_id="a")[0] for _ in range(40)}

    assert len(engines_of(1)) == 1
    assert len(engines_of(8)) > 1


# SkyRL


def test_skyrl_takes_eight_bytes_of_the_digest():
    """Modulo the configured engines; down is refused; without a session each engine in turn, down or not."""
    desk = Desk(SessionHash(), *[0] * 7)
    place = int(hashlib.sha256(b"session").hexdigest()[:16], 16) % 7
    assert desk.choose(x_session_id="session") == (place, "session")
    desk.up(*(index != place for index in range(7)))
    assert desk.choose(x_session_id="session") == (None, "unavailable")
    turns = [desk.choose() for _ in range(8)]
    assert turns[place] == (None, "unavailable")
    assert [turn[0] for turn in turns if turn[0] is not None] == [index for index in (*range(7), 0) if index != place]
    assert not desk.tied
    desk.up(*[True] * 7)
    desk.leave(6)
    assert desk.choose(x_session_id="session")[0] == int(hashlib.sha256(b"session").hexdigest()[:16], 16) % 6
    desk.join()
    assert desk.choose(x_session_id="session")[1] == "session"


def test_the_agent_service_in_turn():
    """Weights of 34, 33, 33: three credits in order, then by what each has left; the load does not count."""
    desk = Desk(AgentService(), 5, 0, 0)
    assert [desk.choose(x_trajectory_id="a") for _ in range(4)] == [(0, "turn"), (1, "turn"), (2, "turn"), (0, "turn")]
    placed = [desk.choose()[0] for _ in range(96)]
    assert [placed.count(place) for place in range(3)] == [34 - 2, 33 - 1, 33 - 1]
    desk.up(False, True, True)
    assert [desk.choose()[0] for _ in range(3)] == [1, 2, 1]
    desk.up(False, False, False)
    assert desk.choose() == (None, "no_engine")


def test_the_agent_service_when_sticky():
    """A new trajectory goes by SHA-1 over load; a known one stays, whatever the load; failure moves it for good."""
    desk = Desk(AgentService(sticky=True, streaming=True), 0, 0, 0)
    urls = [engine.url for engine in desk.fleet.engines]

    def best(key, loads, among=(0, 1, 2)):
        hashes = [int(hashlib.sha1(f"{key}{url}".encode(), usedforsecurity=False).hexdigest()[:16], 16) for url in urls]
        return max(among, key=lambda place: hashes[place] / (1 + 0.5 * loads[place]))

    loads = [(0, 0, 0), (3, 0, 1), (9, 9, 0), (1, 2, 4)]
    for number, each in enumerate(loads):
        desk.load(*each)
        assert desk.choose(x_trajectory_id=f"k{number}") == (best(f"k{number}", each), "new_key")
    home = best("k0", loads[0])
    desk.load(*(99 if place == home else 0 for place in range(3)))
    assert desk.choose(x_trajectory_id="k0") == (home, "sticky")
    desk.load(0, 0, 0)
    desk.up(*(place != home for place in range(3)))
    away = best("k0", (0, 0, 0), [place for place in range(3) if place != home])
    assert desk.choose(x_trajectory_id="k0") == (away, "moved_key")
    desk.up(True, True, True)
    assert desk.choose(x_trajectory_id="k0") == (away, "sticky")
    desk.leave(away)
    assert desk.choose(x_trajectory_id="k0") == (home, "new_key")
    assert desk.choose() == (0 if away else 1, "turn")


def test_the_agent_service_sees_no_load_without_streaming():
    """A request counts from the head of its answer, which comes at its end: the hash alone decides."""
    desk = Desk(AgentService(sticky=True), 0, 0, 0)
    idle = [desk.choose(x_trajectory_id=f"k{number}")[0] for number in range(20)]
    loaded = Desk(AgentService(sticky=True), 0, 0, 0)
    loaded.load(99, 3, 0)
    assert [loaded.choose(x_trajectory_id=f"k{number}")[0] for number in range(20)] == idle
    seeing = Desk(AgentService(sticky=True, streaming=True), 99, 3, 0)
    assert [seeing.choose(x_trajectory_id=f"k{number}")[0] for number in range(20)] != idle


# AReaL


def test_areal_turns_from_a_random_address():
    """New ids in turn from a place that chance gives once; known ids stay."""
    desk = Desk(StickyRoundRobin(), 0, 9, 0)
    assert desk.choose(x_session_id="a") == (0, "new_id")
    assert desk.tied == [0, 1, 2]
    assert desk.choose(x_session_id="b") == (1, "new_id")
    assert desk.tied == []
    assert desk.choose(x_session_id="a") == (0, "known_id")
    assert desk.choose() == (2, "new_id")
    assert desk.choose(x_session_id="c") == (0, "new_id")


def test_areal_forgets_in_order_of_coming():
    """With room for two, using the first id does not keep it: the third drives it out."""
    desk = Desk(StickyRoundRobin(rid_cache_size=2), 0, 0, 0)
    for key in "abac":
        desk.choose(x_session_id=key)
    assert desk.choose(x_session_id="a") == (0, "new_id")
    assert desk.choose(x_session_id="c") == (2, "known_id")


@pytest.mark.parametrize(("ids", "known"), [(128, 128), (129, 0)])
def test_one_id_too_many_loses_all(ids, known):
    """128 ids in rotation all find their server again, 129 none."""
    desk = Desk(StickyRoundRobin(), *[0] * 5)
    for key in range(ids):
        desk.choose(x_session_id=f"{key}")
    assert sum(desk.choose(x_session_id=f"{key}")[1] == "known_id" for key in range(ids)) == known


def test_areal_skips_who_is_down():
    """The turn goes on to the next that is up; an id whose server is down moves; one whose server left is new."""
    desk = Desk(StickyRoundRobin(), 0, 0, 0)
    assert desk.choose(x_session_id="a") == (0, "new_id")
    desk.up(False, False, True)
    assert desk.choose(x_session_id="b") == (2, "new_id")
    assert desk.choose(x_session_id="a") == (2, "moved_id")
    desk.up(True, True, True)
    assert desk.choose(x_session_id="a") == (2, "known_id")
    desk.leave(2)
    assert desk.choose(x_session_id="a") == (0, "new_id")


# prime-rl


def test_prime_rl_is_the_ring_of_vllm():
    """The same places for a session, and one engine for all that have none, whatever other headers say."""
    ours, theirs = Desk(ConsistentHash(), *[0] * 4), Desk(VllmConsistentHash(), *[0] * 4)
    for key in map(str, range(40)):
        assert ours.choose(x_session_id=key) == theirs.choose(x_session_id=key)
    assert len({ours.choose(x_user_id=key) for key in map(str, range(40))}) == 1
    assert len({theirs.choose(x_user_id=key) for key in map(str, range(40))}) > 1
    ours.up(False, True, True, True)
    assert {ours.choose(x_session_id=key)[1] for key in map(str, range(40))} == {"key", "first_available"}
    ours.leave(0)
    assert {ours.choose(x_session_id=key)[1] for key in map(str, range(40))} == {"key"}
    ours.join()
    assert {ours.choose(x_session_id=key)[0] for key in map(str, range(40))} == {1, 2, 3, 4}


# ROLL


def test_environments_are_counted_not_requests():
    """Three environments on two ranks: 0, 1, 0, whatever is in flight; without an id nothing is assigned."""
    desk = Desk(EnvAffinity(), 9, 0)
    assert desk.choose() == (0, "no_env")
    assert [desk.choose(x_session_id=key) for key in "abc"] == [(0, "new_env"), (1, "new_env"), (0, "new_env")]
    assert desk.choose(x_session_id="a") == (0, "known_env")
    assert desk.choose() == (1, "no_env")


def test_an_environment_moves_with_its_count():
    """A rank that is down loses the environment to another for good; one that left is forgotten."""
    desk = Desk(EnvAffinity(), 0, 0)
    desk.choose(x_session_id="a")
    desk.up(False, True)
    assert desk.choose(x_session_id="a") == (1, "moved_env")
    desk.up(True, True)
    assert desk.choose(x_session_id="a") == (1, "known_env")
    assert desk.choose(x_session_id="b") == (0, "new_env")
    gone = desk.leave(1)
    assert desk.choose(x_session_id="a") == (0, "new_env")
    desk.join(gone)
    assert desk.choose(x_session_id="c") == (1, "new_env")


def test_samples_of_a_prompt_share_a_rank():
    """The first is placed on the least running rank, the others follow, whatever the load."""
    desk = Desk(PromptAffinity(), 1, 0)
    assert desk.choose(x_smg_routing_key="p") == (1, "least_running")
    desk.load(0, 200)
    assert desk.choose(x_smg_routing_key="p") == (1, "known_prompt")
    assert desk.choose(x_smg_routing_key="q") == (0, "least_running")
    assert desk.choose() == (0, "least_running")


def test_all_ranks_full():
    """127 running is free, 128 is not: the least loaded one all the same, and the branch says so."""
    desk = Desk(PromptAffinity(), 127, 128)
    assert desk.choose() == (0, "least_running")
    desk.load(128, 128)
    assert desk.choose() == (0, "all_full")


def test_a_prompt_moves():
    """Down: placed anew; left: new."""
    desk = Desk(PromptAffinity(), 0, 0)
    desk.choose(x_smg_routing_key="p")
    desk.up(False, True)
    assert desk.choose(x_smg_routing_key="p") == (1, "least_running")
    desk.up(True, True)
    assert desk.choose(x_smg_routing_key="p") == (1, "known_prompt")
    desk.leave(1)
    assert desk.choose(x_smg_routing_key="p") == (0, "least_running")


# OpenRLHF


def test_a_batch_is_levelled():
    """Unfinished 5, 0, 2 and four samples each: prompts go to 1, 2, 1, 0, with ties to the lower place."""
    desk = Desk(LeastUnfinished(n_samples_per_prompt=4), 5, 0, 2)
    places = [desk.choose(x_smg_routing_key=key)[0] for key in "abcd"]
    assert places == [1, 2, 1, 0]  # (5,4,2), (5,4,6), (5,8,6), (9,8,6)
    assert desk.choose(x_smg_routing_key="a") == (1, "known_prompt")


def test_a_new_batch_reads_again():
    """At another instant the counts are those of the engines, and what was assigned before stays."""
    desk = Desk(LeastUnfinished(n_samples_per_prompt=4), 0, 0)
    assert [desk.choose(x_smg_routing_key=key, now=0.0)[0] for key in "abc"] == [0, 1, 0]
    assert [desk.choose(x_smg_routing_key=key, now=1.0)[0] for key in "adef"] == [0, 0, 1, 0]


def test_keyless_requests_count_too():
    """Each is a prompt of its own."""
    desk = Desk(LeastUnfinished(), 0, 0)
    assert [desk.choose()[0] for _ in range(4)] == [0, 1, 0, 1]


def test_openrlhf_failure_and_change():
    """Down or gone: assigned anew; a joining engine counts from what it has in flight."""
    desk = Desk(LeastUnfinished(), 0, 0)
    desk.choose(x_smg_routing_key="a")
    desk.up(False, True)
    assert desk.choose(x_smg_routing_key="a") == (1, "smallest_count")
    desk.up(True, True)
    desk.join()
    assert desk.choose(x_smg_routing_key="b") == (2, "smallest_count")
    desk.leave(1)
    assert desk.choose(x_smg_routing_key="a") == (0, "smallest_count")


def test_roll_takes_from_old_ranks_when_one_joins():
    """4 environments on 2 ranks, a third joins: floor(4 * 2 / 3) = 2 stay, and the oldest of each rank is new."""
    desk = Desk(EnvAffinity(), 0, 0)
    assert [desk.choose(x_session_id=key)[0] for key in "abcd"] == [0, 1, 0, 1]
    desk.join()
    assert desk.choose(x_session_id="c") == (0, "known_env")
    assert desk.choose(x_session_id="d") == (1, "known_env")
    assert desk.choose(x_session_id="a") == (2, "new_env")
    assert desk.choose(x_session_id="b") == (0, "new_env")
