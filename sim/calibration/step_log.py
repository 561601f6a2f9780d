"""Decode steps out of the log that an engine writes, as measured steps.

    vLLM    --enable-logging-iteration-details, with synchronous scheduling:
            Iteration(7): 0 context requests, 0 context tokens, 12 generation requests, 12 generation tokens,
            iteration elapsed time: 14.20 ms, GPU KV cache usage: 3.1%
            and once, at its start: GPU KV cache size: 449,120 tokens
    SGLang  --decode-log-interval 1, without speculative decoding:
            Decode batch, #running-req: 12, #token: 13900, ..., gen throughput (token/s): 845.1, #queue-req: 0

Contexts are the tokens in use: exact in SGLang, the nearest tenth of a percent of the pool in vLLM; a prefix that
requests share is counted once. SGLang's time is that since its last line, so a line after a prefill is left out. An
asynchronous vLLM logs the time of its host, some hundredths of a millisecond, and is refused.

Left out: prefill and mixed steps, because no log says how much of a prompt stood before a chunk. Measure those with
prompts of your own, one at a time, and add rows by hand.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from sim.calibration.steps import Steps
from sim.errors import ScenarioError

_VLLM: Final = re.compile(
    r"Iteration\(\d+\): 0 context requests, 0 context tokens, (\d+) generation requests, (\d+) generation tokens, "
    r"iteration elapsed time: ([\d.]+) ms(?:, GPU KV cache usage: ([\d.]+)%)?"
)
_POOL: Final = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_SGLANG: Final = re.compile(
    r"Decode batch.*?#running-req: (\d+), #(?:full )?token: (\d+),.*gen throughput \(token/s\): ([\d.]+)"
)
SHORTEST_MS: Final = 0.5
"""No decode step of a model is shorter: what is, is the time of a host that did not wait."""

Row = tuple[float, float, float]
"""Decodes, context, milliseconds."""


def read_log(path: Path, *, device: str, model: str, tp: int) -> Steps:
    """The decode steps of a vLLM or SGLang log; ScenarioError if it has none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None
    rows = [*_vllm(lines, path), *_sglang(lines)]
    if not rows:
        raise ScenarioError(f"{path}: has no decode steps of vLLM (Iteration(...)) or SGLang (Decode batch, ...)")
    decodes, context, ms = np.array(rows, dtype=np.float64).T
    if np.median(ms) < SHORTEST_MS:
        raise ScenarioError(
            f"{path}: half of the steps took less than {SHORTEST_MS} ms: the log of an engine that schedules "
            "asynchronously times its host; log with synchronous scheduling"
        )
    kept = ms >= SHORTEST_MS
    none = np.zeros(int(kept.sum()))
    return Steps(device, model, tp, none, none, decodes[kept], context[kept], none, ms[kept])


def _vllm(lines: list[str], path: Path) -> Iterator[Row]:
    pool = 0.0
    for line in lines:
        if size := _POOL.search(line):
            pool = float(size[1].replace(",", ""))
        found = _VLLM.search(line)
        # A request that yields several tokens at once is one of speculative decoding.
        if found is None or found[1] != found[2] or found[1] == "0":
            continue
        if found[4] is None or not pool:
            raise ScenarioError(f"{path}: steps without 'GPU KV cache usage' or the pool's size tell no contexts")
        yield float(found[1]), np.rint(float(found[4]) / 100 * pool), float(found[3])


def _sglang(lines: list[str]) -> Iterator[Row]:
    is_clean = False
    for line in lines:
        if "Prefill batch" in line:
            is_clean = False
            continue
        found = _SGLANG.search(line)
        if found is None or "accept len" in line:
            continue
        running, tokens, rate = (float(each) for each in found.groups())
        if is_clean and running and rate:
            yield running, tokens, 1e3 * running / rate
        is_clean = True
