"""The measurements that ship with the tests, as steps."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from sim.calibration.mixed import Place, mixed_steps
from sim.calibration.steps import Steps
from sim.calibration.tables import choose, read_table
from sim.cost import _memory, _profiles

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
    profile = _profiles.load(_profiles.FOLDER / f"{RTX}.yaml")
    kv = _memory.profile_capacity(profile, profile.device, memory_share=0.9, other_gib=1.4)
    place = Place("rtxpro6000-96gb", "llama-3.1-8b", layers=32, budget_tokens=2048, kv_tokens=kv)
    stem = "rtxpro6000_Llama-3.1-8B_tp1"
    return mixed_steps(DATA / f"{stem}_mixed_attention.csv.gz", DATA / f"{stem}_layers.csv.gz", place)


def static_batch(device: str, model: str, tp: int, phase: str) -> Steps:
    """Whole steps of a static batch: its prefill, or its decode step at the mean context."""
    table = choose(read_table(DATA / "static_batch_steps.csv.gz"), device=device, model=model, tp=float(tp))
    batch, prompt, output = table["batch"], table["prompt_tokens"], table["output_tokens"]
    none = np.zeros(len(batch))
    if phase == "decode":
        return Steps(device, model, tp, none, none, batch, batch * (prompt + output / 2), none, table["decode_step_ms"])
    pairs = batch * prompt * (prompt + 1) / 2
    return Steps(device, model, tp, batch * prompt, pairs, none, none, batch, table["prefill_ms"])


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
