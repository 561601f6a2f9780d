"""L11: an engine that jumps leaves the same log, bit for bit, as one that decides at every step."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies._content import PRIVATE
from sim.engine.spec import EngineSpec, resolve
from sim.log.record import TABLES
from sim.replication import replicate
from tests.reference.scenarios import Asked, Scenario, random_scenario, serve
from tests.strategies import cell_of, crowded_worlds, on_the_grid, resolved_worlds, world

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


@few
@given(crowded_worlds())
def test_crowds(resolved):
    """L11 where requests are preempted as soon as their prompt is done."""
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


@pytest.mark.slow
@many
@given(crowded_worlds())
def test_many_crowds(resolved):
    """L11 over many more crowds."""
    assert_same(resolved)


def assert_same_marks(scenario):
    """Jumping and stepping serve a scenario alike, and every request goes forward in time to its end."""
    jumping, stepping = serve(scenario), serve(scenario, step_by_step=True)
    assert jumping == stepping
    for arrived, scheduled, first_token, ended, *_ in jumping[0].values():
        assert 0 <= arrived <= scheduled < first_token <= ended


def crowd(*calls, tokens, threshold, block=16, **fields):
    """A short vLLM pool; a call is a content, its output and limit, when it comes, and after whom."""
    spec = EngineSpec(
        "vllm",
        overlap=fields.pop("overlap", False),
        block_tokens=block,
        kv_tokens=tokens,
        max_num_batched_tokens=500,
        max_num_seqs=16,
        long_prefill_token_threshold=threshold,
        **fields,
    )
    asked = tuple(Asked(serial, *call[:3], PRIVATE, *call[3:]) for serial, call in enumerate(calls))
    return Scenario(resolve(spec), "flat", asked)


PREEMPTED_AS_IT_JOINS = {
    "beside unfinished prompts": crowd(
        (((100, 78),), 1, 1, 57),
        (((0, 16), (1, 50), (102, 1)), 1, 1, 0),
        (((0, 16), (1, 50), (102, 11)), 2, 2, 20, 1),
        tokens=112,
        threshold=8,
    ),
    "behind a hit": crowd(
        (((100, 44),), 1, 1, 0),
        (((0, 20), (2, 50), (101, 16)), 1, 1, 0),
        (((102, 75),), 1, 1, 0),
        (((0, 20), (2, 50)), 1, 1, 0),
        (((0, 20), (2, 50), (107, 2)), 2, 3, 10, 3),
        tokens=112,
        threshold=8,
        overlap=True,
    ),
    "admitted by its first chunk": crowd(
        (((100, 66),), 2, 3, 127),
        (((101, 71),), 11, 11, 0),
        (((0, 16), (2, 50)), 2, 3, 178),
        (((0, 16), (2, 49), (113, 40)), 2, 2, 0),
        tokens=112,
        threshold=24,
        block=4,
        overlap=True,
        reserve_full_prompt=False,
    ),
}


@pytest.mark.parametrize("name", PREEMPTED_AS_IT_JOINS)
def test_preempted_one_step_after_it_joined(name):
    """L11 where a request that joined the decodes is preempted before a step with it is done: its end is void."""
    assert_same_marks(PREEMPTED_AS_IT_JOINS[name])


@pytest.mark.parametrize("preset", ["vllm", "sglang"])
def test_numbered_scenarios(preset):
    """L11 over the scenarios that are compared to the reference."""
    for seed in range(300):
        assert_same_marks(random_scenario(preset, seed))


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
