"""Steps composed from measured operators: by hand at measured points, against shipped fits and published errors."""

from functools import cache

import numpy as np
import pytest

from sim.calibration import evidence
from sim.calibration.compose import Batches, compose
from sim.calibration.evidence import BANDWIDTH, beyond_fit, composed_fit, has_experts
from sim.calibration.fit import by_phase, design
from sim.calibration.operators import Operators
from sim.calibration.published import DEVICES
from sim.calibration.steps import PHASES
from sim.calibration.tables import choose
from sim.cost import _models, _profiles
from sim.errors import ScenarioError
from tests.sim.calibration.shipped import DATA, rows

PUBLISHED = [row for row in rows("fit_errors_composed.csv") if row["form"] == "knots"]
QUICK = {("llama-3-8b", "1"), ("llama-2-7b", "1"), ("qwen3-30b-a3b", "2")}
"""Dense, multi-head and expert: every other model is composed in the slow tests."""


@cache
def operators(device: str) -> Operators:
    return Operators(DATA, device)


def one(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


def test_measured_points_come_back() -> None:
    """At a point of its table each operator takes what was measured."""
    a100 = operators("A100-SXM-80GB")
    gemm = choose(a100._table("op_gemm_bf16"), m=512.0, n=6144.0, k=4096.0)["ms"]
    assert a100.gemm(one(512), 6144, 4096) == pytest.approx(gemm)
    heads = {"num_heads": 32.0, "num_key_value_heads": 8.0}
    prefill = choose(a100._prefill, q_len=1024.0, **heads)["ms"]
    assert a100.prefill(one(1024), 32, 8) == pytest.approx(prefill)
    decode = choose(a100._decode, batch_size=16.0, kv_len=2048.0, **heads)["ms"]
    assert a100.decode(one(16), one(2048), 32, 8) == pytest.approx(decode)
    summed = choose(a100._table("op_allreduce"), impl="vllm_graph", num_gpus=4.0, elements_bf16=65536.0)["ms"]
    assert a100.allreduce(one(65536), 4) == pytest.approx(summed)


def test_between_points_times_lie_between() -> None:
    """In size, in heads, in sequences and in context."""
    a100 = operators("A100-SXM-80GB")
    assert a100.gemm(one(512), 6144, 4096) < a100.gemm(one(600), 6500, 4200) < a100.gemm(one(768), 7168, 5120)
    assert a100.prefill(one(2000), 24, 4) < a100.prefill(one(2000), 28, 4) < a100.prefill(one(2000), 32, 4)
    low, high = a100.decode(one(16), one(2048), 32, 8), a100.decode(one(32), one(4096), 32, 8)
    assert low < a100.decode(one(20), one(3000), 32, 8) < high


def test_a_step_by_hand() -> None:
    """One decode of 1,024 tokens in Llama-3-8B on one A100, operator by operator."""
    a100, shape = operators("A100-SXM-80GB"), _models.load(_models.FOLDER / "llama-3-8b.yaml")
    sizes = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
    layer = sum(a100.gemm(one(1), n, k) for n, k in sizes) + a100.decode(one(1), one(1024), 32, 8)
    elements = 8 * 4096 + 2 * 40 * 128 + 3 * 14336
    layer = layer + 1e3 * 2 * elements / (0.75 * 2.039e12) + 4 * 0.002
    total = 32 * layer + a100.gemm(one(1), 128256, 4096)
    batch = Batches(np.zeros((1, 3)), np.zeros((1, 3)), one(1), one(1024))
    assert compose(batch, a100, shape, 1, 2.039e12) == pytest.approx(total)


def test_a_chunk_on_a_prefix_takes_its_share() -> None:
    """The second half of a prompt costs three quarters of its attention, and never less than alone."""
    a100, shape = operators("A100-SXM-80GB"), _models.load(_models.FOLDER / "llama-3-8b.yaml")
    new = np.array([[4096.0, 0, 0], [4096.0, 0, 0], [64.0, 0, 0]])
    before = np.array([[4096.0, 0, 0], [0.0, 0, 0], [64.0, 0, 0]])
    batches = Batches(new, before, np.zeros(3), np.zeros(3))
    ms = compose(batches, a100, shape, 1, 2.039e12)
    whole, half, small = (a100.prefill(one(q), 32, 8)[0] for q in (8192, 4096, 64))
    share = (4096 * 4096 + 4096 * 4097 / 2) / (8192 * 8193 / 2)
    assert ms[0] - ms[1] == pytest.approx(32 * (share * whole - half))
    pairs = 64 * 64 + 64 * 65 / 2
    longer = max(a100.prefill(one(128), 32, 8)[0] * pairs / (128 * 129 / 2), small)
    alone = compose(Batches(new[2:], np.zeros((1, 3)), np.zeros(1), np.zeros(1)), a100, shape, 1, 2.039e12)
    assert ms[2] - alone[0] == pytest.approx(32 * (longer - small))


def test_what_no_table_holds_is_refused() -> None:
    """Another device, experts of another shape."""
    with pytest.raises(ScenarioError, match="holds no rows of tpu"):
        Operators(DATA, "tpu").gemm(one(1), 64, 64)
    with pytest.raises(ScenarioError, match="no experts of hidden 4096, width 999"):
        operators("A100-SXM-80GB").experts(one(1), 4096, 999, 2, 8, 1)


def cases():
    for row in PUBLISHED:
        marks = () if (row["model"], row["tp"]) in QUICK else pytest.mark.slow
        yield pytest.param(row, id=f"{row['device'][:4]}-{row['model']}-tp{row['tp']}", marks=marks)


@pytest.mark.parametrize("row", list(cases()))
def test_composed_steps_give_the_shipped_coefficients(row: dict[str, str]) -> None:
    """Step times of a fit to composed batches are within 3 % of the shipped coefficients', on average over batches."""
    errors, apart = composed_fit(DATA, row["device"], row["model"], int(row["tp"]))
    assert apart < 3.0
    # Other random batches, and operators at points that no table has: a model's own error is near, not equal.
    assert errors == pytest.approx({phase: float(row[f"{phase}_mape"]) for phase in PHASES}, abs=3.0)


@pytest.mark.slow
@pytest.mark.parametrize("device", list(BANDWIDTH))
@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
def test_average_errors_are_the_published_ones(device: str, experts: bool) -> None:
    """By device, kind of model and phase, the mean error over models is within a point of the published one."""
    known = [row for row in PUBLISHED if row["device"] == device]
    chosen = [row for row in known if has_experts(row["model"]) == experts]
    assert len(chosen) == (5 if experts else 18)
    for phase in PHASES:
        own = np.mean([composed_fit(DATA, row["device"], row["model"], int(row["tp"]))[0][phase] for row in chosen])
        published = np.mean([float(row[f"{phase}_mape"]) for row in chosen])
        assert own == pytest.approx(published, abs=1.0), phase


@pytest.mark.parametrize("device", ["A100-SXM-80GB", "H100-SXM-80GB"])
def test_a_region_reaches_as_far_as_its_coefficients_hold(device: str) -> None:
    """Batches beyond the fit, within the region: no phase is a point worse than the error that the profile states."""
    found = beyond_fit(DATA, device, "qwen3-8b", 1)
    assert found is not None
    stated = _profiles.find(device=DEVICES[device], model="qwen3-8b", tp=1).error_percent
    assert all(found[phase][0] < stated[phase][0] + 1 for phase in PHASES)


def test_a_region_that_is_the_fits_has_nothing_beyond() -> None:
    """Nothing was held against batches beyond the fit, so nothing is said of them."""
    assert beyond_fit(DATA, "A100-SXM-80GB", "llama-3-8b", 1) is None


def test_coefficients_can_fail_beyond_their_fit() -> None:
    """The check is able to fail: on H100 at tp 8 decode steps of long contexts are far off."""
    steps = evidence.composed_steps(DATA, "H100-SXM-80GB", "llama-3-8b", 8, count=300, seed=3, longest=100_000)
    shipped = evidence._shipped("H100-SXM-80GB", "llama-3-8b", 8)
    _, table = design(steps, tuple(start for start, _ in shipped.token_ms), {})
    errors = by_phase(table @ evidence._coefficients(shipped) / steps.ms - 1, steps.phase)
    assert errors["decode"][1] > 20
