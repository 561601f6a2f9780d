"""The tables of docs/calibration.md, made again from published measurements: ``calibrate --published FOLDER``.

FOLDER holds the tables as ``tests/data/calibration`` of the source repository does; its README names where each comes
from. A section is a few Markdown rows, each a comparison of what the simulator's own code gives with what was measured
or published. Errors are in percent; two figures with a stroke between are a mean and a 90th percentile.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.calibration.compose import CHUNKS, LONGEST, compose, random_batches, steps_of
from sim.calibration.fit import CHUNK, CTX, LINEAR, PAIR, SEQ, Fit, by_phase, design, fit
from sim.calibration.mixed import Place, mixed_steps
from sim.calibration.operators import Operators
from sim.calibration.published import DEVICES, LOOPS, Compared, closed_loop, saturated
from sim.calibration.steps import PHASES, Floats, Steps
from sim.calibration.tables import Column, choose, read_table
from sim.cost import _memory, _models, _profiles
from sim.cost._devices import DEVICES as CARDS
from sim.errors import ScenarioError

BANDWIDTH: Final = {"A100-SXM-80GB": 2.039e12, "H100-SXM-80GB": 3.35e12}
COMPOSED_KNOTS: Final = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
DECODE_KNOTS: Final = (0, 16)
"""Where g bends in a static batch's decode steps: sizes of 1 to 64 sequences tell no more."""
SLOWDOWNS: Final = (1.0, 1.15, 1.25, 1.3, 1.45)
MEMORY_SHARE: Final = 0.9
OTHER_GIB: Final = 1.4
CHECKPOINTS: Final = {
    "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic": "llama-4-scout-fp8",
    "mistralai/Mistral-Nemo-Instruct-2407": "mistral-nemo-12b",
}
"""Checkpoints whose description has another name."""


def lines(folder: Path, section: str) -> Iterator[str]:
    """One section: its title, and its table as it is computed."""
    title, head, rows = SECTIONS[section]
    yield f"{section}: {title}"
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows(folder):
        yield f"| {' | '.join(row)} |"


def joint_steps(folder: Path) -> Steps:
    """Batches of the RTX PRO 6000 that its engine can form; attention of prefill and decode measured in one launch."""
    stem = "rtxpro6000_Llama-3.1-8B_tp1"
    kv = _memory.shape_capacity(
        _shape("llama-3.1-8b"), "rtxpro6000-96gb", 1, memory_share=MEMORY_SHARE, other_gib=OTHER_GIB
    )
    place = Place("rtxpro6000-96gb", "llama-3.1-8b", layers=32, budget_tokens=2048, kv_tokens=kv)
    tables = (published_file(folder, f"{stem}_mixed_attention"), published_file(folder, f"{stem}_layers"))
    return mixed_steps(*tables, place)


def static_batch(folder: Path, device: str, model: str, tp: int, phase: str) -> Steps:
    """Whole steps of a static batch: its prefill, or its decode step at the mean context."""
    table = choose(read_table(published_file(folder, "static_batch_steps")), device=device, model=model, tp=float(tp))
    batch, prompt, output = table["batch"], table["prompt_tokens"], table["output_tokens"]
    none = np.zeros(len(batch))
    if phase == "decode":
        return Steps(device, model, tp, none, none, batch, batch * (prompt + output / 2), none, table["decode_step_ms"])
    pairs = batch * prompt * (prompt + 1) / 2
    return Steps(device, model, tp, batch * prompt, pairs, none, none, batch, table["prefill_ms"])


def static_fit(folder: Path, device: str, model: str, tp: int, phase: str) -> Fit:
    """Form D fitted to them; what a batch of equal sequences cannot tell is 0."""
    absent = (PAIR, CHUNK) if phase == "decode" else (CTX, CHUNK)
    fixed = dict.fromkeys((*absent, SEQ), 0.0)
    steps = static_batch(folder, device, model, tp, phase)
    return fit(steps, fixed=fixed, knots=DECODE_KNOTS if phase == "decode" else None, resamples=0)


@cache
def composed_fit(folder: Path, device: str, model: str, tp: int) -> tuple[dict[str, float], float]:
    """Errors by phase of a fit to 900 batches on 600 others; how far its steps are from the shipped coefficients'."""
    shipped = _shipped(device, model, tp)
    parts = [composed_steps(folder, device, model, tp, count=count, seed=seed) for count, seed in ((900, 1), (600, 2))]
    found = fit(parts[0], knots=COMPOSED_KNOTS, resamples=0)
    _, table = design(parts[1], found.knots, {})
    fitted, said = table @ found.values, table @ _coefficients(shipped)
    errors = by_phase(fitted / parts[1].ms - 1, parts[1].phase)
    return {name: errors[name][0] for name in PHASES}, float(np.abs(fitted / said - 1).mean() * 100)


