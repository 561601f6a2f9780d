"""Every field of an engine moves the log; the worst fault of a configuration is a key without effect."""

from dataclasses import fields

import pytest

from sim.engine.spec import EngineSpec
from sim.log.record import TABLES
from sim.replication import replicate
from tests.strategies import cell_of, world

WORKLOAD = {
    "groups": 12,
    "samples_per_group": 2,
    "prompt": {"group_tokens": 300, "system_tokens": 70},
    "turns": 2,
    "observation_tokens": 30,
    "output_tokens": {"kind": "uniform", "low": 20, "high": 80},
    "max_tokens": 100,
}
FROM_DEVICE = {"kv_tokens": None, "memory_share": 0.25, "cost": {"kind": "form_d"}}
CONSTANT = {"kind": "constant", "step_ms": 10.0}

SHARED = {
    "overlap": (False, True, {}),
    "visibility": ("at_schedule", "after_prefill", {}),
    "block_tokens": (16, 64, {}),
    "max_num_seqs": (4, 8, {}),
    "kv_tokens": (1500, 4000, {}),
    "device": ("a100-80gb", "h100-80gb", FROM_DEVICE),
    "model": ("qwen3-8b", "llama-3-8b", FROM_DEVICE),
    "tp": (1, 2, FROM_DEVICE | {"model": "llama-3-8b"}),
    "memory_share": (0.22, 0.23, FROM_DEVICE),
    "other_gib": (1.4, 2.0, FROM_DEVICE | {"memory_share": 0.22}),
    "cost": (CONSTANT, CONSTANT | {"step_ms": 11.0}, {}),
}
VLLM = {
    "max_num_batched_tokens": (256, 512, {}),
    "long_prefill_token_threshold": (0, 64, {}),
    "reserve_full_prompt": (True, False, {"kv_tokens": 1500, "max_num_batched_tokens": 128}),
    "watermark_share": (0.0, 0.2, {"kv_tokens": 1500}),
}
SGLANG = {
    "max_prefill_tokens": (500, 2000, {}),
    "chunked_prefill_tokens": (128, 512, {}),
    "schedule_conservativeness": (0.3, 1.0, {"kv_tokens": 1500}),
    "new_token_ratio_decay_steps": (20, 600, {"kv_tokens": 1500}),
    "clip_max_new_tokens": (10, 4096, {"kv_tokens": 1500}),
}
OWN = {"vllm": SHARED | VLLM, "sglang": SHARED | SGLANG}
OTHERS = {"vllm": SGLANG, "sglang": VLLM}


def tables(preset, **engine):
    log = replicate(cell_of(world(engine={"preset": preset, "kv_tokens": 4000} | engine, workload=WORKLOAD)), 0)
    return [getattr(log, table) for table in TABLES]


def test_no_field_is_forgotten():
    """The lists below name every field of both presets."""
    names = {field.name for field in fields(EngineSpec)} - {"preset"}
    assert names == set(SHARED) | set(VLLM) | set(SGLANG)


def test_the_preset_matters():
    """The two products differ."""
    assert tables("vllm") != tables("sglang")


@pytest.mark.parametrize(("preset", "name"), [(preset, name) for preset, names in OWN.items() for name in names])
def test_each_field_moves_the_log(preset, name):
    """Two values of one field, all else equal, give different logs."""
    one, other, more = OWN[preset][name]
    assert tables(preset, **more | {name: one}) != tables(preset, **more | {name: other})


@pytest.mark.parametrize(("preset", "name"), [(preset, name) for preset, names in OTHERS.items() for name in names])
def test_fields_of_the_other_product_change_nothing(preset, name):
    """A field that only the other product has is no hidden switch of this one."""
    one, other, more = OTHERS[preset][name]
    assert tables(preset, **more | {name: one}) == tables(preset, **more | {name: other})
