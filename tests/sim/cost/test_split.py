"""The account of a step: prefill, decode and host are integers that add up to the time it took."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.cost._coefficients import Coefficients
from sim.cost._split import split
from sim.cost.constant import Constant
from sim.cost.form_d import FormD


def qwen(**knobs: float) -> Coefficients:
    return FormD(**knobs).compile(  # type: ignore[arg-type]
        1e-9, device="h100-80gb", model="qwen3-8b", tp=1, overlap=False, base=Path()
    )


def row(
    cost: Coefficients, chunks: list[tuple[int, int]], contexts: list[int], steps: int = 1, scale: float = 1.0
) -> dict[str, int]:
    """One row of an engines table; several steps repeat decodes, or full chunks of one prompt."""
    ticks = 0.0
    for i in range(steps):
        ticks += cost.step([(q, p + i * q) for q, p in chunks], [c + i for c in contexts])
    return {
        "start": 1000,
        "end": 1000 + round(ticks * scale),
        "steps": steps,
        "decodes": len(contexts),
        "context": sum(contexts),
        "pairs": sum(q * p + q * (q + 1) // 2 for q, p in chunks),
        "chunks": len(chunks),
        "tokens": sum(q for q, _ in chunks) + len(contexts),
    }


def parts(cost: Coefficients, *rows: dict[str, int]) -> list[tuple[int, int, int]]:
    columns = {name: np.array([r[name] for r in rows], dtype=np.int64) for name in rows[0]}
    shares = split(cost, columns)
    assert all(s.dtype == np.int64 for s in shares)
    return list(zip(*(s.tolist() for s in shares), strict=True))


def test_a_mixed_step() -> None:
    """Decode is the same step without its chunk, host is host0 + host1*(n + K), prefill the remainder."""
    cost, gpu = qwen(), qwen(host0_ms=0, host1_ms=0)
    mixed = row(cost, [(2000, 500)], [900, 40])
    [(prefill, decode, host)] = parts(cost, mixed)
    assert host == pytest.approx(1.5e6 + 0.04e6 * 3, abs=1)
    assert decode == pytest.approx(gpu.step([], [900, 40]), abs=1)
    assert prefill + decode + host == mixed["end"] - mixed["start"]


def test_a_run_of_decodes_has_no_prefill() -> None:
    """All that is not host is decode."""
    cost = qwen()
    [(prefill, decode, host)] = parts(cost, row(cost, [], [900, 40, 7], steps=500))
    assert prefill == 0
    assert host == pytest.approx(500 * (1.5e6 + 0.04e6 * 3), rel=1e-9)
    assert decode > 0


def test_prefill_alone_has_no_decode() -> None:
    """All that is not host is prefill."""
    cost = qwen()
    [(prefill, decode, host)] = parts(cost, row(cost, [(2000, 0), (30, 0)], []))
    assert decode == 0
    assert prefill > host > 0


def test_idle_rows_have_nothing() -> None:
    """No steps, no shares."""
    cost = qwen()
    idle = dict.fromkeys(row(cost, [], [1]), 0) | {"start": 5, "end": 500}
    assert parts(cost, idle, row(cost, [], [1]))[0] == (0, 0, 0)


def test_a_table_without_rows() -> None:
    """An engine that never worked."""
    names = ("start", "end", "steps", "decodes", "context", "pairs", "chunks", "tokens")
    assert [len(s) for s in split(qwen(), {name: np.zeros(0, dtype=np.int64) for name in names})] == [0, 0, 0]


def test_noise_scales_all_shares() -> None:
    """An engine that takes 10 % longer takes 10 % longer in each part."""
    cost = qwen()
    [plain, slow] = parts(cost, row(cost, [(2000, 500)], [900]), row(cost, [(2000, 500)], [900], scale=1.1))
    assert slow == pytest.approx([1.1 * part for part in plain], rel=1e-6)


def test_constant_steps_are_divided_too() -> None:
    """8 ms of step and 0.5 ms a prefill token: a mixed step keeps 8 ms for its decodes."""
    cost = Constant(step_ms=8, prefill_ms_per_token=0.5).compile(
        1e-9, device="any", model="any", tp=1, overlap=False, base=Path()
    )
    assert parts(cost, row(cost, [(10, 0)], [50, 60])) == [(5_000_000, 8_000_000, 0)]


chunk = st.tuples(st.integers(1, 8192), st.integers(0, 100_000))


@given(st.lists(chunk, max_size=3), st.lists(st.integers(1, 100_000), max_size=40), st.integers(1, 50))
def test_the_shares_add_up(chunks: list[tuple[int, int]], contexts: list[int], steps: int) -> None:
    """No residual, nothing negative; decode and host are what the model says."""
    if not chunks and not contexts:
        return
    cost = qwen()
    steps = steps if len(chunks) < 2 else 1
    one = row(cost, chunks, contexts, steps)
    [(prefill, decode, host)] = parts(cost, one)
    assert prefill + decode + host == one["end"] - one["start"]
    assert min(prefill, decode, host) >= 0
    assert host == pytest.approx(steps * (cost.host0 + cost.host1 * (len(contexts) + len(chunks))), rel=1e-9, abs=1)
    gpu = qwen(host0_ms=0, host1_ms=0)
    assert decode == pytest.approx(sum(gpu.step([], [c + i for c in contexts]) for i in range(steps)), rel=1e-9, abs=2)
