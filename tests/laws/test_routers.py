"""L1, L4, L5, L6, L11 with everything around a policy that a router can have."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.log.record import TABLES
from sim.replication import Streams, replicate
from tests.laws.test_scale import twice
from tests.strategies import KEYED, MEMBERS, POLICIES, arounds, cell_of, changing, resolved_worlds

few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
some = settings(few, max_examples=60)
many = settings(some, max_examples=1000, derandomize=False)

READERS = (
    "llmd.endpoint_picker",
    "smg.least_load",
    "smg.power_of_two",
    "dynamo.kv_router",
    "weighted",
    "aibrix.least_gpu_cache",
)
"""Policies that look at reports, first tokens or caches."""
GIVEN = ("request", "session", "group", "turn", "is_last", "prompt_tokens", "max_tokens")


def within(resolved, router, kind=None):
    """The world with this around its policy."""
    policy = {"kind": kind} if kind else resolved["router"]["policy"]
    return {**resolved, "router": {"policy": policy, **router}}


def same(one, other, tables=TABLES):
    return [table for table in tables if getattr(one, table) != getattr(other, table)]


def assert_jumps(resolved, router):
    cell = cell_of(within(resolved, router))
    assert same(replicate(cell, 0), replicate(cell, 0, step_by_step=True)) == []


@some
@given(resolved_worlds(policies=(*READERS, *READERS, "sglang.cache_aware", "least_load")), arounds())
def test_jumping_is_stepping(resolved, router):
    """L11: polls, first tokens, regrets and queues see the same, whether an engine jumps or steps."""
    assert_jumps(resolved, {**router, "record_regret": True})


@pytest.mark.slow
@many
@given(resolved_worlds(), arounds())
def test_jumping_is_stepping_everywhere(resolved, router):
    """L11 over all policies."""
    assert_jumps(resolved, {**router, "record_regret": True})


@some
@given(resolved_worlds(engines=3, policies=(*READERS, "sglang.cache_aware", "least_load")), arounds(), changing())
def test_jumping_is_stepping_while_engines_come_and_go(resolved, router, fleet):
    """L11 with failures, retries, probes and engines that leave and join."""
    assert_jumps({**resolved, "fleet": {**resolved["fleet"], **fleet}}, {**router, "record_regret": True})


@some
@given(resolved_worlds(engines=3), arounds(), st.one_of(st.just({}), changing()))
def test_requests_are_conserved(resolved, router, fleet):
    """L1: one row a request, lost ones with their reason; decisions, engines and requests agree."""
    resolved = {**resolved, "fleet": {**resolved["fleet"], **fleet}}
    cell = cell_of(within(resolved, router))
    log = replicate(cell, 0)
    offered = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    requests, decisions = log.numpy("requests"), log.numpy("decisions")
    expected = {(s.id, turn) for s in map(offered.session, range(offered.sessions)) for turn in range(len(s.turns))}
    seen = set(zip(requests["session"].tolist(), requests["turn"].tolist(), strict=True))
    failed = requests["status"] == 1
    lost = set(requests["session"][requests["status"] != 0].tolist())
    assert len(seen) == len(requests["session"])
    assert seen <= expected
    assert {session for session, _ in expected - seen} <= lost
    assert set(requests["status"].tolist()) <= {0, 1, 2}
    assert ((requests["reason"] > 0) == failed).all()
    assert log.numpy("groups")["sessions"].sum() == offered.sessions
    assert log.numpy("groups")["finished"].sum() == offered.sessions - len(lost)
    last = {}
    for request, retry, engine in zip(decisions["request"], decisions["retry"], decisions["engine"], strict=True):
        assert retry == (last[request][0] + 1 if request in last else 0)
        last[request] = retry, engine
    for request, engine in zip(requests["request"], requests["engine"], strict=True):
        assert engine == last.get(request, (0, -1))[1]
    assert (decisions["waited"] >= 0).all()
    assert (decisions["signal_age"] >= -1).all()
    row = np.argsort(requests["request"])
    place = row[np.searchsorted(requests["request"][row], decisions["request"])]
    first = decisions["retry"] == 0
    came = requests["submitted"][place] + decisions["waited"] + decisions["service"]
    assert (came == decisions["at"])[first].all()
    once = np.array([last[request][0] == 0 for request in decisions["request"].tolist()], dtype=bool)
    reached = (decisions["engine"] >= 0) & once & (requests["arrived"][place] >= 0)
    overhead = round(router["overhead_s"] * 1e9)
    assert (requests["arrived"][place] == decisions["at"] + overhead)[reached].all()


@few
@given(resolved_worlds(engines=3, policies=KEYED), arounds(loses=False))
def test_a_router_cannot_change_the_workload(resolved, router):
    """L5: prompts, limits and realised lengths are those of the plain router, where nobody is refused."""
    columns = []
    for around in ({}, router):
        requests = replicate(cell_of(within(resolved, around)), 0).numpy("requests")
        order = np.argsort(requests["request"])
        columns.append([requests[name][order].tolist() for name in GIVEN])
    assert columns[0] == columns[1]


@settings(few, max_examples=6)
@given(resolved_worlds(engines=1, policies=KEYED), arounds())
def test_one_engine_makes_policies_equal(resolved, router):
    """L6: whatever is around them, policies that refuse nobody give the same requests, groups and engines tables."""
    kinds = [kind for kind in POLICIES if MEMBERS[kind].min_engines == 1 and not MEMBERS[kind].may_refuse]
    logs = []
    for kind in kinds:
        scope = resolved["client"]["key_scope"] if kind in KEYED else "session"
        world = within({**resolved, "client": {**resolved["client"], "key_scope": scope}}, router, kind)
        logs.append(replicate(cell_of(world), 0))
    assert [
        kind for kind, log in zip(kinds, logs, strict=True) if same(logs[0], log, ("requests", "groups", "engines"))
    ] == []


@few
@given(resolved_worlds(), arounds())
def test_recording_regret_changes_nothing(resolved, router):
    """The record is one of looks: all tables but its own columns are the same bytes, and no regret is negative."""
    plain, recorded = (
        replicate(cell_of(within(resolved, {**router, "record_regret": each})), 0) for each in (False, True)
    )
    assert same(plain, recorded, ("requests", "groups", "engines")) == []
    one, other = plain.numpy("decisions"), recorded.numpy("decisions")
    regrets = ("best_engine", "regret_tokens", "regret_work")
    assert all((one[name] == other[name]).all() for name in one if name not in regrets)
    chose = other["engine"] >= 0
    assert all((other[name][chose] >= 0).all() and (one[name] == -1).all() for name in regrets)
    alone = chose & (other["best_engine"] == other["engine"])
    assert (other["regret_tokens"][alone] == 0).all()


@few
@given(resolved_worlds(policies=("oracle",)), arounds())
def test_who_sees_all_needs_no_signals(resolved, router):
    """Telemetry and cache indexes change nothing for a policy that sees all engines as they are."""
    without = {**router, "telemetry": None, "cache_index": "approximate"}
    one, other = (replicate(cell_of(within(resolved, each)), 0) for each in (router, without))
    assert same(one, other) == []
    ages = one.numpy("decisions")["signal_age"]
    assert (ages[one.numpy("decisions")["engine"] >= 0] == 0).all()


@few
@given(resolved_worlds(policies=READERS), arounds())
def test_a_run_is_repeatable(resolved, router):
    """L4: the same bytes again."""
    cell = cell_of(within(resolved, router))
    assert same(replicate(cell, 0), replicate(cell, 0)) == []


@few
@given(resolved_worlds(policies=("llmd.endpoint_picker", "least_load"), noisy=False), arounds())
def test_a_second_has_no_length(resolved, router):
    """L9: all times of router, workload and engine times two, on a clock of ticks twice as long: the same ticks."""
    world = within(resolved, router)
    world["fleet"]["engine"]["cost"] = {"kind": "constant", "step_ms": 7.0, "prefill_ms_per_token": 0.03}
    one = replicate(cell_of(world), 0, tick_s=1e-9)
    other = replicate(cell_of(twice(world)), 0, tick_s=2e-9)
    assert same(one, other, ("requests", "decisions", "groups")) == []


@few
@given(resolved_worlds())
def test_a_full_router_with_nothing_on_is_the_plain_one(resolved):
    """What is present and costs nothing changes nothing: probes of engines that are up, a limit that nobody reaches."""
    idle = {"health": {"period_s": 0.05, "timeout_s": 0.01}, "limit": {"concurrency": 1_000_000}, "breaker": {}}
    overhead = {"overhead_s": resolved["router"]["overhead_s"]}
    one, other = (replicate(cell_of(within(resolved, {**overhead, **each})), 0) for each in ({}, idle))
    assert same(one, other) == []
