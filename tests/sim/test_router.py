"""The router: what it writes down of a decision, what it counts, what it tells its policy."""

import random

from sim.replication import replicate
from tests.sim.spies import Refusing, Spy, under
from tests.strategies import cell_of, world

MS = 1_000_000


def test_a_decision_is_written_with_its_branch_and_counts():
    """Three requests at once on two engines: what each saw in flight, at its engine and in all."""
    cell = cell_of(world(engines=2, workload={"groups": 3}))
    log = replicate(under(cell, Spy()), 0)
    decisions = log.numpy("decisions")
    assert [log.branches[code] for code in decisions["branch"]] == ["turn"] * 3
    assert decisions["engine"].tolist() == [0, 1, 0]
    assert decisions["in_flight"].tolist() == [0, 0, 1]
    assert decisions["total_in_flight"].tolist() == [0, 1, 2]


def test_what_ended_is_no_longer_in_flight():
    """Turns follow each other at once: each finds nobody in flight."""
    decisions = replicate(cell_of(world(workload={"turns": 4})), 0).numpy("decisions")
    assert decisions["in_flight"].tolist() == [0, 0, 0, 0]
    assert decisions["at"].tolist() == [0, 50 * MS, 100 * MS, 150 * MS]


def test_a_policy_hears_of_each_request_twice():
    """Dispatched with it counted, completed with it no longer counted."""
    spy = Spy()
    replicate(under(cell_of(world(workload={"groups": 2})), spy), 0)
    assert spy.heard == [
        ("dispatched", 0, 0, 1),
        ("dispatched", 1, 0, 2),
        ("completed", 0, 0, 1),
        ("completed", 1, 0, 0),
    ]


def test_a_refusal_fails_the_request_at_once():
    """No engine, no time, nothing in flight; the branch says why."""
    spy = Refusing()
    log = replicate(under(cell_of(world(workload={"groups": 3})), spy), 0)
    requests, decisions = log.numpy("requests"), log.numpy("decisions")
    refused = requests["request"] == 2
    assert requests["status"][refused] == [1]
    assert requests["engine"][refused] == [-1]
    assert requests["ended"][refused] == requests["submitted"][refused] == [0]
    assert requests["output_tokens"][refused] == [0]
    assert decisions["engine"].tolist() == [0, 0, -1]
    assert log.branches[decisions["branch"][2]] == "no_engine"
    assert [heard for heard in spy.heard if heard[1] == 2] == []


def test_a_decision_takes_time():
    """Requests arrive ``overhead_s`` after they were submitted, and count as in flight meanwhile."""
    log = replicate(cell_of(world(workload={"groups": 2}, overhead_s=0.003)), 0)
    requests, decisions = log.numpy("requests"), log.numpy("decisions")
    assert requests["arrived"].tolist() == [3 * MS, 3 * MS]
    assert decisions["in_flight"].tolist() == [0, 1]


def test_a_rejected_request_leaves_nothing_in_flight():
    """An engine that cannot ever hold a request answers it; the router counts it out again."""
    spy = Spy()
    cell = cell_of(world(engine={"kv_tokens": 64}, workload={"groups": 2, "prompt": {"group_tokens": 100}}))
    log = replicate(under(cell, spy), 0)
    assert log.numpy("requests")["status"].tolist() == [2, 2]
    assert [heard[:2] for heard in spy.heard if heard[0] == "completed"] == [("completed", 0), ("completed", 1)]


def test_picks_follow_weights():
    """``pick`` takes candidates evenly, or by weight."""

    class Weighted(Spy):
        def __init__(self, weights):
            super().__init__()
            self.weights = weights

        def choose(self, request, fleet, now, pick):
            return pick(fleet.available, self.weights), "pick", 0

    workload = {"groups": 3000, "output_tokens": 1, "max_tokens": 1}
    for weights, share in ((None, 0.5), ([1, 3], 0.25)):
        log = replicate(under(cell_of(world(engines=2, workload=workload)), Weighted(weights)), 0)
        engines = log.numpy("decisions")["engine"]
        assert abs((engines == 0).mean() - share) < 4 * (share * (1 - share) / 3000) ** 0.5


def test_policies_draw_from_their_own_stream():
    """Python's global generator is neither used nor moved."""
    random.seed(5)
    state = random.getstate()
    replicate(cell_of(world(engines=3, workload={"groups": 9}, policy={"kind": "random"})), 0)
    assert random.getstate() == state


def test_regret_by_hand():
    """Three turns of 100, 125 and 150 tokens dealt in turn to two engines that cache whole blocks of 16.

    The second goes where nothing is: engine 0 has the first prompt and its answer, 105 tokens, six blocks. The third
    goes to engine 0, which has 96 of it; engine 1 has the second prompt and its answer, 130 tokens, eight blocks.
    """
    workload = {"turns": 3, "observation_tokens": 20}
    log = replicate(under(cell_of(world(engines=2, workload=workload, router={"record_regret": True})), Spy()), 0)
    decisions = log.numpy("decisions")
    assert decisions["engine"].tolist() == [0, 1, 0]
    assert decisions["best_engine"].tolist() == [0, 0, 1]
    assert decisions["regret_tokens"].tolist() == [0, 96, 32]
    assert decisions["regret_work"].tolist() == [0, 0, 0]


def test_regret_in_work_by_hand():
    """One place an engine; five prompts at once dealt in turn, each after 1 ms of decision: what waits counts."""
    router = {"record_regret": True, "decision": {"fixed_s": 0.001}}
    workload = {"groups": 5, "output_tokens": 50, "max_tokens": 50}
    cell = cell_of(world(engines=2, engine={"max_num_seqs": 1}, workload=workload, router=router))
    decisions = replicate(under(cell, Spy()), 0).numpy("decisions")
    assert decisions["engine"].tolist() == [0, 1, 0, 1, 0]
    # at the fourth choice one waits at engine 0 and none at engine 1; at the fifth one waits at each
    assert decisions["regret_work"].tolist() == [0, 0, 0, 0, 0]
    assert decisions["best_engine"].tolist() == [0, 0, 0, 1, 0]


def test_a_target_is_a_header_with_an_index():
    """An explicit key for each session, sent as X-SMG-Target-Worker, names a place in the router's own order."""
    client = {"header": "X-SMG-Target-Worker", "keys": {0: "2", 1: "0", 2: "2", 3: "1"}}
    policy = {"kind": "smg.consistent_hashing"}
    log = replicate(cell_of(world(engines=3, workload={"groups": 4, "turns": 2}, client=client, policy=policy)), 0)
    decisions = log.numpy("decisions")
    assert log.branches == ["target_worker_hit"]
    engines = [set(decisions["engine"][decisions["request"] // 2 == session].tolist()) for session in range(4)]
    assert engines[0] == engines[2]
    assert sorted(map(sorted, engines[1:])) == [[0], [1], [2]]


def test_a_policy_hears_of_first_tokens():
    """At their time, once, before the answer ends; also where the only token is the last."""
    heard = []

    class Streams(Spy):
        def first_token(self, request, engine):
            heard.append((request.id, engine.index))
            self.heard.append(("first_token", request.id, engine.index, engine.in_flight))

    for output in (1, 5):
        spy = Streams()
        workload = {"groups": 2, "output_tokens": output, "max_tokens": output}
        replicate(under(cell_of(world(engines=2, workload=workload)), spy), 0)
        order = [(what, request) for what, request, _, _ in spy.heard if request == 1]
        assert order == [("dispatched", 1), ("first_token", 1), ("completed", 1)]
    assert heard == [(0, 0), (1, 1)] * 2