@cache
def beyond_fit(folder: Path, device: str, model: str, tp: int) -> dict[str, tuple[float, float]] | None:
    """Errors by phase of shipped coefficients on 600 batches in that part of their region that the fit has not seen.

    Batches of more chunks than any that was fitted, with contexts and prefixes up to the longest of the region. None:
    the region is that of the fit.
    """
    shipped = _shipped(device, model, tp)
    assert shipped.region is not None
    chunks, longest = int(shipped.region["chunks"][1]), shipped.region["mean_context"][1]
    if chunks == CHUNKS[1] and longest == LONGEST:
        return None
    steps = composed_steps(
        folder, device, model, tp, count=600, seed=3, chunks=(min(CHUNKS[1] + 1, chunks), chunks), longest=longest
    )
    return by_phase(errors_of(shipped, steps), steps.phase)


def errors_of(profile: _profiles.Profile, steps: Steps) -> Floats:
    """Relative errors of a profile's own coefficients, with what it states of host time and slowdown left out."""
    _, table = design(steps, tuple(start for start, _ in profile.token_ms), {})
    return np.asarray(table @ _coefficients(profile) / steps.ms - 1)


def _shipped(device: str, model: str, tp: int) -> _profiles.Profile:
    found = _profiles.find(device=DEVICES[device], model=model, tp=tp)
    assert found is not None
    return found


def _coefficients(profile: _profiles.Profile) -> Floats:
    """As the columns of a design have them."""
    linear = (profile.times[name] for name in LINEAR)
    return np.array([profile.times["t0_ms"], *(ms for _, ms in profile.token_ms), *linear])


@cache
def _operators(folder: Path, device: str) -> Operators:
    return Operators(folder, device)


def composed_steps(
    folder: Path,
    device: str,
    model: str,
    tp: int,
    *,
    count: int,
    seed: int,
    chunks: tuple[int, int] = CHUNKS,
    longest: float = LONGEST,
) -> Steps:
    """Random batches that a shipped profile's engine can hold, with times composed of the operators of ``device``."""
    shipped = _shipped(device, model, tp)
    kv = _memory.profile_capacity(shipped, DEVICES[device], memory_share=MEMORY_SHARE, other_gib=OTHER_GIB)
    batches = random_batches(count, kv, seed, chunks=chunks, longest=longest)
    ms = compose(batches, _operators(folder, device), _shape(model), tp, BANDWIDTH[device])
    return steps_of(batches, ms, DEVICES[device], model, tp)


def _joint(folder: Path) -> Iterator[Sequence[str]]:
    found = fit(joint_steps(folder), resamples=0)
    yield "RTX PRO 6000, Llama-3.1-8B", f"{len(found.steps):,}", *map(_stroke, found.error_percent.values())


def _composed(folder: Path) -> Iterator[Sequence[str]]:
    published = [row for row in _rows(folder, "fit_errors_composed") if row["form"] == "knots"]
    for device in BANDWIDTH:
        for kind in ("dense", "experts"):
            chosen = [
                row for row in published if row["device"] == device and has_experts(row["model"]) == (kind != "dense")
            ]
            own = [composed_fit(folder, device, row["model"], int(row["tp"])) for row in chosen]
            cells = []
            for phase in PHASES:
                known = np.mean([row[f"{phase}_mape"] for row in chosen])
                cells.append(f"{np.mean([errors[phase] for errors, _ in own]):.1f} ({known:.1f})")
            apart = max(apart for _, apart in own)
            yield f"{device[:4]}, {kind} ({len(chosen)})", *cells, f"{apart:.1f}"


def _beyond(folder: Path) -> Iterator[Sequence[str]]:
    for row in _rows(folder, "fit_errors_composed"):
        device, model, tp = row["device"], row["model"], int(row["tp"])
        if row["form"] != "knots" or (errors := beyond_fit(folder, device, model, tp)) is None:
            continue
        region = _shipped(device, model, tp).region
        assert region is not None
        most = f"{region['chunks'][1]:g} chunks, contexts of {region['mean_context'][1]:,.0f}"
        yield f"{device[:4]}, {model} tp{tp}", most, *(_stroke(errors[phase]) for phase in PHASES)


def _static(folder: Path) -> Iterator[Sequence[str]]:
    rows = [row for row in _rows(folder, "fit_errors_static_batch") if row["form"] == "knots" and row["tp"] == 8]
    places = dict.fromkeys((row["device"], row["model"]) for row in rows)
    for device, model in places:
        cells = []
        for phase in ("decode", "prefill"):
            [known] = [row for row in rows if (row["device"], row["model"], row["phase"]) == (device, model, phase)]
            own = static_fit(folder, device, model, 8, phase).error_percent[phase]
            cells.append(f"{_stroke(own)} ({_stroke((known['loo_mape'], known['loo_p90']))})")
        yield device[:4], model, *cells


