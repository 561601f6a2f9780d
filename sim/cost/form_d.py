"""Form D: the cost of a step that measured steps of A100 and H100 engines were fitted to.

    t = t0 + g(N) + prefill_pair*A + decode_seq*n + decode_ctx*C + prefill_chunk*K  +  host0 + host1*(n + K)

with the letters of ``_coefficients.py`` and g piecewise linear. Source: least squares on steps composed from measured
operators of vLLM 0.14.0 (ai-dynamo/aiconfigurator), held against measured serving runs; each profile names its source
and its error, 1 to 6 % on batches that the fit has not seen. ``slowdown`` and host time are not in the operator data;
they have defaults by device. A comparison of policies should be repeated at slowdown 1.0 and 1.45, host0_ms 0.5 and
2.5.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.cost import _profiles
from sim.cost._coefficients import Coefficients
from sim.cost._profiled import compiled, described
from sim.cost._profiles import Profile
from sim.cost._uncertain import Uncertainty
from sim.rng import Streams


@dataclass(frozen=True, slots=True)
class FormD:
    """A step's cost by its tokens, attention pairs, sequences and contexts, from a fitted profile."""

    profile: str | None = None
    """A shipped profile or a YAML file; absent: the shipped one of the engine's device, model and tp."""
    coefficients: dict[str, Any] | None = None
    """A profile's coefficients written inline, instead of ``profile``."""
    slowdown: float | None = field(default=None, metadata={"max": 1000})
    """Steady rate over burst rate: multiplies the token cost from 256 tokens on, and the attention of prefill.
    Absent: A100 1.25, H100 1.0."""
    host0_ms: float | None = None
    """Host time of every step. Absent: 1.5 ms; 1.0 ms on H100 with asynchronous scheduling."""
    host1_ms: float | None = None
    """Host time of each sequence of a step. Absent: 0; 0.04 ms on H100 with synchronous scheduling."""
    prefill_factor: float = field(default=1.0, metadata={"min": 0.01, "max": 100})
    """Multiplies what long steps and prefill are made of (token cost from 256 tokens on, pairs, chunks), for questions
    of the kind: what if the measurement is off?"""
    decode_factor: float = field(default=1.0, metadata={"min": 0.01, "max": 100})
    """The same for everything else of the profile: base of a step, short steps, decoding sequences, their contexts."""
    uncertainty: Uncertainty = "none"
    """What each replication draws its coefficients from: the profile's ``stated`` error or its ``bootstrap``."""

    def __post_init__(self) -> None:
        """Refuse two sources of one number, and numbers that cannot be."""
        if self.profile is not None and self.coefficients is not None:
            raise ValueError("coefficients written inline stand instead of a profile: give one of them")
        for name in ("slowdown", "host0_ms", "host1_ms"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be zero or more, not {value}")
        if self.slowdown == 0:
            raise ValueError("slowdown is a factor, 1 for none; it cannot be 0")

    def load(self, *, device: str, model: str, tp: int, base: Path) -> Profile:
        """The profile in use: its status and error for reports, its weights and KV bytes for the capacity."""
        if self.coefficients is not None:
            return _profiles.inline(self.coefficients)
        return _profiles.load(_profiles.locate(self.profile, device=device, model=model, tp=tp, base=base))

    def files(self, *, device: str, model: str, tp: int, base: Path) -> list[Path]:
        """The profile file that is read, if one is."""
        if self.coefficients is not None:
            return []
        return [_profiles.locate(self.profile, device=device, model=model, tp=tp, base=base)]

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
