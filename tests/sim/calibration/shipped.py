"""The measurements that ship with the tests, as steps."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from sim.calibration.evidence import joint_steps
from sim.calibration.steps import Steps

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "calibration"
SCENARIO = ROOT / "scenarios" / "validation" / "rtxpro6000_llama8b.yaml"
RUN = ROOT / "scenarios" / "traces" / "rtxpro6000" / "llama-3.1-8b_requests.csv"
RTX = "rtxpro6000-96gb_llama-3.1-8b_tp1"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def rtx_steps() -> Steps:
    """Mixed batches of the RTX PRO 6000 that its engine can form."""
    return joint_steps(DATA)


def some_steps(count: int = 200, seed: int = 3, noise: float = 0.0) -> Steps:
    """Steps of a made-up engine: 5 ms, 0.02 a token, 1e-6 a pair, 0.03 a decode, 1e-4 a context token, 0.4 a chunk."""
    chance = np.random.default_rng(seed)
    kind = np.arange(count) % 3
    chunks = np.where(kind == 1, 0, chance.integers(1, 4, count)).astype(float)
    new = np.where(chunks > 0, chance.integers(3, 2000, count), 0).astype(float)
    pairs = np.where(
        chunks > 0, np.rint(new * (new + 1) / 2 / np.maximum(chunks, 1) + new * chance.integers(0, 9000)), 0
    )
    pairs = np.maximum(pairs, new)
    decodes = np.where(kind == 0, 0, chance.integers(1, 200, count)).astype(float)
    context = decodes * chance.integers(50, 5000, count)
    ms = 5 + 0.02 * (new + decodes) + 1e-6 * pairs + 0.03 * decodes + 1e-4 * context + 0.4 * chunks
    ms = ms * np.exp(noise * chance.standard_normal(count))
    return Steps("gpu", "model", 1, new, pairs, decodes, context, chunks, ms)
