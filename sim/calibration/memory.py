"""Memory figures that a profile carries, from the shape of its model."""

from sim.cost import _models


def figures(model: str, tp: int) -> dict[str, float]:
    """Weights and KV bytes of one GPU where the model's shape is known; nothing otherwise."""
    shape = _models.find(model)
    if shape is None:
        return {}
    return {
        "weight_gib_per_gpu": shape.weight_gib_per_gpu(tp),
        "kv_bytes_per_token_per_gpu": shape.kv_bytes_per_token_per_gpu(tp),
    }
