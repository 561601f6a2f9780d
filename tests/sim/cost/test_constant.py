"""Steps of constant cost."""

from pathlib import Path

import pytest

from sim.cost._coefficients import Coefficients
from sim.cost.constant import Constant


def compiled(**knobs: float) -> Coefficients:
    spec = Constant(**{"step_ms": 8.0, **knobs})
    return spec.compile(1e-9, device="any", model="any", tp=1, overlap=True, base=Path())


def test_a_step_is_a_step() -> None:
    """8 ms whatever it holds, nothing when it holds nothing."""
    cost = compiled()
    assert cost.step([], [5]) == cost.step([(4000, 90)], [1, 2, 3]) == 8_000_000
    assert cost.step([], []) == 0


def test_tokens_and_sequences_cost_what_they_are_given() -> None:
    """Prefill pays by token, a decode by sequence and never for prefill."""
    cost = compiled(prefill_ms_per_token=0.5, per_sequence_ms=2.0)
    assert cost.step([(10, 0), (20, 5)], [7, 9, 11]) == pytest.approx((8 + 30 * 0.5 + 3 * 2) * 1e6)
    assert cost.step([], [7]) == pytest.approx(10e6)


@pytest.mark.parametrize(
    "knobs", [{"step_ms": 0}, {"step_ms": -1}, {"per_sequence_ms": -1}, {"prefill_ms_per_token": 1e999}]
)
def test_impossible_costs_are_refused(knobs: dict[str, float]) -> None:
    """Refused at construction."""
    with pytest.raises(ValueError, match="must be"):
        compiled(**knobs)


def test_memory_comes_from_the_model_all_the_same() -> None:
    """Weights and KV bytes are those of the shipped profile, where there is one; the status says what it is."""
    spec = Constant(step_ms=8)
    known = spec.load(device="a100-80gb", model="qwen3-8b", tp=1, base=Path())
    assert (known.status, known.weight_gib_per_gpu, known.kv_bytes_per_token_per_gpu) == ("constant", 15.26, 147456)
    assert spec.files(device="a100-80gb", model="qwen3-8b", tp=1, base=Path()) == []
    unknown = spec.load(device="a100-80gb", model="mine", tp=1, base=Path())
    assert (unknown.status, unknown.weight_gib_per_gpu) == ("constant", None)