def _saturated(folder: Path) -> Iterator[Sequence[str]]:
    table = published_file(folder, "saturated_serving")
    for runs in zip(*(saturated(table, slowdown) for slowdown in SLOWDOWNS), strict=True):
        cells = (f"{_percent(run.error('makespan'))} ({_percent(run.error('tpot'))})" for run in runs)
        yield runs[0].name, f"{runs[0].measured['makespan']:.1f}", *cells


def _loops(folder: Path) -> Iterator[Sequence[str]]:
    for model, backend in LOOPS:
        engines: dict[str, list[Compared]] = {}
        for run in closed_loop(published_file(folder, "closed_loop_h100"), model, backend):
            engines.setdefault(run.engine, []).append(run)
        for engine, runs in sorted(engines.items()):
            cells = []
            for quantity in ("tpot", "ttft"):
                errors = np.array([run.error(quantity) for run in runs])
                cells.append(f"{100 * np.abs(errors).mean():.1f} ({100 * np.median(errors):+.1f})")
            yield engine, str(len(runs)), *cells


def _memory_rows(folder: Path) -> Iterator[Sequence[str]]:
    for row in _rows(folder, "kv_capacity_measured"):
        short = row["model"].rsplit("/", 1)[-1].lower()
        model = _shape(CHECKPOINTS.get(row["model"]) or _named(short))
        device, tp = ("h100-80gb" if row["device"].startswith("H100") else "rtx4090-24gb"), int(row["tp"])
        tokens, reported = (
            _memory.shape_capacity(model, device, tp, memory_share=MEMORY_SHARE, other_gib=OTHER_GIB),
            int(row["kv_tokens"]),
        )
        left = MEMORY_SHARE * CARDS[device].memory_gib - model.weight_gib_per_gpu(tp)
        left -= reported * model.kv_bytes_per_token_per_gpu(tp) / 2**30
        place = f"{device.split('-', maxsplit=1)[0]}, {tp}"
        batch = f"{model.name}, budget {row['max_num_batched_tokens']:,.0f}"
        yield batch, place, f"{reported:,}", f"{tokens:,}", f"{100 * (tokens / reported - 1):+.1f}", f"{left:.2f}"


Section = tuple[str, tuple[str, ...], Callable[[Path], Iterator[Sequence[str]]]]
SECTIONS: Final[dict[str, Section]] = {
    "joint": (
        "steps measured jointly, error of steps left out of the fit",
        ("engine", "steps", *PHASES),
        _joint,
    ),
    "composed": (
        "steps composed from operators, mean error over models (published), and the model farthest from what ships",
        ("models", *PHASES, "farthest from the shipped coefficients"),
        _composed,
    ),
    "beyond": (
        "shipped coefficients on batches beyond those of their fit, as far as their region reaches",
        ("profile", "region up to", *PHASES),
        _beyond,
    ),
    "static": (
        "whole steps of static batches at tp 8, error of configurations left out (published)",
        ("device", "model", "decode", "prefill"),
        _static,
    ),
    "saturated": (
        "all requests at once, error of the makespan (of the mean time per output token) by slowdown",
        ("run", "measured, s", *(f"{slowdown:g}" for slowdown in SLOWDOWNS)),
        _saturated,
    ),
    "loops": (
        "a fixed number of requests under way, mean absolute error (median error)",
        ("engine", "points", "time per output token", "time to first token"),
        _loops,
    ),
    "memory": (
        "KV tokens that vLLM reported, and by formula",
        ("model", "device, tp", "reported", "by formula", "error", "other memory that the report leaves, GiB"),
        _memory_rows,
    ),
}
"""By name: title, head of the table, its rows."""


def has_experts(model: str) -> bool:
    """Whether a described model is a mixture of experts."""
    return bool(_shape(model).experts)


def _shape(model: str) -> _models.Shape:
    return _models.load(_models.FOLDER / f"{model}.yaml")


def _named(checkpoint: str) -> str:
    """The description of a checkpoint: the one with the longest name that begins as it does, sizes spelt out or not."""
    return max((name for name in _models.names() if checkpoint.startswith(name)), key=len)


def published_file(folder: Path, stem: str) -> Path:
    """A published table of the folder."""
    found = sorted(folder.glob(f"{stem}.csv*"))
    if not found:
        raise ScenarioError(f"{folder} holds no {stem}.csv: it is not a folder of the published measurements")
    return found[0]


def _rows(folder: Path, stem: str) -> list[dict[str, Any]]:
    table: dict[str, Column] = read_table(published_file(folder, stem))
    return [dict(zip(table, row, strict=True)) for row in zip(*(c.tolist() for c in table.values()), strict=True)]


def _stroke(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.1f} / {pair[1]:.1f}"


def _percent(share: float) -> str:
    """Whole percent with a sign; zero has none."""
    whole = round(100 * share)
    return f"{whole:+d}" if whole else "0"
