"""Engines with prefix caching off: every prompt is computed whole, and memory is free once its request ends."""

from dataclasses import replace

import polars as pl
import pytest

from sim.engine.spec import EngineSpec, resolve
from sim.log.frames import read_logs
from sim.replication import replicate
from sim.review._controls import ENDLESS_TOKENS, Unshared
from tests.sim.engine.worlds import Bench, request
from tests.strategies import cell_of, world

WORKLOAD = {
    "groups": 6,
    "samples_per_group": 3,
    "prompt": {"group_tokens": 300, "system_tokens": 70},
    "turns": 3,
    "observation_tokens": 30,
    "tool_delay_s": 0.1,
    "output_tokens": {"kind": "uniform", "low": 20, "high": 80},
    "max_tokens": 100,
}
PRESETS = ("vllm", "sglang")
TIGHT = {"sglang": {"schedule_conservativeness": 0.1, "clip_max_new_tokens": 16}}
"""Admission that reserves little, so that requests are retracted."""


def requests(cell):
    return read_logs([replicate(cell, 0)], [0]).requests


@pytest.mark.parametrize("preset", PRESETS)
def test_it_is_a_world_of_prompts_that_share_nothing(preset):
    """With memory for all, each request to the tick as where caching is on and there is nothing to find."""
    engine = {"preset": preset, "kv_tokens": ENDLESS_TOKENS}
    off = requests(cell_of(world(engine=engine | {"visibility": "never"}, workload=WORKLOAD)))
    # A prompt that is found by nobody is the same whether it may be found at once or when it is computed.
    on = cell_of(world(engine=engine | {"visibility": "after_prefill"}, workload=WORKLOAD))
    assert off.equals(requests(replace(on, workload=Unshared(on.workload))))
    assert not off.equals(requests(on))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_preempted_is_computed_again_from_its_start(preset):
    """Prompt and answer so far, which with caching would in part be found."""
    engine = {"preset": preset, "kv_tokens": 1500, "visibility": "never"} | TIGHT.get(preset, {})
    found = requests(cell_of(world(engine=engine, workload=WORKLOAD)))
    assert found["preemptions"].sum() > 0
    assert not found["cached_tokens"].sum()
    fresh = pl.col("prefill_tokens") - pl.col("recomputed_tokens") - pl.col("prompt_tokens")
    assert found.select(fresh.is_between(0, pl.col("preemptions")).all()).item()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("is_told", [False, True])
def test_nothing_is_kept_nor_told(preset, is_told):
    """After a request the pool is as it was before it; who listens to KV events hears of no content."""
    bench, heard = Bench(preset, visibility="never"), []
    if is_told:
        bench.engine.listen(lambda *event: heard.append(event))
    bench.send(0, request(0, ((7, 100),), 5), request(1, ((7, 100),), 5)).run()
    assert bench.scheduler.cache.usage() == (0, 0)
    assert bench.engine.cached_tokens(((7, 100),)) == 0
    assert not heard


def test_what_needs_the_cache_is_refused():
    """Orders of the queue that look at it, and chunks that are aligned for it."""
    for order in ("lpm", "dfs-weight"):
        with pytest.raises(ValueError, match=f"^queue_order {order} has no effect without prefix caching"):
            resolve(EngineSpec("sglang", visibility="never", queue_order=order))
    with pytest.raises(ValueError, match="^align_chunks has no effect without prefix caching"):
        resolve(EngineSpec("vllm", visibility="never", align_chunks=True))
