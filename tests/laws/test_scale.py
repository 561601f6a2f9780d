"""L8: without scarcity memory does not matter; L9: the length of a second does not matter."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.cost import _profiles
from sim.log.record import TABLES
from sim.replication import Streams, replicate
from tests.strategies import MEMBERS, POLICIES, cell_of, resolved_worlds, world

some = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

CONSTANTS = ("preble.e2", "vllm.sticky_least_loaded")
"""Policies with times that no parameter gives: fitted prefill times, the interval of a sweep."""
SECONDS = {
    kind: [field.name for field in dataclasses.fields(MEMBERS[kind]) if field.name.endswith(("_s", "_secs"))]
    for kind in POLICIES
    if kind not in CONSTANTS
}
"""Parameters in seconds of each policy; most have none."""
PROFILES = ("a100-80gb_llama-3-8b_tp1", "h100-80gb_qwen3-32b_tp2")


def all_tables(log):
    return [getattr(log, table) for table in TABLES]


def with_pool(resolved, tokens):
    engine = {**resolved["fleet"]["engine"], "kv_tokens": tokens}
    return {**resolved, "fleet": {**resolved["fleet"], "engine": engine}}


@some
@given(resolved_worlds(pool=100_000))
def test_more_memory_than_needed_changes_nothing(resolved):
    """L8: once everything ever computed fits, with the reserves for it, ten or a thousand times the pool is equal."""
    cell = cell_of(resolved)
    workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
    tokens = 0
    for index in range(workload.sessions):
        for turn in workload.session(index).turns:
            tokens += sum(length for _, length in turn.prompt) + turn.max_tokens + 3 * cell.fleet[0].engine.block_tokens
    first, *others = (replicate(cell_of(with_pool(resolved, 2 * tokens * more)), 0) for more in (1, 10, 1000))
    assert not first.numpy("requests")["preemptions"].any()
    for log in others:
        assert all_tables(log) == all_tables(first)


def twice(value, name=""):
    """All times of a resolved cell times two, by the unit in which a name ends."""
    if isinstance(value, list):
        return [twice(each, name) for each in value]
    if isinstance(value, dict):
        # Knots of token_ms, and what a distribution is scaled by, have the unit of the whole.
        parts = ("median", "low", "high")
        return {key: twice(each, name if key in parts or isinstance(key, int) else key) for key, each in value.items()}
    if name.endswith("_per_s"):
        return value / 2
    return value * 2 if name.endswith(("_s", "_secs", "_ms", "_ms_per_token")) else value


@st.composite
def costs(draw):
    """A cost with all its times written out: constant, form D inline, or the coefficients of a shipped profile."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    if one(True, False, False):
        return {"kind": "constant", "step_ms": 7.0, "prefill_ms_per_token": one(0.0, 0.03), "per_sequence_ms": 0.13}
    knobs = {"host0_ms": one(0.0, 1.5), "host1_ms": one(0.0, 0.04), "slowdown": one(1.0, 1.25)}
    if one(True, False):
        times = {name: one(0.0, 0.37, 1.1) * scale for name, scale in zip(_profiles.TIMES, SCALES, strict=True)}
        return {"kind": "form_d", "coefficients": {**times, "token_ms": {0: 0.02, 30: 0.011, 300: 0.05}}, **knobs}
    profile = _profiles.load(_profiles.FOLDER / f"{one(*PROFILES)}.yaml")
    return {"kind": "form_d", "coefficients": {**profile.times, "token_ms": dict(profile.token_ms)}, **knobs}


SCALES = (10, 1e-5, 0.1, 1e-3, 1)
"""Of a step, a pair, a sequence, a token of context and a chunk, in milliseconds."""


@some
@given(resolved_worlds(policies=tuple(SECONDS)), costs(), st.sampled_from((0.05, 0.4, 3.0)))
def test_twice_as_slow_on_a_clock_half_as_fine(resolved, cost, seconds):
    """L9: all seconds times two (rates halved) on a tick of 2 ns give the same integers in every table."""
    resolved["fleet"]["engine"]["cost"] = cost
    policy = resolved["router"]["policy"]
    policy |= dict.fromkeys(SECONDS[policy["kind"]], seconds)
    fine = replicate(cell_of(resolved), 0)
    coarse = replicate(cell_of(twice(resolved)), 0, tick_s=2e-9)
    assert all_tables(fine) == all_tables(coarse)


def profile_file(profile, path, factor):
    """A shipped profile as a file of the user's, its times multiplied."""
    times = {name: value * factor for name, value in profile.times.items()}
    lines = [f"device: {profile.device}", f"model: {profile.model}", f"tp: {profile.tp}", "status: measured"]
    lines += ["source: shipped", f"host0_ms: {1.5 * factor}", f"host1_ms: {0.04 * factor}", "coefficients:"]
    lines += [f"  {name}: {value!r}" for name, value in times.items()]
    lines += ["  token_ms:", *(f"    {knot}: {value * factor!r}" for knot, value in profile.token_ms)]
    path.write_text("\n".join(lines))


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("preset", ["vllm", "sglang"])
def test_a_profile_twice_as_slow(tmp_path, name, preset):
    """L9 with a profile read from a file, and its slowdown, for a crowd that runs out of memory."""
    logs = []
    for factor in (1, 2):
        profile_file(_profiles.load(_profiles.FOLDER / f"{name}.yaml"), tmp_path / f"x{factor}.yaml", factor)
        cost = {"kind": "form_d", "profile": f"x{factor}.yaml", "slowdown": 1.25}
        lengths = {"output_tokens": {"kind": "lognormal", "median": 300, "sigma": 1.0}, "max_tokens": 2000}
        resolved = world(
            engines=2,
            engine={"preset": preset, "kv_tokens": 6000, "cost": cost},
            noise={"engine_speed_sigma": 0.1, "step_sigma": 0.05},
            workload={"groups": 20, "samples_per_group": 4, "turns": 3, "tool_delay_s": 0.3 * factor, **lengths},
            policy={"kind": "least_load"},
        )
        logs.append(replicate(cell_of(resolved, tmp_path), 0, tick_s=factor * 1e-9))
    assert logs[0].numpy("requests")["preemptions"].any()
    assert all_tables(logs[0]) == all_tables(logs[1])


@pytest.mark.parametrize("kind", [kind for kind, fields in SECONDS.items() if fields])
def test_policies_that_count_seconds(kind):
    """L9 where sessions pause for longer and for shorter than the policy remembers."""
    delay = {"kind": "lognormal", "median": 0.4, "sigma": 1.5}
    resolved = world(
        engines=3,
        workload={"groups": 12, "samples_per_group": 4, "turns": 6, "tool_delay_s": delay, "output_tokens": 20},
        client={"max_sessions_in_flight": 20},
        policy={"kind": kind, **dict.fromkeys(SECONDS[kind], 0.4)},
    )
    fine, coarse = replicate(cell_of(resolved), 0), replicate(cell_of(twice(resolved)), 0, tick_s=2e-9)
    assert all_tables(fine) == all_tables(coarse)
