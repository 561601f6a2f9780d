"""Every field of an engine moves the log; the worst fault of a configuration is a key without effect."""

from dataclasses import fields

import pytest

from sim.cost import _models
from sim.engine.spec import EngineSpec, resolve
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
DEFERRED = {"visibility": "deferred"}
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
    "kv_bits": (16, 8, FROM_DEVICE | {"memory_share": 0.22}),
    "cost": (CONSTANT, CONSTANT | {"step_ms": 11.0}, {}),
}
VLLM = {
    "max_num_batched_tokens": (256, 512, {}),
    "long_prefill_token_threshold": (0, 64, {}),
    "reserve_full_prompt": (True, False, {"kv_tokens": 1500, "max_num_batched_tokens": 128}),
    "watermark_share": (0.0, 0.2, {"kv_tokens": 1500}),
    "state_tokens_per_seq": (0, 200, {"kv_tokens": 1500}),
    "align_chunks": (False, True, {"max_num_batched_tokens": 280}),
}
SGLANG = {
    "max_prefill_tokens": (500, 2000, {}),
    "chunked_prefill_tokens": (128, 512, {}),
    "enable_mixed_chunk": (False, True, {}),
    "queue_order": ("fcfs", "lpm", {"max_num_seqs": 4, "visibility": "after_prefill"}),
    "in_batch_check_tokens": (32, 200, DEFERRED),
    "in_batch_defer_tokens": (32, 1000, DEFERRED),
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
def test_fields_of_the_other_product_are_refused(preset, name):
    """A field that only the other product has could change nothing; the message says whose it is."""
    (owner,) = {"vllm", "sglang"} - {preset}
    with pytest.raises(ValueError, match=f"^{name} is a field of preset {owner}"):
        EngineSpec(preset, **{name: OTHERS[preset][name][0]})
    assert getattr(resolve(EngineSpec(preset)), name) is None


@pytest.mark.parametrize("name", ["memory_share", "other_gib", "kv_bits"])
def test_a_capacity_has_one_source(name):
    """Memory beside ``kv_tokens`` would change nothing; without it the default is filled in."""
    with pytest.raises(ValueError, match=f"^{name} has no effect beside kv_tokens"):
        EngineSpec("vllm", kv_tokens=1000, **{name: 1})
    assert getattr(resolve(EngineSpec("vllm", kv_tokens=1000)), name) is None


def test_memory_has_defaults_where_no_capacity_is_given():
    """The share of the device as of vLLM, and what is used besides as it was measured."""
    spec = resolve(EngineSpec("vllm"))
    assert (spec.memory_share, spec.other_gib, spec.kv_bits) == (0.9, 1.4, None)


def test_a_hybrid_model_brings_its_state():
    """Its blocks, state and alignment are those of its shape; each may be overridden, on vLLM alone."""
    shape = _models.find("nemotron-3-super-120b-a12b")
    spec = resolve(EngineSpec("vllm", device="h100-80gb", tp=4), shape)
    assert (spec.block_tokens, spec.state_tokens_per_seq, spec.align_chunks) == (2080, shape.state_tokens(4), True)
    small = resolve(EngineSpec("vllm", block_tokens=16, align_chunks=False), shape)
    assert (small.block_tokens, small.align_chunks) == (16, False)
    plain = resolve(EngineSpec("vllm"), _models.find("qwen3-8b"))
    assert (plain.block_tokens, plain.state_tokens_per_seq, plain.align_chunks) == (16, 0, False)
    assert resolve(EngineSpec("sglang"), shape).state_tokens_per_seq is None


@pytest.mark.parametrize("name", ["max_num_batched_tokens", "long_prefill_token_threshold"])
def test_aligned_chunks_have_room_for_a_block(name):
    """A budget below a block would never finish a prompt; the A100's default is one of these."""
    with pytest.raises(ValueError, match=f"^{name} must be 64 or more"):
        resolve(EngineSpec("vllm", block_tokens=64, align_chunks=True, max_num_seqs=8, **{name: 63}))
    with pytest.raises(ValueError, match="^max_num_batched_tokens must be 2080 or more"):
        resolve(EngineSpec("vllm"), _models.find("nemotron-3-super-120b-a12b"))


def test_deferral_belongs_to_sglang():
    """Its sizes are refused where nobody is held back; cache-aware orders hold back unless told otherwise."""
    with pytest.raises(ValueError, match="^visibility deferred"):
        EngineSpec("vllm", visibility="deferred")
    with pytest.raises(ValueError, match="^in_batch_check_tokens has no effect"):
        resolve(EngineSpec("sglang", in_batch_check_tokens=8))
    found = {order: resolve(EngineSpec("sglang", queue_order=order)).visibility for order in ("fcfs", "lof", "lpm")}
    assert found == {"fcfs": "after_prefill", "lof": "after_prefill", "lpm": "deferred"}
    assert resolve(EngineSpec("sglang", queue_order="lpm", visibility="after_prefill")).in_batch_check_tokens is None


def test_vllm_has_a_token_for_each_sequence():
    """More sequences than tokens of a step are refused; the default number of sequences follows the tokens."""
    with pytest.raises(ValueError, match="^max_num_seqs: vLLM refuses 300"):
        resolve(EngineSpec("vllm", max_num_seqs=300, max_num_batched_tokens=256))
    assert resolve(EngineSpec("vllm", max_num_batched_tokens=100)).max_num_seqs == 100


@pytest.mark.parametrize("preset", ["vllm", "sglang"])
def test_a_resolved_engine_stays_as_it_is(preset):
    """What a scenario prints can be read again."""
    for spec in (EngineSpec(preset), EngineSpec(preset, kv_tokens=1000)):
        assert resolve(resolve(spec)) == resolve(spec)
