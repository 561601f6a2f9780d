"""Decode steps out of logs: the lines that engines write, by hand."""

from pathlib import Path

import pytest

from sim.calibration.step_log import read_log
from sim.calibration.steps import Steps
from sim.errors import ScenarioError

POOL = "INFO kv_cache_utils.py: GPU KV cache size: 100,000 tokens\n"
VLLM = (
    "(EngineCore) INFO Iteration({i}): {k} context requests, {p} context tokens, {n} generation requests, "
    "{m} generation tokens, iteration elapsed time: {ms} ms, GPU KV cache usage: {use}%\n"
)
SGLANG = (
    "[2025-11-01 10:00:00 TP0] Decode batch, #running-req: {n}, #token: {c}, token usage: 0.01, cuda graph: True, "
    "gen throughput (token/s): {rate}, #queue-req: 0\n"
)
PREFILL = "[2025-11-01 10:00:00 TP0] Prefill batch, #new-seq: 1, #new-token: 48, #cached-token: 0, token usage: 0.00\n"


def steps(folder: Path, text: str) -> Steps:
    (folder / "engine.log").write_text(text)
    return read_log(folder / "engine.log", device="gpu", model="m", tp=2)


def vllm(n: int = 4, ms: float = 12.5, use: float = 2.0, **other: int) -> str:
    values = {"i": 1, "k": 0, "p": 0, "m": n} | other
    return VLLM.format(n=n, ms=ms, use=use, **values)


def test_iterations_of_vllm(tmp_path: Path) -> None:
    """Decodes as counted, contexts from the share of the pool; prefill, mixed and speculative ones are left out."""
    text = POOL + vllm() + vllm(k=1, p=512) + vllm(0, k=1, p=512) + vllm(m=9) + vllm(8, 14.25, 3.5) + "other\n"
    found = steps(tmp_path, text)
    assert found.decodes.tolist() == [4, 8]
    assert found.context.tolist() == [2000, 3500]
    assert found.ms.tolist() == [12.5, 14.25]
    assert (found.device, found.tp, found.chunks.tolist()) == ("gpu", 2, [0, 0])


def test_decode_lines_of_sglang(tmp_path: Path) -> None:
    """Time by throughput since the last line: a line after a prefill, and the first, are left out; both spellings."""
    line = SGLANG.format(n=10, c=5000, rate=800.0)
    newer = SGLANG.format(n=20, c=9000, rate=1600.0).replace("#token", "#full token")
    speculative = line.replace("cuda graph", "accept len: 2.1, cuda graph")
    found = steps(tmp_path, line + newer + PREFILL + line + speculative + line.replace("batch,", "batch."))
    assert found.decodes.tolist() == [20, 10]
    assert found.context.tolist() == [9000, 5000]
    assert found.ms.tolist() == [12.5, 12.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing\n", "has no decode steps"),
        (vllm(), "tell no contexts"),
        (POOL + vllm(ms=0.03) * 3, "schedules asynchronously"),
    ],
)
def test_a_log_that_tells_nothing_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the way to log."""
    with pytest.raises(ScenarioError, match=message):
        steps(tmp_path, text)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    """One line."""
    with pytest.raises(ScenarioError, match="No such file"):
        read_log(tmp_path / "nowhere.log", device="gpu", model="m", tp=1)
