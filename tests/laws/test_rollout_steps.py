"""L1, L2, L4, L5, L11 under a trainer: steps, aborts, partial rollouts, new weights, time limits, forks."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.log.record import ABORTED, FINISHED, REJECTED, TABLES, UNFINISHED
from sim.replication import Streams, replicate
from sim.workload._model import ALONE, Child
from tests.laws.test_scale import twice
from tests.sim.client.forking import forking
from tests.strategies import MEMBERS, arounds, cell_of, resolved_worlds

many = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=60, derandomize=True)
NAMES = (
    "request",
    "attempt",
    "session",
    "group",
    "turn",
    "submitted",
    "ended",
    "prompt_tokens",
    "output_tokens",
    "status",
)


@st.composite
def trainings(draw):
    """A small trainer of any kind."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    staleness = one(0, 0, 1, 2)
    return {
        "groups_per_step": one(1, 2, 3),
        "steps": one(None, None, 1, 2),
        "samples_needed": one(None, None, 1, 2),
        "oversampling_batch": one(1, 2, 4),
        "acceptance_rate": one(1.0, 1.0, 0.5),
        "max_staleness": staleness,
        "unfinished": one("wait", "drop", "resume", *(() if staleness else ("defer",))),
        "train_s": one(0.0, 0.01, 0.025, 0.3),
        "update": {
            "time_s": one(0.0, 0.01, 0.035),
            "in_flight": one("drain", "continue", "abort"),
            "cache": one("flush", "keep", "version"),
        },
    }


