"""The client: caps on sessions under way, order of starts, turns, and routing keys by scope."""

import numpy as np
import pytest

from sim.errors import ScenarioError
from sim.replication import Streams, replicate
from tests.sim.spies import KeyedSpy, Refusing, Spy, under
from tests.strategies import cell_of, world

KEY = "x-smg-routing-key"


def most_under_way(log):
    """Sessions that were under way at once, at most: a session holds its place through all its turns."""
    requests = log.numpy("requests")
    changes = []
    for session in np.unique(requests["session"]):
        mine = requests["session"] == session
        changes += [(requests["submitted"][mine].min(), 1), (requests["ended"][mine].max(), -1)]
    return max(np.cumsum([change for _, change in sorted(changes)]))


@pytest.mark.parametrize(
    ("client", "cap"),
    [({}, 12), ({"max_sessions_in_flight": 5}, 5), ({"max_sessions_per_engine": 2}, 4)],
    ids=["no cap", "of the job", "for each engine"],
)
def test_caps_on_sessions_under_way(client, cap):
    """As many sessions as the cap allows are under way, not one more, and all are served."""
    workload = {
        "groups": 4,
        "samples_per_group": 3,
        "turns": 3,
        "tool_delay_s": 0.05,
        "output_tokens": {"kind": "uniform", "low": 1, "high": 9},
        "max_tokens": 9,
    }
    log = replicate(cell_of(world(engines=2, workload=workload, client=client)), 0)
    assert most_under_way(log) == cap
    assert len(log.numpy("requests")["session"]) == 36


def test_who_waits_for_a_place_starts_in_order():
    """Under a cap of one, sessions run one after the other in order of arrival, each at the end of the one before."""
    workload = {"groups": 5, "turns": 2, "tool_delay_s": 0.03}
    log = replicate(cell_of(world(workload=workload, client={"max_sessions_in_flight": 1})), 0)
    requests = log.numpy("requests")
    assert requests["session"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    starts, ends = requests["submitted"], requests["ended"]
    assert (starts[2::2] == ends[1:-1:2]).all()
    assert (starts[1::2] == ends[::2] + 30_000_000).all()


def test_groups_wait_together_and_are_written_when_done():
    """A group's time is its arrival, also of members that a cap holds back."""
    workload = {"groups": 2, "samples_per_group": 2}
    groups = replicate(cell_of(world(workload=workload, client={"max_sessions_in_flight": 1})), 0).numpy("groups")
    # Four requests of five steps of 10 ms, one after the other.
    assert groups["arrived"].tolist() == [0, 0]
    assert groups["ended"].tolist() == [100_000_000, 200_000_000]
    assert groups["finished"].tolist() == groups["sessions"].tolist() == [2, 2]


def headers(policy, scope, keys=None, turns=2):
    """Routing key of each (session, turn) as the policy saw it, of two groups of three samples."""
    workload = {"groups": 2, "samples_per_group": 3, "turns": turns}
    cell = cell_of(world(workload=workload, client={"key_scope": scope, "keys": keys}))
    replicate(under(cell, policy), 0)
    return {divmod(request.id, turns): request.headers.get(KEY) for _, request in policy.asked}


def test_group_scope_gives_siblings_one_key():
    """Siblings carry one header value in all turns, groups different ones."""
    seen = headers(KeyedSpy(), "group")
    assert len(seen) == 12
    groups = [{key for (session, _), key in seen.items() if session // 3 == group} for group in (0, 1)]
    assert [len(keys) for keys in groups] == [1, 1]
    assert not groups[0] & groups[1]


def test_session_scope_gives_each_sibling_its_own():
    """Six sessions, six keys, the same in every turn."""
    seen = headers(KeyedSpy(), "session")
    assert all(seen[session, 0] == seen[session, 1] for session in range(6))
    assert len({seen[session, 0] for session in range(6)}) == 6


def test_request_scope_gives_each_request_its_own():
    """Twelve requests, twelve keys; a policy that reads none gets none."""
    assert len(set(headers(KeyedSpy(), "request").values())) == 12
    assert set(headers(Spy(), "request").values()) == {None}


def test_an_explicit_key_is_inherited_by_its_group():
    """Under group scope the key of one sample is the key of its siblings; under session scope it is its own alone."""
    seen = headers(KeyedSpy(), "group", {1: "mine"})
    assert [seen[session, 0] == "mine" for session in range(6)] == [True, True, True, False, False, False]
    seen = headers(KeyedSpy(), "session", {1: "mine"})
    assert [seen[session, 1] == "mine" for session in range(6)] == [False, True, False, False, False, False]


def test_two_keys_in_a_group_are_refused():
    """Either choice would break somebody's placement."""
    with pytest.raises(ScenarioError, match="one key"):
        headers(KeyedSpy(), "group", {0: "mine", 2: "yours"})


def test_the_header_can_be_named():
    """A key travels in the header that the scenario names."""
    spy = Spy()
    cell = cell_of(world(client={"key_scope": "session", "header": "X-My-Key"}))
    replicate(under(cell, spy), 0)
    assert list(spy.asked[0][1].headers) == ["x-my-key"]


def test_policies_do_not_see_the_realised_length():
    """What a policy is shown holds the limit and nothing of the output."""
    spy = Spy()
    replicate(under(cell_of(world(workload={"output_tokens": 3, "max_tokens": 77})), spy), 0)
    (_, request), *_ = spy.asked
    shown = {name: getattr(request, name) for name in request.__slots__}
    assert (shown["prompt_tokens"], shown["max_tokens"]) == (100, 77)
    assert 3 not in shown.values()


def test_a_refused_turn_ends_its_session():
    """Of sessions of three turns the third is refused: their groups end unfinished, and a place becomes free."""
    workload = {"groups": 4, "turns": 3}
    cell = cell_of(world(workload=workload, client={"max_sessions_in_flight": 1}))
    log = replicate(under(cell, Refusing()), 0)
    requests, groups = log.numpy("requests"), log.numpy("groups")
    assert requests["status"].tolist() == [0, 0, 1] * 4
    assert groups["finished"].tolist() == [0] * 4
    assert (groups["ended"] == requests["ended"][2::3]).all()


def test_a_turn_after_a_refusal_is_not_sent():
    """Sessions of four turns send three."""
    log = replicate(under(cell_of(world(workload={"turns": 4})), Refusing()), 0)
    assert log.numpy("requests")["turn"].tolist() == [0, 1, 2]


def test_prompts_are_those_of_the_workload():
    """What the router sees is, turn by turn, what the workload generates."""
    spy = Spy()
    workload = {"groups": 2, "turns": 3, "observation_tokens": 7}
    cell = under(cell_of(world(workload=workload)), spy)
    replicate(cell, 0)
    offered = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    for _, request in spy.asked:
        session, turn = divmod(request.id, 3)
        assert request.content == offered.session(session).turns[turn].prompt
