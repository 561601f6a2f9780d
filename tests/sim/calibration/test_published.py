"""Published serving runs that give means only: predicted with the errors that docs/calibration.md states."""

import numpy as np
import pytest

from sim.calibration.published import closed_loop, saturated
from tests.sim.calibration.shipped import DATA

SATURATED = {  # makespan error in percent by slowdown 1.0, 1.15, 1.3, 1.45: published for the same coefficients
    "A100 qwen3-14b tp1, 500 of 2000 in, 100 out": (-28, -20, -12, -4),
    "A100 qwen3-14b tp1, 500 of 4000 in, 200 out": (-27, -20, -13, -5),
    "A100 qwen3-14b tp1, 100 of 32000 in, 100 out": (-18, -7, 3, 13),
    "A100 qwen3-235b-a22b tp8, 500 of 2000 in, 100 out": (-18, -11, -4, 3),
    "A100 qwen3-235b-a22b tp8, 500 of 4000 in, 200 out": (-23, -17, -10, -4),
    "A100 qwen3-235b-a22b tp8, 100 of 32000 in, 100 out": (-25, -17, -9, -1),
}


@pytest.mark.parametrize(("column", "slowdown"), list(enumerate((1.0, 1.15, 1.3, 1.45))))
def test_saturated_runs_on_an_a100(column: int, slowdown: float) -> None:
    """Makespan as the published replay of the same coefficients has it, within 4 points; TPOT near the makespan."""
    found = {each.name: each for each in saturated(DATA / "saturated_serving.csv.gz", slowdown)}
    for name, errors in SATURATED.items():
        assert 100 * found[name].error("makespan") == pytest.approx(errors[column], abs=4), name
        assert 100 * found[name].error("tpot") == pytest.approx(100 * found[name].error("makespan"), abs=9), name


@pytest.mark.parametrize(
    ("model", "backend", "points", "mean", "median"),
    [
        ("Qwen/Qwen3-32B", "vllm", 60, 5.2, 1.0),
        ("Qwen/Qwen3-32B", "sglang", 57, 5.7, -1.5),
        ("meta-llama/Llama-3.1-8B-Instruct", "trtllm", 177, 8.7, -1.0),
    ],
)
def test_closed_loops_on_an_h100(model: str, backend: str, points: int, mean: float, median: float) -> None:
    """Mean absolute and median error of TPOT, in percent."""
    errors = np.array(
        [100 * each.error("tpot") for each in closed_loop(DATA / "closed_loop_h100.csv.gz", model, backend)]
    )
    assert len(errors) == points
    assert np.abs(errors).mean() == pytest.approx(mean, abs=1.0)
    assert np.median(errors) == pytest.approx(median, abs=1.5)
