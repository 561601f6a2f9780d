"""L11: an engine that jumps leaves the same log, bit for bit, as one that decides at every step."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.log.record import TABLES
from sim.replication import replicate
from tests.strategies import cell_of, on_the_grid, resolved_worlds, world

many = settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=150, derandomize=True)
few = settings(some, max_examples=75)


def assert_same(resolved, base=None):
    cell = cell_of(resolved) if base is None else cell_of(resolved, base)
    jumping, stepping = replicate(cell, 0), replicate(cell, 0, step_by_step=True)
    for table in TABLES:
        assert getattr(jumping, table) == getattr(stepping, table), table


@some
@given(resolved_worlds())
def test_random_worlds(resolved):
    """L11 over everything that the strategies know."""
    assert_same(resolved)


@few
@given(on_the_grid())
def test_arrivals_on_boundaries(resolved):
    """L11 where steps and delays are multiples of 10 ms, so that arrivals fall exactly on the ends of steps."""
    assert_same(resolved)


@few
@given(st.sampled_from(("vllm", "sglang")).flatmap(lambda preset: resolved_worlds(preset=preset, pool=600, engines=1)))
def test_scarce_memory(resolved):
    """L11 where preemption, retraction and eviction are the rule."""
    assert_same(resolved)


@pytest.mark.slow
@many
@given(resolved_worlds())
def test_many_random_worlds(resolved):
    """L11 over many more worlds."""
    assert_same(resolved)


@pytest.mark.slow
@many
@given(on_the_grid())
def test_many_arrivals_on_boundaries(resolved):
    """L11 over many more worlds on the grid."""
    assert_same(resolved)


@pytest.mark.slow
@many
@given(resolved_worlds(pool=600))
def test_much_scarce_memory(resolved):
    """L11 over many more worlds short of memory."""
    assert_same(resolved)


@pytest.mark.parametrize("preset", ["vllm", "sglang"])
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("arrival_ms", [0, 9, 10, 11, 20, 95, 100, 101, 110])
def test_each_place_of_an_arrival(tmp_path, preset, overlap, arrival_ms):
    """L11 for one arrival just before, at and just after the end of a step of a long run."""
    rows = [(0, 40), (arrival_ms, 7), (arrival_ms, 3), (arrival_ms + 10, 2)]
    lines = [
        {"timestamp": at, "input_length": 40, "output_length": output, "hash_ids": [serial]}
        for serial, (at, output) in enumerate(rows)
    ]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, lines)))
    engine = {"preset": preset, "overlap": overlap, "kv_tokens": 400}
    resolved = world(engine=engine)
    resolved["workload"] = {"kind": "requests", "file": "trace.jsonl"}
    assert_same(resolved, tmp_path)
