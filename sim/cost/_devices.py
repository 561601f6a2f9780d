"""GPUs: what memory they offer, and how a profile measured in short bursts becomes a steady rate on them.

Memory is what a framework can use, not the name on the box. 79.2 GiB of an 80 GB card is what the block counts reported
by vLLM 0.15 on H100 fit (tests hold it); 39.4 GiB of a 40 GB card likewise. GB200: 184 GB a GPU in the report of the
NeMo Gym replay campaign; read as decimal (171.4 GiB), because then 112 GiB of weights and 1.4 GiB of other memory leave
the 10.7 M tokens that its KV gauge showed. RTX 4090 and RTX PRO 6000: what CUDA reports of 24 and 96 GB.

``slowdown`` multiplies the token cost above 256 tokens and the attention of prefill: kernels timed in bursts run at
clocks that a loaded GPU does not hold. A100 1.25 (measured serving runs ask for 1.0 to 1.45), H100 1.0. Host time:
1.5 ms a step on both, and 0.04 ms a sequence on H100, from serving runs of vLLM 0.12 with synchronous scheduling; with
asynchronous scheduling 1.0 ms a step is left over. A100 runs do not tell the two apart.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU type."""

    memory_gib: float
    slowdown: float = 1.0
    host_ms: tuple[float, float] = (1.5, 0.04)
    """Host time a step and a sequence, synchronous scheduling."""
    host_overlap_ms: tuple[float, float] = (1.0, 0.0)
    """The same with asynchronous (overlap) scheduling."""


_A100_HOST: Final = (1.5, 0.0)

DEVICES: Final = {
    "a100-80gb": Device(79.2, 1.25, _A100_HOST, _A100_HOST),
    "a100-40gb": Device(39.4, 1.25, _A100_HOST, _A100_HOST),
    "h100-80gb": Device(79.2),
    "gb200": Device(171.4),
    "rtx4090-24gb": Device(23.5),
    "rtxpro6000-96gb": Device(94.9),
}
