"""L8: without scarcity memory does not matter; L9: the length of a second does not matter."""

from hypothesis import HealthCheck, given, settings

from sim.log.record import TABLES
from sim.replication import Streams, replicate
from tests.strategies import cell_of, resolved_worlds

some = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

TIMELESS = ("round_robin", "least_load", "random", "power_of_two", "smg.consistent_hashing", "vllm.consistent_hash")
"""Policies without a time among their parameters and constants."""


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


def twice(value):
    """All times of a resolved cell times two."""
    if isinstance(value, list):
        return [twice(each) for each in value]
    if not isinstance(value, dict):
        return value
    doubled = {}
    for name, each in value.items():
        if name == "groups_per_s":
            doubled[name] = each / 2
        elif name in {"tool_delay_s", "step_ms", "prefill_ms_per_token", "per_sequence_ms", "overhead_s"}:
            doubled[name] = {**each, "median": each["median"] * 2} if isinstance(each, dict) else each * 2
        else:
            doubled[name] = twice(each)
    return doubled


@some
@given(resolved_worlds(policies=TIMELESS))
def test_twice_as_slow_on_a_clock_half_as_fine(resolved):
    """L9: all seconds times two (rates halved) on a tick of 2 ns give the same integers in every table."""
    if resolved["fleet"]["engine"]["cost"]["kind"] == "form_d":
        resolved["fleet"]["engine"]["cost"] = {"kind": "constant", "step_ms": 7.0, "per_sequence_ms": 0.13}
    fine = replicate(cell_of(resolved), 0)
    coarse = replicate(cell_of(twice(resolved)), 0, tick_s=2e-9)
    assert all_tables(fine) == all_tables(coarse)
