"""The analytic roofline: form D's coefficients out of a model's shape and a GPU's peaks, without any measurement of it.

    mem   = 2*(L*W_read(N) + V*h) / tp / (mem_eff*bandwidth)            weights of a layer that a step touches
    comp  = 2*(L*W_active*N + V*h*S) / tp / (flop_eff*peak)             S: sequences that need logits
    dense = (mem^s + comp^s)^(1/s)                                      a smooth maximum
    t     = dense + t0 + L*0.02 ms
          + L*N*(10*h + 6*ffn/tp)*2 / (0.7*bandwidth)                   element-wise operators
          + L*4*A*heads*d/tp / (attn_flop_eff*peak)                     attention of prefill
          + L*2*C*kv / (kv_read_eff*bandwidth)                          attention of decode: its KV is read
          + (tp>1) 2*L*(latency + 2*(tp-1)/tp*N*h*2/(nvlink_eff*link))  all-reduces

    W_active = attention + k experts      W_read = attention + E*(1 - (1 - k/E)^N) experts

g is t at the knots; the logits are a cost of decodes and chunks (the secant at 256 of them). Efficiencies were fitted
on six dense model and tensor-parallel sizes of each GPU to steps composed from measured operators. Errors against such
steps: 3 to 6 % of dense models with grouped KV heads, 10 to 15 % of expert models, mostly too fast in prefill, where
nobody measured their operators; ``error_percent`` states them, and other shapes and GPUs are at least as uncertain.

Weights of fewer bits are read faster and multiplied at the peak of 16 bits. Not in any fit: latent attention (priced at
its latent width), the state of hybrid models (read and written once a step and sequence).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.cost._models import Shape
from sim.cost._profiles import Profile

KNOTS: Final = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
LOGIT_SEQUENCES: Final = 256
MLA_VALUE: Final = 512
"""Elements of a latent value; the rest of ``kv_latent`` is the rotary key."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Peaks of a GPU type, and the shares of them that kernels reach."""

    peak: float
    """bf16 operations a second."""
    bandwidth: float
    """Bytes of memory a second."""
    link: float
    """Bytes a second to the other GPUs, one way."""
    mem_eff: float
    flop_eff: float
    attn_flop_eff: float
    kv_read_eff: float
    nvlink_eff: float
    allreduce_latency_us: float
    t0_ms: float
    smooth: float
    errors: tuple[dict[str, tuple[float, float]], dict[str, tuple[float, float]]]
    """By phase, mean and 90th percentile in percent: of dense models, of expert models."""


_A100: Final = (
    *(0.7223, 0.8813, 0.5993, 0.7292, 0.3683, 18.82, 0.3432, 1.657),
    (
        {"prefill": (4.5, 8.5), "decode": (2.8, 5.6), "mixed": (4.2, 8.7)},
        {"prefill": (15.5, 27.2), "decode": (12.2, 23.9), "mixed": (12.4, 25.9)},
    ),
)
_H100: Final = (
    *(0.8422, 0.8355, 0.5384, 0.9088, 0.4957, 12.44, 0.3658, 3.133),
    (
        {"prefill": (5.4, 10.5), "decode": (4.6, 7.8), "mixed": (5.4, 11.4)},
        {"prefill": (15.3, 31.0), "decode": (10.0, 19.2), "mixed": (16.6, 29.1)},
    ),
)
GPUS: Final = {
    "a100-80gb": Gpu(312e12, 2.039e12, 300e9, *_A100),
    "a100-40gb": Gpu(312e12, 1.555e12, 300e9, *_A100),
    "h100-80gb": Gpu(989e12, 3.35e12, 450e9, *_H100),
}


