"""KV capacity by formula, against the computed table and against counts that real engines reported."""

import csv
import dataclasses
from pathlib import Path

import pytest

from sim.cost import _memory, _profiles
from sim.cost.form_d import FormD
from sim.errors import ScenarioError

DATA = Path(__file__).parents[2] / "data"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows("kv_capacity_80gb.csv"), ids=lambda r: f"{r['model']}-tp{r['tp']}")
def test_capacity_of_an_80_gb_card(row: dict[str, str]) -> None:
    """The table's capacity, within the rounding of its weights and memory (0.05 GiB each) and its result."""
    per_token = float(row["kv_bytes_per_token_per_gpu"])
    tokens = _memory.kv_capacity_tokens(
        device_gib=79.2,
        memory_share=0.9,
        weight_gib_per_gpu=float(row["weights_gib_per_gpu"]),
        other_gib=1.4,
        kv_bytes_per_token_per_gpu=per_token,
    )
    assert abs(tokens - int(row["capacity_tokens"])) <= 0.1 * 2**30 / per_token + 500


WEIGHTS = {  # GiB a GPU of bf16 weights and KV bytes a token and GPU, from the models' shapes
    ("Qwen/Qwen2.5-7B-Instruct", "1"): (14.18, 57344),
    ("meta-llama/Llama-2-7b-hf", "1"): (12.55, 524288),
    ("meta-llama/Llama-3.1-70B-Instruct", "4"): (32.85, 81920),
    ("mistralai/Mistral-Nemo-Instruct-2407", "1"): (22.81, 163840),
    ("mistralai/Mistral-Nemo-Instruct-2407", "2"): (11.41, 81920),
    ("01-ai/Yi-34B", "2"): (32.03, 122880),
}
MEASURED = [r for r in rows("calibration/kv_capacity_measured.csv") if (r["model"], r["tp"]) in WEIGHTS]


@pytest.mark.parametrize("row", MEASURED, ids=lambda r: f"{r['model']}-tp{r['tp']}-{r['max_num_batched_tokens']}")
def test_capacity_that_vllm_reported(row: dict[str, str]) -> None:
    """Within 2 % of the formula; other memory is 1.2 to 1.5 GiB (0.4 for Llama-2-7b, the one multi-head model)."""
    weights, per_token = WEIGHTS[row["model"], row["tp"]]
    tokens = int(row["kv_tokens"])

    def formula(other: float) -> int:
        return _memory.kv_capacity_tokens(
            device_gib=79.2,
            memory_share=0.9,
            weight_gib_per_gpu=weights,
            other_gib=other,
            kv_bytes_per_token_per_gpu=per_token,
        )

    assert formula(1.4) == pytest.approx(tokens, rel=0.02)
    if "Llama-2-7b" not in row["model"]:
        assert formula(1.55) <= tokens <= formula(1.15)


def test_capacity_of_a_profile() -> None:
    """Qwen3-8B on one 80 GB A100: 397,000 tokens; on a 40 GB card what is left is much less."""
    profile = FormD().load(device="a100-80gb", model="qwen3-8b", tp=1, base=Path())
    assert _memory.profile_capacity(profile, "a100-80gb", memory_share=0.9, other_gib=1.4) == pytest.approx(
        397e3, rel=2e-3
    )
    assert _memory.profile_capacity(profile, "a100-40gb", memory_share=0.9, other_gib=1.4) == pytest.approx(
        137e3, rel=1e-2
    )


def test_the_estimated_profile_holds_what_its_gauge_showed() -> None:
    """Nemotron on GB200: 10.7 M tokens an engine."""
    profile = _profiles.load(_profiles.FOLDER / "nemotron_gb200_estimated.yaml")
    assert _memory.profile_capacity(profile, "gb200", memory_share=0.9, other_gib=1.4) == pytest.approx(
        10.7e6, rel=5e-3
    )


def test_a_model_that_does_not_fit_is_refused() -> None:
    """A 70B model on one GPU, and figures that are not known."""
    with pytest.raises(ScenarioError, match="the model does not fit"):
        _memory.kv_capacity_tokens(
            device_gib=79.2,
            memory_share=0.9,
            weight_gib_per_gpu=131.0,
            other_gib=1.4,
            kv_bytes_per_token_per_gpu=327680,
        )
    profile = _profiles.load(_profiles.FOLDER / "a100-80gb_qwen3-8b_tp1.yaml")
    with pytest.raises(ScenarioError, match="memory of device 'tpu' is not known"):
        _memory.profile_capacity(profile, "tpu", memory_share=0.9, other_gib=1.4)
    own = dataclasses.replace(profile, device_gib=79.2)
    assert _memory.profile_capacity(own, "tpu", memory_share=0.9, other_gib=1.4) == pytest.approx(397e3, rel=2e-3)
    bare = _profiles.inline({"token_ms": {0: 0.1}} | dict.fromkeys(_profiles.TIMES, 1.0))
    with pytest.raises(ScenarioError, match="give kv_tokens"):
        _memory.profile_capacity(bare, "a100-80gb", memory_share=0.9, other_gib=1.4)