@st.composite
def trained_worlds(draw):
    """Small worlds under a trainer; a third of them with sessions that fork."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    resolved = draw(resolved_worlds())
    samples = one(1, 2, 4)
    resolved["workload"] |= {"groups": 8, "samples_per_group": samples, "arrivals": {"kind": "at_once"}}
    resolved["workload"] |= {"boot_s": one(0, 0, 0.02)}
    resolved["client"] |= {
        "max_groups_in_flight": one(None, None, 2),
        "sample_time_limit_s": one(None, None, 0.1, 0.33),
        "tools": one(None, {"concurrency": 2, "boots": 1}),
        "turn_s": one(0.0, 0.0, 0.01),
    }
    resolved["training"] = draw(trainings())
    children = {}
    if samples > 1 and resolved["training"]["unfinished"] != "defer" and one(False, False, True):
        for first in range(0, 8 * samples, samples):
            children[first] = [Child(first + 1, 0, one(0.0, 0.01), ALONE)]
    return resolved, children


def cell_under(case):
    resolved, children = case
    cell = cell_of(resolved)
    if children:
        # A fork after turn 0 that some later turn joins, where there is one.
        workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
        joined = {
            parent: [child._replace(joins_turn=1 if len(workload.session(parent).turns) > 1 else ALONE)]
            for parent, (child,) in children.items()
        }
        cell = forking(cell, joined)
    return cell


def assert_same(case):
    cell = cell_under(case)
    one, two = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    for table in TABLES:
        assert getattr(one, table) == getattr(two, table), table


@some
@given(trained_worlds())
def test_jumping_is_stepping(case):
    """L11 under a trainer."""
    assert_same(case)


@pytest.mark.slow
@many
@given(trained_worlds())
def test_jumping_is_stepping_in_many_worlds(case):
    """L11 under many more trainers."""
    assert_same(case)


@some
@given(trained_worlds(), arounds())
def test_jumping_is_stepping_behind_any_router(case, around):
    """L1, L11 under a trainer and a router with queues, retries, late signals, limits: nothing is left open."""
    resolved, children = case
    if getattr(MEMBERS[resolved["router"]["policy"]["kind"]], "sees_all", False):
        return
    resolved["router"] = {"policy": resolved["router"]["policy"], **around}
    assert_same((resolved, children))
    requests = replicate(cell_under((resolved, children)), 0).numpy("requests")
    assert UNFINISHED not in requests["status"]


@some
@given(trained_worlds(), st.sampled_from((0.1, 0.4)), st.booleans(), st.booleans())
def test_engines_may_fail_under_a_trainer(case, between_s, has_retries, is_one_request):
    """L1, L11: engines fail and come back while groups are aborted, resumed and updated; every request ends."""
    resolved, children = case
    resolved["fleet"] |= {"failures": {"mean_between_s": between_s, "mean_repair_s": 0.05}}
    if has_retries:
        resolved["router"] |= {"retries": {"attempts": 3, "backoff_s": 0.01}}
    if is_one_request:
        resolved["client"] |= {"group_as_one_request": True}
        resolved["client"] |= {"max_sessions_in_flight": None, "max_sessions_per_engine": None}
    cell = cell_under((resolved, children))
    one, two = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    assert [name for name in TABLES if getattr(one, name) != getattr(two, name)] == []
    assert UNFINISHED not in one.numpy("requests")["status"]


@some
@given(trained_worlds())
def test_attempts_and_groups_are_conserved(case):
    """L1, L2: attempts follow each other, their tokens add up to answers, and every group is accounted for."""
    resolved, _ = case
    cell = cell_under(case)
    log = replicate(cell, 0)
    offered = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    requests, groups, steps = (log.numpy(name) for name in ("requests", "groups", "steps"))
    rows = [
        dict(zip(NAMES, values, strict=True)) for values in zip(*(requests[n].tolist() for n in NAMES), strict=True)
    ]
    attempts = defaultdict(list)
    for row in rows:
        assert row["status"] in (FINISHED, REJECTED, ABORTED)
        assert row["submitted"] <= row["ended"]
        attempts[row["request"]].append(row)
    is_anew = resolved["training"]["unfinished"] == "defer"
    for tries in attempts.values():
        tries.sort(key=lambda row: row["attempt"])
        assert len({row["attempt"] for row in tries}) == len(tries)
        turn = offered.session(tries[0]["session"]).turns[tries[0]["turn"]]
        for before, after in pairwise(tries):
            assert before["ended"] <= after["submitted"]
            if not is_anew:
                assert before["status"] == ABORTED
                assert after["prompt_tokens"] == before["prompt_tokens"] + before["output_tokens"]
        total = sum(row["output_tokens"] for row in tries)
        if not is_anew:
            assert total <= turn.output_tokens
            assert (total == turn.output_tokens) == (tries[-1]["status"] == FINISHED)
    assert len(set(groups["group"].tolist())) == len(groups["group"])
    assert set(requests["group"].tolist()) <= set(groups["group"].tolist())
    assert (groups["finished"] <= groups["sessions"]).all()
    assert_steps(resolved["training"], groups, steps, requests)


def assert_steps(training, groups, steps, requests):
    """Steps follow each other, and no group is used twice or too old."""
    size = training["groups_per_step"]
    assert steps["step"].tolist() == list(range(len(steps["step"])))
    assert steps["version"].tolist() == steps["step"].tolist()
    assert (steps["accepted"] >= 1).all()
    assert (steps["accepted"][:-1] == size).all()
    assert steps["accepted"].sum() + steps["rejected"].sum() <= len(groups["group"])
    assert (steps["start"] <= steps["end"]).all()
    assert (steps["end"][:-1] <= steps["updated"][:-1]).all()
    assert (steps["updated"][:-1] == steps["start"][1:]).all()
    assert (steps["updated"][:-1] - steps["end"][:-1] >= round(1e9 * (training["train_s"]))).all()
    assert steps["tokens"].sum() <= requests["output_tokens"].sum()
    if training["unfinished"] in ("wait", "drop") and training["oversampling_batch"] == 1:
        assert (steps["age_max"] <= training["max_staleness"]).all()
    if training["steps"] is not None:
        assert len(steps["step"]) <= training["steps"]


@some
@given(trained_worlds(), st.sampled_from(("random", "round_robin", "least_load")))
def test_the_policy_does_not_change_what_is_offered(case, policy):
    """L5: lengths, delays and the filter are columns of the data, whatever the policy and the order of things."""
    resolved, children = case
    if children:
        return
    other = resolved | {"router": resolved["router"] | {"policy": {"kind": policy}}}
    logs = [replicate(cell_of(each), 0).numpy("requests") for each in (resolved, other)]
    seen = []
    for requests in logs:
        first = requests["attempt"] == 0
        seen.append(
            {
                request: (prompt, limit)
                for request, prompt, limit in zip(
                    *(requests[n][first].tolist() for n in ("request", "prompt_tokens", "max_tokens")), strict=True
                )
            }
        )
    both = seen[0].keys() & seen[1].keys()
    assert {each: seen[0][each] for each in both} == {each: seen[1][each] for each in both}


@some
@given(trained_worlds(), st.booleans())
def test_a_second_has_no_length(case, has_cap):
    """L9: all times of trainer, client, workload and engine times two, on ticks twice as long: the same ticks."""
    resolved, children = case
    if children:
        return
    if has_cap:
        resolved["client"] |= {"max_sessions_in_flight": None, "max_sessions_per_engine": None}
        resolved["client"] |= {"feedback_cap": {"start": 3, "poll_s": 0.05}}
    resolved["client"] = {name: value for name, value in resolved["client"].items() if value is not None}
    resolved["router"] |= {"policy": {"kind": "least_load"}}
    resolved["fleet"] |= {"noise": {"engine_speed_sigma": 0.0, "step_sigma": 0.0}}
    resolved["fleet"]["engine"]["cost"] = {"kind": "constant", "step_ms": 7.0, "prefill_ms_per_token": 0.03}
    one, other = replicate(cell_of(resolved), 0, tick_s=1e-9), replicate(cell_of(twice(resolved)), 0, tick_s=2e-9)
    assert [name for name in TABLES if getattr(one, name) != getattr(other, name)] == []


def test_one_seed_one_log():
    """L4: twice the same bytes."""
    strategy = trained_worlds()

    @settings(some, max_examples=15)
    @given(strategy)
    def hold(case):
        cell = cell_under(case)
        assert all(getattr(replicate(cell, 0), name) == getattr(replicate(cell, 0), name) for name in TABLES)

    hold()


def test_the_worlds_hold_what_they_promise():
    """The worlds of this page abort, resume and use old groups: their branches are not dead."""
    seen = set()

    @settings(some, max_examples=100)
    @given(trained_worlds())
    def collect(case):
        log = replicate(cell_under(case), 0)
        requests, steps = log.numpy("requests"), log.numpy("steps")
        seen.update(("status", status) for status in requests["status"].tolist())
        seen.update(("attempt", min(attempt, 2)) for attempt in requests["attempt"].tolist())
        seen.update(("aborted", bool(aborted)) for aborted in steps["aborted"].tolist())
        seen.update(("age", min(age, 2)) for age in steps["age_max"].tolist())
        seen.update(("partial", bool(each)) for each in (requests["output_tokens"][requests["status"] == ABORTED] > 0))

    collect()
    assert {("status", FINISHED), ("status", ABORTED)} <= seen
    assert {("attempt", 1), ("attempt", 2), ("aborted", True), ("age", 1), ("age", 2), ("partial", True)} <= seen
