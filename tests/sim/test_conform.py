"""The replay of recorded decisions: what it accepts, what it refuses, and how it goes on."""

from dataclasses import dataclass

import pytest

from policies._protocol import Policy, RequestView
from policies.least_load import LeastLoad
from policies.random import Random
from policies.round_robin import RoundRobin
from sim.conform import distribution, open_world, outcomes, replay

ASK = RequestView(0, {}, ((0, 10),), 10)


def record(name, worker, inflight=(0, 0), events=(), *, hold=False, **fields):
    return {
        "id": name,
        "text": "t",
        "headers": {},
        "hold": hold,
        "inflight": list(inflight),
        "worker": worker,
        "events_before": list(events),
        **fields,
    }


def vector(*records):
    return {"router": "smg", "endpoint": "/generate", "workers": ["a", "b"], "requests": list(records)}


@dataclass
class Weighted(Policy):
    """Picks by weight, then once more without consequence."""

    def choose(self, request, fleet, now, pick):
        chosen = pick(fleet.available, [1, 3])
        pick([1, 2])
        return chosen, "weighted", 0


def test_a_determined_row_must_agree():
    """A choice that the rule does not allow is reported with what it does allow."""
    rows = replay(vector(record("r0", "a"), record("r1", "a")), RoundRobin())
    assert [(row.kind, row.passes, row.got, row.allowed) for row in rows] == [
        ("determined", True, "a", ("a",)),
        ("determined", False, "b", ("b",)),
    ]


def test_an_open_row_may_be_any_of_the_allowed():
    """Random choices pass wherever they fell, and the replay goes on from there."""
    rows = replay(
        vector(record("r0", "b", hold=True), record("r1", "a", (0, 1), hold=True), record("r2", "a", (1, 1))),
        LeastLoad(tie="random"),
    )
    assert [(row.kind, row.passes, row.allowed) for row in rows] == [
        ("open", True, ("a", "b")),
        ("determined", True, ("a",)),
        ("open", True, ("a", "b")),
    ]


def test_a_refusal_is_recorded_as_none():
    """A row without a worker must be refused by the policy, too."""
    down = [{"health": url, "ok": False} for url in "ab"]
    assert [row.passes for row in replay(vector(record("r0", None, events=down)), Random())] == [True]
    assert [row.passes for row in replay(vector(record("r0", None)), RoundRobin())] == [False]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (record("r0", "a", (1, 0)), "recorded"),
        (record("r0", "a", events=[{"explode": "a"}]), "unknown event"),
        (record("r0", "a", events=[{"remove": "c"}]), "no engine at c"),
    ],
)
def test_an_inconsistent_vector_is_refused(row, message):
    """Loads that the script does not give, unknown events and unknown engines are errors of the vector."""
    with pytest.raises(ValueError, match=message):
        replay(vector(row), RoundRobin())


def test_distribution_is_exact():
    """Weights count, and picks without consequence change nothing."""
    world = open_world(Weighted(), ["a", "b"])
    assert distribution(world, ASK) == {"a": 0.25, "b": 0.75}
    assert len(list(outcomes(world, ASK))) == 4


def test_asking_changes_nothing():
    """Outcomes are found on copies: the world itself has not moved."""
    world = open_world(RoundRobin(), ["a", "b"])
    assert [outcome.url for outcome in outcomes(world, ASK)] == ["a"]
    assert [outcome.url for outcome in outcomes(world, ASK)] == ["a"]


def test_chat_and_ids_are_text_of_the_router():
    """Ids are tokens to smg and digits to sglang-router, chat is its contents joined; text parts of a content count."""
    seen = []

    class Listening(RoundRobin):
        def choose(self, request, fleet, now, pick):
            seen.append((request.encoding, request.prompt_tokens))
            return super().choose(request, fleet, now, pick)

    parts = [{"type": "text", "text": "ab"}, {"type": "image_url"}]
    messages = [{"role": "user", "content": "xyz"}, {"role": "user", "content": parts}]
    for router, endpoint, fields, expected in [
        ("smg", "/generate", {"extra_body": {"input_ids": [10, 20, 30]}}, ("input_ids", 3)),
        ("sglang-router", "/generate", {"extra_body": {"input_ids": [10, 20, 30]}}, ("input_ids", 8)),
        ("smg", "/v1/chat/completions", {"messages": messages}, ("chat", 6)),
        ("vllm-router", "/v1/chat/completions", {"messages": messages}, ("chat", 19)),
        ("smg", "/generate", {}, ("text", 1)),
    ]:
        replay({**vector(record("r", "a", **fields)), "router": router, "endpoint": endpoint}, Listening())
        assert seen.pop() == expected
