"""Parameters of an engine and the presets that fill them.

A preset is the default behaviour of one product. A field that is None is decided by ``resolve`` from preset, device or
profile, and the resolved value is what a scenario prints; a field of the other product stays None. What would have no
effect is refused: a field of the other preset, or the parts of a KV capacity that is given as a number.

Source of the defaults: vLLM V1 (``vllm/engine/arg_utils.py``, ``vllm/v1/core``) and SGLang
(``python/sglang/srt/server_args.py``, ``environ.py``, ``managers/schedule_policy.py``).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from sim.cost._devices import DEVICES

if TYPE_CHECKING:
    from sim.cost._models import Shape

Visibility = Literal["at_schedule", "after_prefill", "deferred", "never"]
QueueOrder = Literal["fcfs", "lpm", "dfs-weight", "lof", "random", "routing-key"]
KEY_HEADER: Final = "x-smg-routing-key"
"""The header in which SGLang's queue order reads a routing key."""

PRESETS: Final[dict[str, dict[str, Any]]] = {
    "vllm": {
        "visibility": "at_schedule",
        "block_tokens": 16,
        "max_num_batched_tokens": None,
        "long_prefill_token_threshold": 0,
        "reserve_full_prompt": True,
        "watermark_share": 0.0,
        "state_tokens_per_seq": 0,
        "align_chunks": False,
    },
    "sglang": {
        "visibility": "after_prefill",
        "block_tokens": 1,
        "max_num_seqs": 2048,
        "max_prefill_tokens": 16384,
        "chunked_prefill_tokens": 8192,
        "enable_mixed_chunk": False,
        "queue_order": "fcfs",
        "in_batch_check_tokens": None,
        "in_batch_defer_tokens": None,
        "schedule_conservativeness": 1.0,
        "new_token_ratio_decay_steps": 600,
        "clip_max_new_tokens": 4096,
    },
}
"""Fields of each product with their defaults; None: they depend on other fields."""
_SHARED: Final = ("visibility", "block_tokens", "max_num_seqs")
OWNER: Final = {name: preset for preset, names in PRESETS.items() for name in names if name not in _SHARED}
"""The preset of each field that only one of the products has."""

_DEFERRAL: Final = {"in_batch_check_tokens": 32, "in_batch_defer_tokens": 32}
_LARGE_GIB: Final = 70
"""Memory from which vLLM takes a GPU for a large one, but for the A100."""
_CACHE_AWARE: Final = ("lpm", "dfs-weight")
_MEMORY: Final = {"memory_share": 0.9, "other_gib": 1.4}

