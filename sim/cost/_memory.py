"""KV capacity of one engine, in tokens.

    tokens = (memory_share * device - weights - other) / KV bytes a token, all a GPU of the tensor-parallel group

A GPU keeps its share of the KV heads of every token, so the group holds as many tokens as one GPU does. ``other``
(activations, graphs, communicator) is 1.2 to 1.5 GiB by the block counts that vLLM 0.15 reported on H100.

By shape (``_models.py``) the same holds for fewer bits of KV, for latent attention, which every GPU keeps whole, and
for more GPUs than KV heads. A sequence of a hybrid model holds a state besides, worth ``Shape.state_tokens`` of KV.
"""

from sim.cost._devices import DEVICES
from sim.cost._models import GIB, Shape
from sim.cost._profiles import Profile
from sim.errors import ScenarioError


def kv_capacity_tokens(
    *,
    device_gib: float,
    memory_share: float,
    weight_gib_per_gpu: float,
    other_gib: float,
    kv_bytes_per_token_per_gpu: float,
) -> int:
    """Tokens of KV that one engine has room for, before rounding to blocks."""
    room = memory_share * device_gib - weight_gib_per_gpu - other_gib
    if room <= 0:
        raise ScenarioError(
            f"the model does not fit: {weight_gib_per_gpu} GiB of weights and {other_gib} GiB of other memory leave "
            f"no room for KV in {memory_share} of {device_gib} GiB a GPU; raise tp or give kv_tokens"
        )
    return int(room * GIB / kv_bytes_per_token_per_gpu)


def device_gib(device: str, profile: Profile | None = None) -> float:
    """Memory that a GPU offers: what the profile says, else the table of devices."""
    if profile is not None and profile.device_gib is not None:
        return profile.device_gib
    if device not in DEVICES:
        raise ScenarioError(
            f"the memory of device {device!r} is not known (known: {', '.join(DEVICES)}): "
            "give kv_tokens, or device_gib in a cost profile"
        )
    return DEVICES[device].memory_gib


def profile_capacity(profile: Profile, device: str, *, memory_share: float, other_gib: float) -> int:
    """KV tokens of an engine that runs the model of a profile on a device."""
    if profile.weight_gib_per_gpu is None or not profile.kv_bytes_per_token_per_gpu:
        raise ScenarioError(
            f"cost profile {profile.name} does not say weight_gib_per_gpu and kv_bytes_per_token_per_gpu: "
            "give kv_tokens"
        )
    return kv_capacity_tokens(
        device_gib=device_gib(device, profile),
        memory_share=memory_share,
        weight_gib_per_gpu=profile.weight_gib_per_gpu,
        other_gib=other_gib,
        kv_bytes_per_token_per_gpu=profile.kv_bytes_per_token_per_gpu,
    )


def shape_capacity(
    shape: Shape, device: str, tp: int, *, memory_share: float, other_gib: float, kv_bits: int | None = None
) -> int:
    """KV tokens of an engine that runs a model of this shape; ``kv_bits`` where its KV is kept in other than usual."""
    return kv_capacity_tokens(
        device_gib=device_gib(device),
        memory_share=memory_share,
        weight_gib_per_gpu=shape.weight_gib_per_gpu(tp),
        other_gib=other_gib,
        kv_bytes_per_token_per_gpu=shape.kv_bytes_per_token_per_gpu(tp, kv_bits),
    )
