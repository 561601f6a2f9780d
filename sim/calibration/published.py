"""Published serving runs that give means only, simulated: requests of one length, all at once or some under way.

    saturated     every request at time 0: makespan and mean time per output token (gpustack performance lab)
    closed loop   a number of requests always under way: mean TTFT and TPOT (ai-dynamo/aiconfigurator silicon samples)

Nothing is fitted to these runs. Host times are those that the engine's version asks for; ``slowdown`` is an argument,
because A100 runs ask for 1.0 to 1.45. Prompts share nothing. Left out: HTTP and tokenising, which limit the 128-token
runs at some 37 requests a second; cards that are not what their table says.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.calibration.tables import Column, read_table
from sim.log.record import FINISHED, Log
from sim.replication import replicate
from sim.scenario import Cell

DEVICES: Final = {"A100-SXM-80GB": "a100-80gb", "H100-SXM-80GB": "h100-80gb"}
LENGTHS: Final = {"random 2K input": (2000, 100), "random 4K input": (4000, 200), "random 32K input": (32000, 100)}
SCRIPTS: Final = {
    "vllm serve Qwen/Qwen3-14B": ("qwen3-14b", 1),
    "vllm serve Qwen/Qwen3-235B-A22B-Instruct-2507 -tp 8": ("qwen3-235b-a22b", 8),
}
"""Commands whose model and tensor-parallel size have a profile."""
LOOPS: Final = {
    ("Qwen/Qwen3-32B", "vllm"): ("qwen3-32b", "vllm", 1.5, 0.04),
    ("Qwen/Qwen3-32B", "sglang"): ("qwen3-32b", "sglang", 1.0, 0.0),
    ("meta-llama/Llama-3.1-8B-Instruct", "trtllm"): ("llama-3-8b", "vllm", 0.75, 0.0),
}
"""Model and backend: profile, preset, host time of a step and of a sequence. TensorRT-LLM is simulated as vLLM."""
PRODUCTS: Final = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
ROUNDS: Final = 6
"""Requests of a closed loop, over the number under way; the first and last round are left out of the means."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One published point: what was measured and what the simulator makes of it, seconds by quantity."""

    engine: str
    """What ran: version, model, tensor-parallel size."""
    name: str
    measured: dict[str, float]
    simulated: dict[str, float]

    def error(self, quantity: str) -> float:
        """Simulated over measured, less one."""
        return self.simulated[quantity] / self.measured[quantity] - 1


def saturated(table: Path, slowdown: float | None = None) -> list[Compared]:
    """The saturated runs of vLLM 0.11 with profiles of ours."""
    found = []
    for row in _rows(read_table(table)):
        known = SCRIPTS.get(row["script"])
        if known is None or row["case"] not in LENGTHS or row["device"] not in DEVICES:
            continue
        (model, tp), (prompt, output) = known, LENGTHS[row["case"]]
        engine = {"preset": "vllm", "device": DEVICES[row["device"]], "model": model, "tp": tp, "overlap": False}
        # These versions ran 256 sequences and 2,048 tokens a step on an A100, 1,024 and 8,192 on an H100: the presets.
        log = _run(
            engine, {"slowdown": slowdown, "host0_ms": 1.5, "host1_ms": 0.04}, int(row["requests"]), prompt, output
        )
        measured = {"makespan": row["duration_s"], "tpot": row["tpot_mean_ms"] / 1e3}
        name = f"{row['device'][:4]} {model} tp{tp}, {row['requests']:g} of {prompt} in, {output} out"
        found.append(Compared(f"vLLM {row['engine_version']}", name, measured, _means(log)))
    return found


def closed_loop(table: Path, model: str, backend: str) -> list[Compared]:
    """The closed-loop points of one model and backend whose weights are in 16 bits and whose size has a profile."""
    profile, preset, host0, host1 = LOOPS[model, backend]
    found = []
    for row in _rows(read_table(table)):
        if (row["model"], row["backend"], row["precision"]) != (model, backend, "unstated"):
            continue
        engine = {"preset": preset, "device": DEVICES[row["device"]], "model": profile, "tp": int(row["tp"])}
        engine["overlap"] = backend != "vllm"
        under_way = int(row["concurrency"])
        cost = {"slowdown": 1.0, "host0_ms": host0, "host1_ms": host1}
        log = _run(engine, cost, ROUNDS * under_way, int(row["isl"]), int(row["osl"]), cap=under_way)
        measured = {"ttft": row["ttft_ms"] / 1e3, "tpot": row["tpot_ms"] / 1e3}
        name = f"{row['isl']:g} in, {row['osl']:g} out, {under_way} under way"
        ran = f"{PRODUCTS[backend]} {row['backend_version']}, {profile} tp{row['tp']:g}"
        found.append(Compared(ran, name, measured, _means(log, skip=under_way)))
    return found


def _rows(table: dict[str, Column]) -> list[dict[str, Any]]:
    names = list(table)
    return [dict(zip(names, row, strict=True)) for row in zip(*(table[name].tolist() for name in names), strict=True)]


def _run(
    engine: dict[str, Any], cost: dict[str, Any], requests: int, prompt: int, output: int, cap: int | None = None
) -> Log:
    """A log of equal requests on one engine."""
    resolved = {
        "fleet": {"engines": 1, "engine": {**engine, "cost": {"kind": "form_d", **cost}}},
        "workload": {
            "kind": "rollout",
            "groups": requests,
            "samples_per_group": 1,
            "prompt": {"system_tokens": 0, "group_tokens": prompt},
            "output_tokens": output,
            "max_tokens": output,
        },
        "client": {"max_sessions_in_flight": cap},
        "router": {"policy": {"kind": "round_robin"}},
        "seed": 1,
    }
    return replicate(Cell.from_resolved(resolved, Path()), 0)


def _means(log: Log, skip: int = 0) -> dict[str, float]:
    """Makespan, and means over the finished requests but the first and last ``skip``."""
    rows = log.numpy("requests")
    done = np.flatnonzero(rows["status"] == FINISHED)
    kept = done[np.argsort(rows["submitted"][done], kind="stable")]
    kept = kept[skip : len(kept) - skip]
    first, ended, sent = (rows[name] for name in ("first_token", "ended", "submitted"))
    tokens = np.maximum(rows["output_tokens"] - 1, 1)
    return {
        "makespan": float(ended.max() - sent.min()) * log.tick_s,
        "ttft": float((first - sent)[kept].mean()) * log.tick_s,
        "tpot": float(((ended - first) / tokens)[kept].mean()) * log.tick_s,
    }
