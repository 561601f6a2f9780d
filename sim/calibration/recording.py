"""Makes the record of ``sim.calibration.record`` from published measurements, FOLDER as in ``evidence``.

steps   shipped profiles of A100 and H100 against 600 composed steps each, that of the RTX PRO 6000 against steps that
        were measured jointly and left out of a fit. What a profile states of itself (``error_percent``) is of 600
        other batches: it is part of the model, as ``uncertainty: stated`` draws from it, and is not written anew here
runs    closed loops by requests under way, all requests at once, and the replayed engine request by request
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from sim.calibration.check import check
from sim.calibration.evidence import BANDWIDTH, composed_steps, errors_of, joint_steps, published_file
from sim.calibration.fit import fit
from sim.calibration.published import DEVICES, LOOPS, Compared, closed_loop, saturated
from sim.calibration.record import CalibrationRecord, Error, RunErrors, StepErrors
from sim.calibration.steps import PHASES, Floats, Ints
from sim.cost import _profiles
from sim.scenario import RESULTS_VERSION
from sim.scenario._find import SHIPPED

BANDS: Final = ((1, 8), (9, 32), (33, 128), (129, 100_000))
"""Requests under way."""
STEPS: Final = 600
SEED: Final = 2
REPLAYED: Final = SHIPPED / "validation" / "rtxpro6000_llama8b.yaml"
JOINT: Final = "rtxpro6000-96gb_llama-3.1-8b_tp1"


def record(folder: Path) -> CalibrationRecord:
    """All of it; a minute or so."""
    return CalibrationRecord(RESULTS_VERSION, tuple(_steps(folder)), tuple(_runs(folder)))


def _steps(folder: Path) -> Iterator[StepErrors]:
    joint = fit(joint_steps(folder), resamples=0)
    yield StepErrors(JOINT, "steps measured jointly", _by_phase(joint.errors, joint.steps.phase))
    devices = {DEVICES[name]: name for name in BANDWIDTH}
    for name in _profiles.names():
        profile = _profiles.load(_profiles.FOLDER / f"{name}.yaml")
        if profile.device in devices and profile.status == "measured":
            steps = composed_steps(folder, devices[profile.device], profile.model, profile.tp, count=STEPS, seed=SEED)
            errors = _by_phase(errors_of(profile, steps), steps.phase)
            yield StepErrors(name, "steps composed of operators", errors)


def _by_phase(errors: Floats, phase: Ints) -> dict[str, Error]:
    return {name: Error.of(errors[phase == index]) for index, name in enumerate(PHASES) if (phase == index).any()}


def _runs(folder: Path) -> Iterator[RunErrors]:
    yield from _replayed()
    for model, backend in LOOPS:
        preset = LOOPS[model, backend][1]
        yield from _loops(closed_loop(published_file(folder, "closed_loop_h100"), model, backend), preset)
    found: dict[tuple[str, str], list[Compared]] = {}
    for run in saturated(published_file(folder, "saturated_serving")):
        device = next(ours for theirs, ours in DEVICES.items() if run.name.startswith(theirs[:4]))
        found.setdefault((f"{run.engine}, {run.name.split()[1]} {run.name.split()[2].rstrip(',')}", device), []).append(
            run
        )
    for (engine, device), runs in found.items():
        yield RunErrors(engine, "vllm", device, "all at once", _compared(runs, ("makespan", "tpot")))


def _replayed() -> Iterator[RunErrors]:
    [scores] = check(str(REPLAYED)).scores.values()
    errors = {each.quantity: Error.of(each.simulated / each.measured - 1) for each in scores}
    yield RunErrors("vLLM 0.19, llama-3.1-8b tp1", "vllm", "rtxpro6000-96gb", "10 requests a second", errors)


def _loops(runs: Iterable[Compared], preset: str) -> Iterator[RunErrors]:
    every = list(runs)
    for engine in sorted({run.engine for run in every}):
        for least, most in BANDS:
            own = [run for run in every if run.engine == engine and least <= int(run.name.split()[-3]) <= most]
            if own:
                load = f"{least} to {most} under way" if most < BANDS[-1][1] else f"{least} and more under way"
                yield RunErrors(engine, preset, "h100-80gb", load, _compared(own, ("ttft", "tpot")))


def _compared(runs: list[Compared], quantities: tuple[str, ...]) -> dict[str, Error]:
    return {name: Error.of([run.error(name) for run in runs]) for name in quantities}
