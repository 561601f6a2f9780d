"""Descriptions of models: the numbers of a published configuration that decide memory and cost. One YAML file a model.

    layers, hidden, vocab        the transformer
    heads, kv_heads, head_dim    attention; kv_latent instead of kv_heads for latent attention (MLA): elements a layer
    attention_layers             those that keep KV, where not all do (hybrid models)
    ffn                          width of a dense layer
    experts, experts_per_token   of an expert layer; expert_ffn the width of one, shared_ffn of the shared one
    weight_bits, kv_bits         16 unless the weights, or the KV, are kept in fewer
    weight_gib                   all weights, where the shape does not count them well
    state_mib_per_sequence       what a hybrid model keeps for each sequence, all GPUs together, however long it is
    state_block_tokens           KV blocks of a hybrid model are aligned to its state: tokens of one

Left out: biases and norms, vision towers, layers that differ within a model (``weight_gib`` then says the sum).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sim import registry
from sim.cost._profiles import read_yaml
from sim.errors import ScenarioError

FOLDER: Final = Path(__file__).parent / "models"
GIB: Final = 1024**3
MIB: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Shape:
    """A model, by its published configuration."""

    name: str
    layers: int
    hidden: int
    heads: int
    head_dim: int
    vocab: int
    kv_heads: int = 0
    kv_latent: int = 0
    attention_layers: int = 0
    """0: every layer."""
    ffn: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    weight_bits: int = 16
    kv_bits: int = 16
    weight_gib: float = 0.0
    """0: counted from the shape."""
    state_mib_per_sequence: float = 0.0
    state_block_tokens: int = 0

    @property
    def kv_layers(self) -> int:
        """Layers that keep KV."""
        return self.attention_layers or self.layers

    @property
    def attention_weights(self) -> float:
        """Weights of one layer's attention; those of latent attention as if it had its heads."""
        kv = self.kv_heads or self.heads
        return self.hidden * self.head_dim * (2 * self.heads + 2 * kv)

    @property
    def shared_weights(self) -> float:
        """Weights of one layer that every token uses, attention left out: a dense layer's, or the shared expert's."""
        return 3 * self.hidden * (self.ffn + self.shared_ffn)

    @property
    def expert_weights(self) -> float:
        """Weights of one expert of one layer."""
        return 3 * self.hidden * self.expert_ffn

    @property
    def weights(self) -> float:
        """All weights that the shape counts: layers, embedding and head."""
        router = self.hidden * self.experts
        layer = self.attention_weights + self.shared_weights + self.experts * self.expert_weights + router
        return self.layers * layer + 2 * self.vocab * self.hidden

    def weight_gib_per_gpu(self, tp: int) -> float:
        """Weights of one GPU; embedding and head are kept in 16 bits whatever the rest is."""
        if self.weight_gib:
            return self.weight_gib / tp
        ends = 2 * self.vocab * self.hidden
        return ((self.weights - ends) * self.weight_bits + ends * 16) / 8 / tp / GIB

    def kv_bytes_per_token_per_gpu(self, tp: int, kv_bits: int | None = None) -> float:
        """KV of one token on one GPU: its share of the heads, one at least; latent attention whole on every GPU."""
        width = self.kv_latent or 2 * math.ceil(self.kv_heads / tp) * self.head_dim
        return self.kv_layers * width * (kv_bits or self.kv_bits) / 8

    def state_bytes_per_sequence_per_gpu(self, tp: int) -> float:
        """What a sequence holds on one GPU whatever its length; 0 but for hybrid models."""
        return self.state_mib_per_sequence * MIB / tp

    def state_tokens(self, tp: int, kv_bits: int | None = None) -> int:
        """Tokens of KV that have room where the state of one sequence has."""
        return math.ceil(self.state_bytes_per_sequence_per_gpu(tp) / self.kv_bytes_per_token_per_gpu(tp, kv_bits))


def names() -> list[str]:
    """The shipped descriptions."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def locate(model: str, base: Path) -> Path:
    """File of a description: a path relative to ``base``, or a shipped name."""
    if model.endswith((".yaml", ".yml")):
        path = base / model
        if not path.is_file():
            raise ScenarioError(f"model description {path} does not exist")
        return path
    path = FOLDER / f"{model}.yaml"
    if "/" in model or not path.is_file():
        raise ScenarioError(f"no description of model {model!r}; {registry.suggest(model, names())}; or give a file")
    return path


def find(model: str) -> Shape | None:
    """The shipped description of a model, if there is one."""
    return load(FOLDER / f"{model}.yaml") if model in names() else None


def load(path: Path) -> Shape:
    """Read and check one description."""
    try:
        return _load(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None


@lru_cache(maxsize=64)
def _load(path: Path, _modified_ns: int) -> Shape:
    data = read_yaml(path)
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{path}: a description is a mapping of keys")
    known = {field.name: field for field in fields(Shape) if field.name != "name"}
    for key in data:
        if key not in known:
            raise ScenarioError(f"{path}: unknown key {key!r}; {registry.suggest(key, known)}")
    values = {key: _number(path, key, data[key], known[key].type) for key in data}
    for key in ("layers", "hidden", "heads", "head_dim", "vocab"):
        if not values.get(key):
            raise ScenarioError(f"{path}: {key} is missing, or 0")
    shape = Shape(path.stem, **values)
    rules = (
        (bool(shape.kv_heads) == bool(shape.kv_latent), "give kv_heads, or kv_latent for latent attention"),
        (shape.kv_layers > shape.layers, "attention_layers is more than layers"),
        (not (shape.ffn or shape.experts), "give ffn, or experts, experts_per_token and expert_ffn"),
        (bool(shape.experts) != bool(shape.expert_ffn and shape.experts_per_token), "experts need all three numbers"),
        (shape.experts_per_token > shape.experts, "experts_per_token is more than experts"),
        (min(shape.weight_bits, shape.kv_bits) < 1, "weight_bits and kv_bits are 1 or more"),
    )
    for wrong, rule in rules:
        if wrong:
            raise ScenarioError(f"{path}: {rule}")
    return shape


def _number(path: Path, key: str, value: Any, kind: Any) -> Any:
    whole = kind is int
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not 0 <= value < 1e12:
        raise ScenarioError(f"{path}: {key} must be a {'whole ' if whole else ''}number, zero or more, not {value!r}")
    return int(value) if whole else float(value)
