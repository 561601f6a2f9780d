"""Whole steps of a model put together from measured operators, and the batches to fit form D to them.

A layer is QKV, attention of each chunk, attention of the decodes at their mean context, O, gate and up, down (or the
experts behind their router), two all-reduces, and element-wise operators; the head follows once.

    chunk on a prefix     the share A / (pairs of the whole prompt) of the whole prompt's attention, never less than the
                          same chunk alone
    element-wise          bytes over 0.75 of the memory bandwidth, and 2 us each: two norms, rotary, activation
    decodes               at their mean context: where a kernel was measured on unequal contexts, they cost about 5 % of
                          the way from the mean to all at the longest

Left out: host time; attention of prefill and decode in one launch; padding to captured CUDA graphs.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.calibration.operators import Operators
from sim.calibration.steps import Floats, Steps
from sim.cost._models import Shape

ELEMENT_US: Final = 2.0
BANDWIDTH_SHARE: Final = 0.75
ELEMENT_OPERATORS: Final = 4


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches as arrays: rows of up to some chunks (0 tokens: no chunk), decodes, their mean context."""

    new: Floats
    """Tokens of each chunk, by batch and chunk."""
    before: Floats
    """Tokens that each stands on."""
    decodes: Floats
    context: Floats

    @property
    def tokens(self) -> Floats:
        """All tokens of each batch."""
        return np.asarray(self.new.sum(axis=1) + self.decodes)

    @property
    def pairs(self) -> Floats:
        """Query-key pairs of each chunk."""
        return np.asarray(self.new * self.before + self.new * (self.new + 1) / 2)


def compose(batches: Batches, operators: Operators, shape: Shape, tp: int, bandwidth: float) -> Floats:
    """Milliseconds of each batch on ``tp`` GPUs of ``bandwidth`` bytes a second."""
    tokens = batches.tokens
    layer = _dense(tokens, operators, shape, tp) + _elements(tokens, shape, tp, bandwidth)
    layer = layer + _chunks(batches, operators, shape, tp)
    decoding = batches.decodes > 0
    heads, kv = _heads(shape, tp)
    attention = operators.decode(np.maximum(batches.decodes, 1), np.maximum(batches.context, 1), heads, kv)
    layer = layer + np.where(decoding, attention, 0)
    if tp > 1:
        layer = layer + 2 * operators.allreduce(tokens * shape.hidden, tp)
    sequences = batches.decodes + (batches.new > 0).sum(axis=1)
    return np.asarray(shape.layers * layer + operators.gemm(sequences, shape.vocab / tp, shape.hidden))


def _heads(shape: Shape, tp: int) -> tuple[float, float]:
    return shape.heads / tp, max(shape.kv_heads / tp, 1)


def _dense(tokens: Floats, operators: Operators, shape: Shape, tp: int) -> Floats:
    heads, kv = _heads(shape, tp)
    qkv = operators.gemm(tokens, (heads + 2 * kv) * shape.head_dim, shape.hidden)
    out = operators.gemm(tokens, shape.hidden, heads * shape.head_dim)
    if not shape.experts:
        width = shape.ffn / tp
        return np.asarray(
            qkv + out + operators.gemm(tokens, 2 * width, shape.hidden) + operators.gemm(tokens, shape.hidden, width)
        )
    router = operators.gemm(tokens, shape.experts, shape.hidden)
    moe = operators.experts(tokens, shape.hidden, shape.expert_ffn, shape.experts_per_token, shape.experts, tp)
    return np.asarray(qkv + out + router + moe)


def _elements(tokens: Floats, shape: Shape, tp: int, bandwidth: float) -> Floats:
    """Two norms that add the residual, rotary embedding, and the activation of a dense layer."""
    heads, kv = _heads(shape, tp)
    elements = 8 * shape.hidden + 2 * (heads + kv) * shape.head_dim + 3 * shape.ffn / tp
    operators = ELEMENT_OPERATORS if shape.ffn else ELEMENT_OPERATORS - 1
    return np.asarray(1e3 * tokens * elements * 2 / (BANDWIDTH_SHARE * bandwidth) + operators * ELEMENT_US / 1e3)


def _chunks(batches: Batches, operators: Operators, shape: Shape, tp: int) -> Floats:
    heads, kv = _heads(shape, tp)
    whole = batches.new + batches.before
    alone = operators.prefill(batches.new.ravel(), heads, kv).reshape(whole.shape)
    full = operators.prefill(whole.ravel(), heads, kv).reshape(whole.shape)
    share = batches.pairs / np.maximum(whole * (whole + 1) / 2, 1)
    return np.asarray(np.where(batches.new > 0, np.maximum(share * full, alone), 0).sum(axis=1))


def steps_of(batches: Batches, ms: Floats, device: str, model: str, tp: int) -> Steps:
    """Batches and their times as measured steps."""
    return Steps(
        device,
        model,
        tp,
        prefill_tokens=np.asarray(batches.new.sum(axis=1)),
        pairs=np.asarray(batches.pairs.sum(axis=1)),
        decodes=batches.decodes,
        context=np.asarray(batches.decodes * batches.context),
        chunks=np.asarray((batches.new > 0).sum(axis=1).astype(float)),
        ms=ms,
    )


CHUNKS: Final = (1, 3)
LONGEST: Final = 12_000
"""Chunks of a batch, and the longest mean context, of the batches that shipped profiles are fitted to."""


def random_batches(
    count: int, kv_tokens: int, seed: int, *, chunks: tuple[int, int] = CHUNKS, longest: float = LONGEST
) -> Batches:
    """A third each of prefill, decode and mixed batches within the KV memory of an engine.

    Chunks up to budgets of 512, 2048 and 8192 tokens, ``chunks`` of them at least and at most, half on a prefix of 256
    to twice ``longest`` tokens; 1 to 256 decodes with contexts lognormal around a centre of 128 to ``longest``.
    """
    chance = np.random.Generator(np.random.PCG64(seed))
    kept: list[tuple[list[float], list[float], float, float]] = []
    while len(kept) < count:
        kind = len(kept) % 3
        new, before = (
            _random_chunks(chance, chunks, 2 * longest) if kind != 1 else ([0.0] * chunks[1], [0.0] * chunks[1])
        )
        decodes = float(np.floor(np.exp(chance.uniform(0, np.log(257))))) if kind != 0 else 0.0
        centre = np.exp(chance.uniform(np.log(128), np.log(longest)))
        context = float(np.mean(chance.lognormal(np.log(centre), 0.5, int(decodes)))) if decodes else 0.0
        if sum(new) + sum(before) + decodes * context <= kv_tokens:
            kept.append((new, before, decodes, float(np.rint(context))))
    columns = (np.array(column) for column in zip(*kept, strict=True))
    return Batches(*columns)


def _random_chunks(
    chance: np.random.Generator, chunks: tuple[int, int], prefix: float
) -> tuple[list[float], list[float]]:
    budget, count = int(chance.choice([512, 2048, 8192])), int(chance.integers(chunks[0], chunks[1] + 1))
    tokens = int(np.exp(chance.uniform(np.log(16 * count), np.log(budget))))
    cuts = np.sort(chance.integers(1, tokens, count - 1))
    sizes = np.diff([0, *cuts, tokens])
    new = [float(size) for size in sizes] + [0.0] * (chunks[1] - count)
    before = [
        float(np.floor(np.exp(chance.uniform(np.log(256), np.log(prefix))))) if size and chance.random() < 0.5 else 0.0
        for size in new
    ]
    return new, before