def profile(shape: Shape, gpu: Gpu, tp: int, *, device: str) -> Profile:
    """The estimated profile of a model on ``tp`` GPUs."""
    sizes = np.array(KNOTS, dtype=float)
    ms = 1e3 * _tokens(shape, gpu, tp, sizes)
    slopes = np.diff(ms) / np.diff(sizes)
    logits = 1e3 * _logits(shape, gpu, tp)
    state_ms = 1e3 * 2 * shape.state_bytes_per_sequence_per_gpu(tp) / (gpu.kv_read_eff * gpu.bandwidth)
    return Profile(
        name=f"{device}_{shape.name}_tp{tp}_roofline",
        times={
            "t0_ms": float(ms[0]) + gpu.t0_ms + 0.02 * shape.layers,
            "prefill_pair_ms": 1e3 * _pair(shape, gpu, tp),
            "decode_seq_ms": logits + state_ms,
            "decode_ctx_ms": 1e3 * shape.kv_bytes_per_token_per_gpu(tp) / (gpu.kv_read_eff * gpu.bandwidth),
            "prefill_chunk_ms": logits + state_ms,
        },
        token_ms=tuple(zip(KNOTS, slopes.tolist(), strict=False)),
        device=device,
        model=shape.name,
        tp=tp,
        status="estimated",
        source=f"analytic roofline from the shape of {shape.name}",
        error_percent=gpu.errors[1 if shape.experts else 0],
        weight_gib_per_gpu=shape.weight_gib_per_gpu(tp),
        kv_bytes_per_token_per_gpu=shape.kv_bytes_per_token_per_gpu(tp),
    )


def _tokens(shape: Shape, gpu: Gpu, tp: int, tokens: np.ndarray) -> np.ndarray:
    """Seconds that depend on the total tokens of a step alone; no logits."""
    dense = _dense(shape, gpu, tp, tokens, 0)
    width = shape.ffn + shape.shared_ffn + shape.experts_per_token * shape.expert_ffn
    elements = shape.layers * tokens * (10 * shape.hidden + 6 * width / tp) * 2 / (0.7 * gpu.bandwidth)
    if tp == 1:
        return dense + elements
    sent = 2 * (tp - 1) / tp * tokens * shape.hidden * 2
    return dense + elements + 2 * shape.layers * (gpu.allreduce_latency_us * 1e-6 + sent / (gpu.nvlink_eff * gpu.link))


def _dense(shape: Shape, gpu: Gpu, tp: int, tokens: np.ndarray, sequences: float) -> np.ndarray:
    """Seconds of matrix multiplications: weights read, or multiplied, whichever takes longer, smoothly."""
    head = shape.vocab * shape.hidden
    common = shape.attention_weights + shape.shared_weights
    touched = np.zeros_like(tokens)
    if shape.experts:
        touched = shape.experts * (1 - (1 - shape.experts_per_token / shape.experts) ** tokens)
    read = shape.layers * (common + touched * shape.expert_weights) * shape.weight_bits / 8 + head * 2
    active = shape.layers * (common + shape.experts_per_token * shape.expert_weights) * tokens + head * sequences
    mem = read / tp / (gpu.mem_eff * gpu.bandwidth)
    comp = 2 * active / tp / (gpu.flop_eff * gpu.peak)
    return (mem**gpu.smooth + comp**gpu.smooth) ** (1 / gpu.smooth)


def _logits(shape: Shape, gpu: Gpu, tp: int) -> float:
    """Seconds of one more sequence that needs logits."""
    size = np.array([float(LOGIT_SEQUENCES)])
    more = _dense(shape, gpu, tp, size, LOGIT_SEQUENCES) - _dense(shape, gpu, tp, size, 0)
    return float(more[0]) / LOGIT_SEQUENCES


def _pair(shape: Shape, gpu: Gpu, tp: int) -> float:
    """Seconds of one query-key pair in all attention layers: a product of keys and one of values for each head."""
    width = shape.kv_latent + MLA_VALUE if shape.kv_latent else 2 * shape.head_dim
    return shape.kv_layers * 2 * shape.heads * width / tp / (gpu.attn_flop_eff * gpu.peak)
