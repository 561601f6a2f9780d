"""What every policy of the package keeps, and what its neighbours rely on."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies._content import canonical
from policies._protocol import Policy
from tests.policies.worlds import Picks, ask, finish, fleet_of, members, send, set_available

MEMBERS = members()
EVERY = pytest.mark.parametrize("kind", sorted(MEMBERS))
READERS = pytest.mark.parametrize("kind", sorted(kind for kind, cls in MEMBERS.items() if cls.fallback))

contents = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), min_size=1, max_size=3).map(canonical)
requests = st.builds(
    lambda content, key, encoding: ask(0, content, encoding, x_session_id=key, x_smg_routing_key=key),
    contents,
    st.sampled_from(["", "one", "two", "three"]),
    st.sampled_from(["text", "chat", "input_ids"]),
)


def test_the_package_is_scanned():
    """The members are those that the scenarios know, and each module has one class."""
    assert set(MEMBERS) >= {
        "random",
        "round_robin",
        "least_load",
        "power_of_two",
        "sticky_least_loaded",
        "sglang.consistent_hashing",
        "sglang.cache_aware",
        "smg.consistent_hashing",
        "vllm.consistent_hash",
        "vllm.cache_aware",
        "gym.sha256_mod",
    }


@EVERY
def test_it_is_a_documented_dataclass(kind):
    """Fields are parameters with defaults; the docstring says where the rule is from and what goes wrong with it."""
    cls = MEMBERS[kind]
    assert issubclass(cls, Policy)
    assert dataclasses.is_dataclass(cls)
    assert all(field.init and field.default is not dataclasses.MISSING for field in dataclasses.fields(cls))
    for section in ("Source:", "Known pathologies:", "Checked against:"):
        assert section in cls.__doc__
    assert all(name == name.lower() for name in cls.key_headers)


@EVERY
def test_negative_numbers_are_refused(kind):
    """A parameter below zero is refused at construction, and the message opens with its name."""
    cls = MEMBERS[kind]
    for field in dataclasses.fields(cls):
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            for value in (-1, math.nan):
                with pytest.raises(ValueError, match=f"^{field.name} must be zero or more"):
                    cls(**{field.name: value})


@EVERY
@given(request=requests, load=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_one_engine_takes_all(kind, request, load):
    """With one engine there is nothing to choose."""
    fleet = fleet_of(1, [load])
    policy = MEMBERS[kind]()
    policy.start(fleet)
    engine = policy.choose(request, fleet, 0.0, Picks(1))[0]
    assert engine is fleet.engines[0] or (engine is None and policy.may_refuse)


@EVERY
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_only_available_engines_are_chosen(kind, data):
    """Whatever goes up and down, a chosen engine is available and a refusal names its branch."""
    fleet = fleet_of(4)
    policy = MEMBERS[kind]()
    policy.start(fleet)
    picks = Picks(1)
    for step in range(12):
        set_available(fleet, data.draw(st.lists(st.booleans(), min_size=4, max_size=4)))
        engine, branch, matched = policy.choose(data.draw(requests), fleet, 100.0 * step, picks)
        assert branch
        assert matched >= 0
        if engine is None:
            assert not fleet.available or policy.may_refuse
        else:
            assert engine in fleet.available
            engine.in_flight += 1


@EVERY
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_engines_may_join_and_leave(kind, data):
    """After a change of the pool, choices are of the engines that are there."""
    fleet = fleet_of(6)
    spare = [fleet.engines.pop(), fleet.engines.pop()]
    fleet.available[:] = fleet.engines
    policy = MEMBERS[kind]()
    policy.start(fleet)
    for step in range(12):
        if spare and data.draw(st.booleans()):
            fleet.engines.append(spare.pop())
            fleet.available[:] = fleet.engines
            policy.joined(fleet.engines[-1], fleet)
        elif data.draw(st.booleans()) and len(fleet.engines) > 1:
            spare.append(fleet.engines.pop(0))
            fleet.available[:] = fleet.engines
            policy.left(spare[-1], fleet)
        engine = policy.choose(data.draw(requests), fleet, float(step), Picks(step))[0]
        assert engine in fleet.engines or (engine is None and policy.may_refuse)


@EVERY
@given(script=st.lists(requests, max_size=20), seed=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_the_same_picks_give_the_same_choices(kind, script, seed):
    """Choices are a function of what was asked and what was picked."""

    def run():
        fleet = fleet_of(3)
        policy, picks = MEMBERS[kind](), Picks(seed)
        policy.start(fleet)
        return [policy.choose(request, fleet, 0.0, picks)[:2] for request in script]

    one, other = run(), run()
    assert [(engine and engine.index, branch) for engine, branch in one] == [
        (engine and engine.index, branch) for engine, branch in other
    ]


@READERS
@given(steps=st.lists(st.integers(0, 30), max_size=60), encoding=st.sampled_from(["text", "chat", "input_ids"]))
@settings(max_examples=40, deadline=None)
def test_nothing_shared_means_the_fallback(kind, steps, encoding):
    """L7: where no two prompts share anything, a content reader decides as the policy it names."""
    reader, fallback = MEMBERS[kind](), MEMBERS[MEMBERS[kind].fallback]()
    fleets, picks = (fleet_of(3), fleet_of(3)), (Picks(7), Picks(7))
    reader.start(fleets[0])
    fallback.start(fleets[1])
    in_flight = []
    for serial, step in enumerate(steps):
        request = ask(serial, ((serial, 50),), encoding)
        pair = send(reader, fleets[0], request, picks[0]), send(fallback, fleets[1], request, picks[1])
        assert pair[0].index == pair[1].index
        in_flight.append((request, *pair))
        if step < len(in_flight):
            request, ours, theirs = in_flight.pop(step)
            finish(reader, request, ours)
            finish(fallback, request, theirs)


def test_a_fallback_is_a_member():
    """Only policies that read content have a fallback, and it is a member that reads none."""
    for cls in MEMBERS.values():
        if cls.fallback is not None:
            assert cls.reads_content
            assert not MEMBERS[cls.fallback].reads_content
