"""Parameters of an engine and the presets that fill them.

A preset is the default behaviour of one product; every field may be overridden. Zero and absent differ: a field that is
None is derived from preset, device or profile by ``resolve``, and the resolved value is what a scenario prints.

Source of the defaults: vLLM V1 (``vllm/engine/arg_utils.py``, ``vllm/v1/core``) and SGLang
(``python/sglang/srt/server_args.py``, ``environ.py``, ``managers/schedule_policy.py``).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

Visibility = Literal["at_schedule", "after_prefill"]

_AT_LEAST_ONE = (
    "tp",
    "block_tokens",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_prefill_tokens",
    "chunked_prefill_tokens",
    "new_token_ratio_decay_steps",
    "clip_max_new_tokens",
    "kv_tokens",
)


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """One engine: a preset (``vllm`` or ``sglang``), the hardware and model it runs, and any field overridden."""

    preset: Literal["vllm", "sglang"]
    device: str = "a100-80gb"
    """GPU type; names a shipped cost profile together with ``model`` and ``tp``."""
    model: str = "qwen3-8b"
    tp: int = 1
    """GPUs that share one engine by tensor parallelism."""
    overlap: bool = True
    """Asynchronous (vLLM) or overlap (SGLang) scheduling: step i+1 is fixed when step i starts."""
    visibility: Visibility | None = None
    """When a prompt's blocks can be hit: once allocated (``at_schedule``, vLLM), once computed (``after_prefill``,
    SGLang)."""
    block_tokens: int | None = None
    """Tokens of one KV block (vLLM, 16) or page (SGLang, 1)."""
    max_num_batched_tokens: int | None = None
    """vLLM: tokens of one step. 2048 on an A100, 8192 on larger devices."""
    max_num_seqs: int | None = None
    """Requests in the running batch. vLLM: 256 on an A100, 1024 on larger devices. SGLang: max_running_requests."""
    long_prefill_token_threshold: int = 0
    """vLLM: most tokens of one chunk; 0 = no limit, as in the product."""
    reserve_full_prompt: bool = True
    """vLLM: admission needs blocks for the whole prompt (True) or for its first chunk (False, older versions)."""
    watermark_share: float = 0.0
    """vLLM: share of blocks kept free when a waiting request is admitted beside scheduled ones."""
    max_prefill_tokens: int = 16384
    """SGLang: new tokens of one prefill batch."""
    chunked_prefill_tokens: int = 8192
    """SGLang: new tokens of one prefill batch before the last prompt is cut into chunks."""
    schedule_conservativeness: float = 1.0
    """SGLang: scales the share of the unused token limits that admission reserves."""
    new_token_ratio_decay_steps: int = 600
    """SGLang: decode steps over which that share falls from its start to its floor."""
    clip_max_new_tokens: int = 4096
    """SGLang: most tokens of a request's limit that admission reserves."""
    kv_tokens: int | None = None
    """KV capacity in tokens; None: from device memory, weights and bytes a token."""
    memory_share: float = 0.9
    """Share of device memory for weights and KV."""
    other_gib: float = 1.4
    """Activations, graphs and communicator, GiB a GPU."""
    cost: Any = None
    """Cost model of a step, ``{kind: form_d | constant, ...}``; None: form_d with the shipped profile."""

    def __post_init__(self) -> None:
        """Refuse sizes that no product accepts."""
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        for name in ("memory_share", "schedule_conservativeness"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name)}")
        if self.memory_share > 1:
            raise ValueError(f"memory_share must be 1 or less, not {self.memory_share}")
        if not 0 <= self.watermark_share < 1:
            raise ValueError(f"watermark_share must be 0 or more and less than 1, not {self.watermark_share}")
        if self.long_prefill_token_threshold < 0:
            raise ValueError(f"long_prefill_token_threshold must be 0 or more, not {self.long_prefill_token_threshold}")


def resolve(spec: EngineSpec) -> EngineSpec:
    """Fill what a preset and a device decide: no field but ``kv_tokens`` and ``cost`` stays None."""
    small = spec.device.startswith("a100")
    if spec.preset == "vllm":
        defaults: dict[str, Any] = {
            "visibility": "at_schedule",
            "block_tokens": 16,
            "max_num_batched_tokens": 2048 if small else 8192,
            "max_num_seqs": 256 if small else 1024,
        }
    else:
        defaults = {
            "visibility": "after_prefill",
            "block_tokens": 1,
            "max_num_batched_tokens": spec.chunked_prefill_tokens,
            "max_num_seqs": 2048,
        }
    return replace(spec, **{name: value for name, value in defaults.items() if getattr(spec, name) is None})
