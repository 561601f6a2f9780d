"""Memory of a model by its shape: against published tables, against counts of real engines, and what is refused."""

import csv
from pathlib import Path

import pytest

from sim.cost import _memory, _models
from sim.errors import ScenarioError

DATA = Path(__file__).parents[2] / "data"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def shape(name: str) -> _models.Shape:
    return _models.load(_models.locate(name, Path()))


def described(name: str) -> _models.Shape:
    """The description of a model that a table names in its own way."""
    short = name.lower().rpartition("/")[2].split(" ")[0]
    for known in ("glm-4.5-air", "glm-4.5", "llama-2-7b", "mistral-nemo", "llama-4-scout", "qwen2.5-7b"):
        if short.startswith(known):
            full = {"mistral-nemo": "mistral-nemo-12b", "llama-4-scout": "llama-4-scout-fp8"}
            return shape(full.get(known, known))
    return shape(short.removesuffix("-instruct"))


@pytest.mark.parametrize("row", rows("kv_capacity_80gb.csv"), ids=lambda r: f"{r['model']}-tp{r['tp']}")
def test_kv_and_weights_by_shape(row: dict[str, str]) -> None:
    """KV bytes exactly, weights within rounding: dense, experts, latent attention, hybrid, any tensor-parallel size."""
    model, tp = described(row["model"]), int(row["tp"])
    assert model.kv_bytes_per_token_per_gpu(tp) == float(row["kv_bytes_per_token_per_gpu"])
    assert model.weight_gib_per_gpu(tp) == pytest.approx(float(row["weights_gib_per_gpu"]), abs=0.06)


def capacity(row: dict[str, str], other_gib: float) -> int:
    model, tp = described(row["model"]), int(row["tp"])
    device = "h100-80gb" if row["device"].startswith("H100") else "rtx4090-24gb"
    return _memory.shape_capacity(model, device, tp, memory_share=0.9, other_gib=other_gib)


MEASURED = rows("calibration/kv_capacity_measured.csv")
DENSE = [row for row in MEASURED if row["device"].startswith("H100") and "Scout" not in row["model"]]


@pytest.mark.parametrize("row", DENSE, ids=lambda r: f"{r['model']}-tp{r['tp']}-{r['max_num_batched_tokens']}")
def test_capacity_of_dense_models(row: dict[str, str]) -> None:
    """What vLLM reported on H100, within 3 % by shape alone."""
    assert capacity(row, 1.4) == pytest.approx(int(row["kv_tokens"]), rel=0.03)


def test_capacity_of_a_consumer_card() -> None:
    """RTX 4090 of 23.5 GiB: 5 % short with 1.4 GiB of other memory; the count that was reported leaves 1.14 GiB."""
    [row] = [each for each in MEASURED if each["device"].startswith("RTX4090")]
    assert capacity(row, 1.4) / int(row["kv_tokens"]) - 1 == pytest.approx(-0.052, abs=0.005)
    assert capacity(row, 1.14) == pytest.approx(int(row["kv_tokens"]), rel=0.005)


def test_capacity_of_an_fp8_expert_model() -> None:
    """Llama-4-Scout: 55 % too much with 1.4 GiB of other memory; the count that was reported leaves 8.04 GiB a GPU.

    Its attention is not quantised (1.4 GiB more a GPU) and its vision tower is not counted (up to 1.6 GiB); the rest,
    some 4 GiB, is assumed to be what start-up reserves for images.
    """
    [row] = [each for each in MEASURED if "Scout" in each["model"]]
    assert capacity(row, 1.4) / int(row["kv_tokens"]) - 1 == pytest.approx(0.55, abs=0.01)
    assert capacity(row, 8.04) == pytest.approx(int(row["kv_tokens"]), rel=0.005)
    model = described(row["model"])
    assert model.layers * model.attention_weights / 2 / 2**30 == pytest.approx(1.4, abs=0.05)


def test_fp8_kv_and_hybrid_state() -> None:
    """FP8 halves a token; a sequence of the hybrid model holds as much as 20,700 tokens, on 2 KV heads at TP2."""
    room = {"memory_share": 0.9, "other_gib": 1.4}
    whole = _memory.shape_capacity(shape("llama-3-8b"), "h100-80gb", 1, **room)
    assert _memory.shape_capacity(shape("llama-3-8b"), "h100-80gb", 1, kv_bits=8, **room) == pytest.approx(
        2 * whole, abs=1
    )
    assert _models.find("llama-3-8b") == shape("llama-3-8b")
    assert _models.find("nobody") is None
    hybrid = shape("nemotron-3-super-120b-a12b")
    assert hybrid.kv_bytes_per_token_per_gpu(1) == 8192
    assert hybrid.state_tokens(1) == pytest.approx(20_700, rel=0.01)
    assert hybrid.state_tokens(2) == hybrid.state_tokens(1)
    assert hybrid.state_block_tokens == 2080
    assert shape("llama-3-8b").state_tokens(1) == 0


def test_latent_attention_is_whole_on_every_gpu() -> None:
    """DeepSeek-V3: 70,272 bytes a token at any tensor-parallel size; others divide down to one head."""
    assert {shape("deepseek-v3").kv_bytes_per_token_per_gpu(tp) for tp in (1, 8, 16)} == {70272}
    heads = [shape("qwen3-30b-a3b").kv_bytes_per_token_per_gpu(tp) for tp in (1, 2, 4, 8)]
    assert heads == [98304, 49152, 24576, 24576]


GOOD = "layers: 2\nhidden: 64\nheads: 4\nkv_heads: 2\nhead_dim: 16\nffn: 128\nvocab: 100\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("layers: 2", "layer: 2", "unknown key 'layer'; did you mean 'layers'"),
        ("layers: 2\n", "", "layers is missing"),
        ("layers: 2", "layers: 2.5", "layers must be a whole number"),
        ("ffn: 128\n", "", "give ffn, or experts"),
        ("ffn: 128", "experts: 4", "experts need all three"),
        ("ffn: 128", "experts: 4\nexpert_ffn: 8\nexperts_per_token: 5", "experts_per_token is more than experts"),
        ("kv_heads: 2", "kv_heads: 2\nkv_latent: 576", "give kv_heads, or kv_latent"),
        ("ffn: 128", "ffn: 128\nattention_layers: 3", "attention_layers is more than layers"),
        ("ffn: 128", "ffn: 128\nkv_bits: 0", "weight_bits and kv_bits are 1 or more"),
        (GOOD, "- 1\n", "a description is a mapping"),
    ],
)
def test_a_wrong_description_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The file and the rule."""
    (tmp_path / "mine.yaml").write_text(GOOD.replace(old, new))
    with pytest.raises(ScenarioError, match=rf"mine\.yaml: {message}"):
        _models.load(_models.locate("mine.yaml", tmp_path))


def test_descriptions_are_found_by_name_or_file(tmp_path: Path) -> None:
    """A shipped name, a file beside the scenario, or the nearest name."""
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert _models.load(_models.locate("mine.yaml", tmp_path)).name == "mine"
    for name in _models.names():
        assert shape(name).weights > 1e9
    with pytest.raises(ScenarioError, match="did you mean 'qwen3-8b'"):
        _models.locate("qwen3-8", Path())
    with pytest.raises(ScenarioError, match=r"nowhere\.yaml does not exist"):
        _models.locate("nowhere.yaml", tmp_path)
