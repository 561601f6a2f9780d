"""A step's cost where nobody measured the model: the analytic roofline of its shape, in form D (``_analytic.py``).

Peaks and fitted efficiencies are known for A100 and H100. Another GPU takes its peaks from the scenario and the
efficiencies of the GPU that ``like`` names: a guess, whose error nobody knows.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sim.cost import _analytic, _models
from sim.cost._analytic import GPUS, Gpu
from sim.cost._coefficients import Coefficients
from sim.cost._profiled import compiled, described
from sim.cost._profiles import Profile
from sim.errors import ScenarioError
from sim.rng import Streams

_LIKE = "h100-80gb"
_PEAKS = ("peak_tflops", "bandwidth_tb_per_s", "link_gb_per_s")


@dataclass(frozen=True, slots=True)
class Roofline:
    """A step's cost estimated from the model's shape and the GPU's peaks; for models without a measurement."""

    shape: str | None = None
    """A shipped model description or a YAML file; absent: the shipped one of the engine's model."""
    slowdown: float | None = field(default=None, metadata={"max": 1000})
    """Steady rate over burst rate: multiplies the token cost from 256 tokens on, and the attention of prefill.
    Absent: A100 1.25, H100 1.0."""
    host0_ms: float | None = None
    """Host time of every step. Absent: by device, as of form_d."""
    host1_ms: float | None = None
    """Host time of each sequence of a step. Absent: by device, as of form_d."""
    prefill_factor: float = field(default=1.0, metadata={"min": 0.01, "max": 100})
    """Multiplies what long steps and prefill are made of (token cost from 256 tokens on, pairs, chunks), for questions
    of the kind: what if the measurement is off?"""
    decode_factor: float = field(default=1.0, metadata={"min": 0.01, "max": 100})
    """The same for everything else of the profile: base of a step, short steps, decoding sequences, their contexts."""
    uncertainty: Literal["none", "stated"] = "none"
    """``stated``: each replication draws its coefficients within the error that the roofline has on like models."""
    peak_tflops: float | None = None
    """bf16 peak of a GPU that is not known here, with the next two."""
    bandwidth_tb_per_s: float | None = None
    """Its memory bandwidth."""
    link_gb_per_s: float | None = None
    """Its link to other GPUs, one way."""
    like: str | None = None
    """The known GPU whose efficiencies are taken for such a GPU. Absent: h100-80gb."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, and half a GPU."""
        for name in ("slowdown", "host0_ms", "host1_ms", *_PEAKS):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be zero or more, not {value}")
        for name in ("slowdown", *_PEAKS):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} cannot be 0")
        given = [name for name in _PEAKS if getattr(self, name) is not None]
        if 0 < len(given) < len(_PEAKS):
            raise ValueError(f"{given[0]}: a GPU needs all of {', '.join(_PEAKS)}")
        if self.like is not None and not given:
            raise ValueError(
                f"like changes nothing without a GPU of your own: give {', '.join(_PEAKS)}, or leave it out"
            )
        if self.like is not None and self.like not in GPUS:
            raise ValueError(f"like must be one of {', '.join(GPUS)}, not {self.like!r}")

    def load(self, *, device: str, model: str, tp: int, base: Path) -> Profile:
        """The estimated profile: weights and KV bytes for the capacity, its error for reports."""
        shape = _models.load(_models.locate(self.shape or model, base))
        return _analytic.profile(shape, self._gpu(device), tp, device=device)

    def files(self, *, device: str, model: str, tp: int, base: Path) -> list[Path]:
        """The description that is read."""
        return [_models.locate(self.shape or model, base)]

    def compile(
        self,
        tick_s: float,
        *,
        device: str,
        model: str,
        tp: int,
        overlap: bool,
        base: Path,
        streams: Streams | None = None,
    ) -> Coefficients:
        """Coefficients in ticks of ``tick_s`` seconds; ``streams`` are those of a replication that draws its own."""
        profile = self.load(device=device, model=model, tp=tp, base=base)
        return compiled(self, profile, tick_s, device=device, overlap=overlap, streams=streams)

    def describe(self, *, device: str, model: str, tp: int, overlap: bool, base: Path) -> str:
        """Profile, its status, and the knobs as they resolve: what a reader must know of the cost in use."""
        profile = self.load(device=device, model=model, tp=tp, base=base)
        return described(self, profile, device=device, overlap=overlap)

    def _gpu(self, device: str) -> Gpu:
        if self.peak_tflops is not None and self.bandwidth_tb_per_s is not None and self.link_gb_per_s is not None:
            peaks = (self.peak_tflops * 1e12, self.bandwidth_tb_per_s * 1e12, self.link_gb_per_s * 1e9)
            return replace(GPUS[self.like or _LIKE], peak=peaks[0], bandwidth=peaks[1], link=peaks[2])
        if device not in GPUS:
            raise ScenarioError(
                f"the peaks of device {device!r} are not known ({', '.join(GPUS)} are): give {', '.join(_PEAKS)}"
            )
        return GPUS[device]
