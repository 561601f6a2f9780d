"""Agent sessions through client and engines: forks wait and hit, populations follow, groups arrive."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.replication import replicate
from sim.rng import Streams
from tests.strategies import cell_of, world

AGENTS = {
    "kind": "agents",
    "sessions": 6,
    "prompt": {"task_tokens": {"kind": "uniform", "low": 1, "high": 40}, "tenant_tokens": 100, "tenants": 2},
    "output_tokens": {"kind": "uniform", "low": 3, "high": 9},
    "max_tokens": 9,
    "turns": 3,
    "calls_per_turn": 2,
    "observation_tokens": {"kind": "uniform", "low": 0, "high": 30},
    "tool_delay_s": 0.5,
    "human_delay_s": 3.0,
    "arrivals": {"kind": "closed", "users": 2, "think_s": 5.0},
    "sub_agents": {"turn_share": 0.5, "turns": 2, "task_tokens": 5, "delay_s": 0.25},
}


def cell(workload=None, **parts):
    resolved = world(**parts)
    resolved["workload"] = AGENTS | (workload or {})
    return cell_of(resolved)


def run(made, pair=0, **more):
    """The workload, and by session and turn when a request was submitted and when it ended, in nanoseconds."""
    workload = made.workload.generate(Streams(made.seed, pair), made.base)
    log = replicate(made, pair, **more)
    rows = log.numpy("requests")
    columns = [rows[name].tolist() for name in ("session", "turn", "submitted", "ended")]
    times = {(session, turn): (start, end) for session, turn, start, end in zip(*columns, strict=True)}
    return workload, log, times


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 50), st.booleans(), st.sampled_from(["round_robin", "random", "smg.consistent_hashing"]))
def test_children_start_after_their_turn_and_are_waited_for(pair, waits, kind):
    """L2: a child starts its delay after the turn that bears it; the next turn waits for it, or its own delay alone."""
    sub_agents = AGENTS["sub_agents"] | {"waits": waits}
    workload, _, times = run(cell({"sub_agents": sub_agents}, engines=2, policy={"kind": kind}), pair)
    assert len(times) == workload.summary()["requests"], "every session has run to its end"
    for parent in range(workload.sessions):
        turns = workload.session(parent).turns
        for turn in range(1, len(turns)):
            ready = times[parent, turn - 1][1] + round(turns[turn].delay_s * 1e9)
            born = [child for child in workload.children.get(parent, ()) if child.after_turn == turn - 1]
            for child in born:
                assert times[child.session, 0][0] == times[parent, turn - 1][1] + 250_000_000
            ends = [times[child.session, len(workload.session(child.session).turns) - 1][1] for child in born]
            assert times[parent, turn][0] == max([ready, *ends] if waits else [ready])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 50))
def test_each_user_has_one_session_at_a_time(pair):
    """A closed population: the next session starts the think time after the one before has ended, forks included."""
    workload, _, times = run(cell(engines=2), pair)
    group_of = workload.group_of.tolist()
    ends: dict[int, int] = {}
    starts: dict[int, int] = {}
    for (session, _), (start, end) in times.items():
        group = group_of[session]
        ends[group] = max(ends.get(group, 0), end)
        starts[group] = min(starts.get(group, start), start)
    assert starts[0] == starts[1] == 0
    for before, after in workload.follows.items():
        assert starts[after] == ends[before] + 5_000_000_000


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 20), st.sampled_from(["vllm", "sglang"]))
def test_jumps_are_steps_with_forks(pair, preset):
    """L11: jumping and stepping write the same log to the bit, on either engine."""
    made = cell(engines=2, engine={"preset": preset, "kv_tokens": 1200}, policy={"kind": "random"})
    jumped, stepped = (run(made, pair, step_by_step=step)[1] for step in (False, True))
    for table in ("requests", "groups", "engines"):
        one, other = jumped.numpy(table), stepped.numpy(table)
        assert all(np.array_equal(one[name], other[name]) for name in one), table


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 50), st.sampled_from(["live", "replay"]), st.sampled_from(["fork", "fresh"]))
def test_one_at_a_time_on_one_engine_computes_the_ideal(pair, mode, context):
    """One user, one engine, endless memory: prefill is the reuse ceiling's, but for last tokens of whole prompts."""
    sub_agents = AGENTS["sub_agents"] | {"context": context}
    made = cell(
        {"mode": mode, "sub_agents": sub_agents, "arrivals": {"kind": "closed", "users": 1}},
        engine={"preset": "sglang", "kv_tokens": 10_000_000},
    )
    _, log, _ = run(made, pair)
    rows = log.numpy("requests")
    whole = int((rows["cached_tokens"] == rows["prompt_tokens"] - 1).sum())
    computed = int(rows["prefill_tokens"].sum())
    assert log.prefill_ideal <= computed <= log.prefill_ideal + whole


@pytest.mark.parametrize("kind", ["sglang.cache_aware", "smg.consistent_hashing", "least_load", "power_of_two"])
def test_one_engine_makes_policies_agree(kind):
    """L6: with one engine nothing of forks or of a population depends on who routes."""
    tables = [run(cell(policy={"kind": each}))[1].numpy("requests") for each in ("round_robin", kind)]
    assert all(np.array_equal(tables[0][name], tables[1][name]) for name in tables[0])


def test_sub_agents_with_their_agents_key_stay_with_it():
    """Sticky routing sends a sub-agent where its agent is; with a key of its own it goes anywhere."""
    policy = {"kind": "smg.consistent_hashing"}
    for keys, together in (("agent", True), ("own", False)):
        made = cell({"sessions": 30, "sub_agents": AGENTS["sub_agents"] | {"keys": keys}}, engines=8, policy=policy)
        workload = made.workload.generate(Streams(made.seed, 0), made.base)
        rows = replicate(made, 0).numpy("requests")
        engine_of = dict(zip(rows["session"].tolist(), rows["engine"].tolist(), strict=True))
        pairs = [(parent, child.session) for parent, born in workload.children.items() for child in born]
        assert all(engine_of[parent] == engine_of[child] for parent, child in pairs) == together


@pytest.mark.parametrize(
    "arrivals",
    [
        {"kind": "gamma", "groups_per_s": 2.0, "cv": 1.5},
        {"kind": "on_off", "groups_per_s": 4.0, "on_s": 1.0, "off_s": 2.0},
        {"kind": "diurnal", "groups_per_s": 2.0, "swing": 0.5, "period_s": 10.0},
        {
            "kind": "ladder",
            "rungs": [{"groups_per_s": 1.0, "duration_s": 3.0}, {"groups_per_s": 9.0, "duration_s": 1.0}],
        },
    ],
)
def test_groups_of_a_rollout_arrive_by_every_process(arrivals):
    """The groups table has the times that the process gives, for groups of several samples."""
    made = cell_of(world(workload={"groups": 12, "samples_per_group": 3, "arrivals": arrivals}))
    workload = made.workload.generate(Streams(made.seed, 0), made.base)
    groups = replicate(made, 0).numpy("groups")
    expected = np.round(workload.arrival_s * 1e9).astype(np.int64)
    assert groups["arrived"][np.argsort(groups["group"])].tolist() == expected.tolist()
    assert len(set(expected.tolist())) == 12
