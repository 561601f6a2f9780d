"""Steps out of an operator profile that holds attention of mixed batches measured in one launch.

    t = layers * (attention(q, p, n, c) + dense operators(N)) + embedding(N) + last norm(N) + head(S) + sampler(S)

One prefill chunk of q tokens on p cached ones beside n decodes of c tokens each; N = q + n; S = n, and one more for a
chunk. Tables: the profiles of casys-kaist/LLMServingSim (``profiler/perf``), microseconds; a transformer layer has two
norms. Kept are batches that an engine can form: within the token budget, and with their KV within the card's memory.

Left out: host time, which is not in these tables; it is added when the profile is used.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sim.calibration.steps import Floats, Steps
from sim.calibration.tables import Column, choose, read_table

PER_LAYER: Final = {
    "layernorm": 2,
    "qkv_proj": 1,
    "rotary_emb": 1,
    "o_proj": 1,
    "gate_up_proj": 1,
    "act_fn": 1,
    "down_proj": 1,
}
"""How often a layer runs each operator; attention has its own table."""
PER_STEP: Final = ("embedding", "final_layernorm")
PER_SEQUENCE: Final = ("lm_head", "sampler")


@dataclass(frozen=True, slots=True)
class Place:
    """What was measured, and the limits of the engine in which such batches occur."""

    device: str
    model: str
    layers: int
    budget_tokens: int
    kv_tokens: int
    tp: int = 1


def mixed_steps(attention: Path, operators: Path, place: Place) -> Steps:
    """All steps of the attention table that an engine can form."""
    batches, layers = read_table(attention), read_table(operators)
    new, before = batches["prefill_chunk"], batches["kv_prefill"]
    decodes, each = batches["n_decode"], batches["kv_decode"]
    tokens, chunks = new + decodes, (new > 0).astype(float)
    us = place.layers * batches["time_us"] + _dense(layers, place.layers, tokens) + _head(layers, decodes + chunks)
    steps = Steps(
        place.device,
        place.model,
        place.tp,
        prefill_tokens=new,
        pairs=new * before + new * (new + 1) / 2,
        decodes=decodes,
        context=decodes * each,
        chunks=chunks,
        ms=us / 1000,
    )
    held = new + before + steps.context
    return steps.select((tokens <= place.budget_tokens) & (held <= place.kv_tokens))


def _dense(table: dict[str, Column], layers: int, tokens: Floats) -> Floats:
    repeated = sum(times * _at(table, name, tokens) for name, times in PER_LAYER.items())
    return np.asarray(layers * repeated + sum(_at(table, name, tokens) for name in PER_STEP))


def _head(table: dict[str, Column], sequences: Floats) -> Floats:
    return np.asarray(sum(_at(table, name, sequences) for name in PER_SEQUENCE))


def _at(table: dict[str, Column], operator: str, count: Floats) -> Floats:
    """Microseconds of one operator at a count of tokens or sequences, straight between the measured ones."""
    rows = choose(table, layer=operator)
    return np.interp(count, rows["count"], rows["time_us"])