_AT_LEAST_ONE: Final = (
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
_NOT_NEGATIVE: Final = (
    "long_prefill_token_threshold",
    "watermark_share",
    "in_batch_check_tokens",
    "in_batch_defer_tokens",
    "other_gib",
    "state_tokens_per_seq",
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
    SGLang), or once computed with siblings held back until then (``deferred``, SGLang with ``lpm`` or ``dfs-weight``).
    ``never``: prefix caching is off, every prompt is computed whole.
    """
    block_tokens: int | None = None
    """Tokens of one KV block (vLLM, 16; hybrid models a block as large as their state) or page (SGLang, 1)."""
    max_num_seqs: int | None = None
    """Requests in the running batch. vLLM: 256 on an A100, 1024 on larger devices, at most ``max_num_batched_tokens``.
    SGLang: max_running_requests, 2048."""
    max_num_batched_tokens: int | None = None
    """vLLM: tokens of one step. 2048 on an A100, 8192 on larger devices."""
    long_prefill_token_threshold: int | None = None
    """vLLM: most tokens of one chunk; 0, the default, is no limit, as in the product."""
    reserve_full_prompt: bool | None = None
    """vLLM: admission needs blocks for the whole prompt (true, the default) or for its first chunk (false, older
    versions)."""
    watermark_share: float | None = None
    """vLLM: share of blocks kept free when a waiting request is admitted beside scheduled ones. Default 0."""
    state_tokens_per_seq: int | None = None
    """vLLM: room that the state of one running sequence of a hybrid model takes, in tokens of KV. Default: by the shape
    of the model; 0 for one without such a state."""
    align_chunks: bool | None = None
    """vLLM: chunks of a prompt end at block boundaries, where the state can be kept. Default: true for hybrid models
    with prefix caching, false for others."""
    max_prefill_tokens: int | None = None
    """SGLang: new tokens of one prefill batch. Default 16384."""
    chunked_prefill_tokens: int | None = None
    """SGLang: new tokens of one prefill batch before the last prompt is cut into chunks. Default 8192."""
    enable_mixed_chunk: bool | None = None
    """SGLang: running requests decode in the prefill batch instead of waiting for it. Default false."""
    queue_order: QueueOrder | None = None
    """SGLang: order of the waiting queue. Default fcfs; lpm is longest cached prefix first, lof longest output."""
    in_batch_check_tokens: int | None = None
    """SGLang, ``visibility: deferred``: a request whose cached prefix is no longer than this looks for siblings among
    those that wait. Default 32."""
    in_batch_defer_tokens: int | None = None
    """SGLang, ``visibility: deferred``: it is held back behind one with which it shares at least this. Default 32."""
    schedule_conservativeness: float | None = None
    """SGLang: scales the share of the unused token limits that admission reserves. Default 1."""
    new_token_ratio_decay_steps: int | None = None
    """SGLang: decode steps over which that share falls from its start to its floor. Default 600."""
    clip_max_new_tokens: int | None = None
    """SGLang: most tokens of a request's limit that admission reserves. Default 4096."""
    kv_tokens: int | None = None
    """KV capacity in tokens; absent: from device memory, weights and bytes a token."""
    memory_share: float | None = None
    """Share of device memory for weights and KV, where ``kv_tokens`` is absent. Default 0.9."""
    other_gib: float | None = None
    """Activations, graphs and communicator, GiB a GPU, where ``kv_tokens`` is absent. Default 1.4."""
    kv_bits: Literal[16, 8] | None = None
    """Bits of an element of KV, where ``kv_tokens`` is absent; 8 is fp8. They change the room, not the times of steps.
    Absent: those of the model's description, else 16."""
    cost: Any = None
    """Cost model of a step, ``{kind: form_d | constant, ...}``; absent: form_d with the shipped profile."""

    def __post_init__(self) -> None:
        """Refuse sizes that no product accepts, and fields that could have no effect."""
        self._check_effect()
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must be 0 or more, not {value}")
        for name in ("memory_share", "schedule_conservativeness"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be more than 0, not {value}")
        if self.memory_share is not None and self.memory_share > 1:
            raise ValueError(f"memory_share must be 1 or less, not {self.memory_share}")
        if self.watermark_share is not None and self.watermark_share >= 1:
            raise ValueError(f"watermark_share must be less than 1, not {self.watermark_share}")

    def _check_effect(self) -> None:
        for name, preset in OWNER.items():
            if preset != self.preset and getattr(self, name) is not None:
                raise ValueError(f"{name} is a field of preset {preset}; it has no effect on {self.preset}")
        if self.kv_tokens is not None:
            for name in (*_MEMORY, "kv_bits"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} has no effect beside kv_tokens: give one of them")
        if self.visibility == "deferred" and self.preset != "sglang":
            raise ValueError(f"visibility deferred is a rule of preset sglang; {self.preset} holds nobody back")


def resolve(spec: EngineSpec, shape: "Shape | None" = None) -> EngineSpec:
    """Fill what preset, device, the model's ``shape`` and other fields decide.

    A ValueError opens with the field that it refuses. Only ``kv_tokens``, ``kv_bits``, ``cost``, fields of the other
    preset and the parts of a given ``kv_tokens`` stay None.
    """
    defaults = PRESETS[spec.preset] | (_vllm(spec, shape) if spec.preset == "vllm" else _sglang(spec))
    if spec.kv_tokens is None:
        defaults |= _MEMORY
    if spec.visibility == "never" and spec.queue_order in _CACHE_AWARE:
        raise ValueError(f"queue_order {spec.queue_order} has no effect without prefix caching: SGLang then takes fcfs")
    resolved = replace(spec, **{name: value for name, value in defaults.items() if getattr(spec, name) is None})
    tokens, seqs = resolved.max_num_batched_tokens, resolved.max_num_seqs
    if tokens is not None and seqs is not None and seqs > tokens:
        raise ValueError(f"max_num_seqs: vLLM refuses {seqs}, more than max_num_batched_tokens ({tokens})")
    if resolved.align_chunks:
        if spec.visibility == "never":
            raise ValueError("align_chunks has no effect without prefix caching, for which vLLM aligns them")
        _check_alignment(resolved)
    return resolved


def _check_alignment(spec: EngineSpec) -> None:
    """A chunk must be able to reach the next boundary."""
    block = spec.block_tokens or 1
    for name in ("max_num_batched_tokens", "long_prefill_token_threshold"):
        most = getattr(spec, name)
        if 0 < most < block:
            raise ValueError(f"{name} must be {block} or more, the block that chunks are aligned to, not {most}")


def _vllm(spec: EngineSpec, shape: "Shape | None") -> dict[str, Any]:
    """Sizes by device; a given budget lowers the default number of sequences, never a given one."""
    known = DEVICES.get(spec.device)
    is_small = spec.device.startswith("a100") or (known is not None and known.memory_gib < _LARGE_GIB)
    tokens = spec.max_num_batched_tokens or (2048 if is_small else 8192)
    defaults = {"max_num_batched_tokens": tokens, "max_num_seqs": min(256 if is_small else 1024, tokens)}
    if shape is None or not shape.state_mib_per_sequence:
        return defaults
    state = {"state_tokens_per_seq": shape.state_tokens(spec.tp, spec.kv_bits)}
    aligned = {"align_chunks": spec.visibility != "never"}
    return defaults | state | aligned | {"block_tokens": shape.state_block_tokens or 16}


def _sglang(spec: EngineSpec) -> dict[str, Any]:
    """Cache-aware queue orders hold siblings back; only then does it matter which."""
    is_cache_aware = spec.queue_order in _CACHE_AWARE
    visibility = spec.visibility or ("deferred" if is_cache_aware else "after_prefill")
    if visibility == "deferred":
        return {"visibility": visibility, **_DEFERRAL}
    for name in _DEFERRAL:
        if getattr(spec, name) is not None:
            raise ValueError(f"{name} has no effect unless visibility is deferred; it is {visibility}")
    return {"visibility": visibility}
