"""Form D: the cost of a step that measured steps of A100 and H100 engines were fitted to.

    t = t0 + g(N) + prefill_pair*A + decode_seq*n + decode_ctx*C + prefill_chunk*K  +  host0 + host1*(n + K)

with the letters of ``_coefficients.py`` and g piecewise linear. Source: least squares on steps composed from measured
operators of vLLM 0.14.0 (ai-dynamo/aiconfigurator), held against measured serving runs; each profile names its source
and its error, 1 to 6 % on batches that the fit has not seen. ``slowdown`` and host time are not in the operator data;
they have defaults by device. A comparison of policies should be repeated at slowdown 1.0 and 1.45, host0_ms 0.5 and
2.5.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sim.cost import _profiles
from sim.cost._coefficients import Coefficients
from sim.cost._devices import DEVICES, Device
from sim.cost._profiles import Profile
from sim.errors import ScenarioError

_SUSTAINED_FROM: Final = 256
"""Total tokens above which a step is long enough for clock and power limits to show."""


@dataclass(frozen=True, slots=True)
class FormD:
    """A step's cost by its tokens, attention pairs, sequences and contexts, from a fitted profile."""

    profile: str | None = None
    """A shipped profile or a YAML file; absent: the shipped one of the engine's device, model and tp."""
    coefficients: dict[str, Any] | None = None
    """A profile's coefficients written inline, instead of ``profile``."""
    slowdown: float | None = None
    """Steady rate over burst rate: multiplies the token cost from 256 tokens on, and the attention of prefill.
    Absent: A100 1.25, H100 1.0."""
    host0_ms: float | None = None
    """Host time of every step. Absent: 1.5 ms; 1.0 ms on H100 with asynchronous scheduling."""
    host1_ms: float | None = None
    """Host time of each sequence of a step. Absent: 0; 0.04 ms on H100 with synchronous scheduling."""

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

    def compile(self, tick_s: float, *, device: str, model: str, tp: int, overlap: bool, base: Path) -> Coefficients:
        """Coefficients in ticks of ``tick_s`` seconds."""
        profile = self.load(device=device, model=model, tp=tp, base=base)
        slowdown, host0, host1 = self._knobs(profile, device, overlap)
        ticks = 1e-3 / tick_s
        return Coefficients(
            t0=profile.times["t0_ms"] * ticks,
            slopes=tuple((at, ms * ticks) for at, ms in _slowed(profile.token_ms, slowdown)),
            pair=profile.times["prefill_pair_ms"] * slowdown * ticks,
            seq=(profile.times["decode_seq_ms"] + host1) * ticks,
            ctx=profile.times["decode_ctx_ms"] * ticks,
            chunk=(profile.times["prefill_chunk_ms"] + host1) * ticks,
            host0=host0 * ticks,
            host1=host1 * ticks,
        )

    def describe(self, *, device: str, model: str, tp: int, overlap: bool, base: Path) -> str:
        """Profile, its status, and the knobs as they resolve: what a reader must know of the cost in use."""
        profile = self.load(device=device, model=model, tp=tp, base=base)
        slowdown, host0, host1 = self._knobs(profile, device, overlap)
        return f"{profile.name} ({profile.status}), slowdown {slowdown:g}, host0_ms {host0:g}, host1_ms {host1:g}"

    def _knobs(self, profile: Profile, device: str, overlap: bool) -> tuple[float, float, float]:
        """Slowdown, host0 and host1: what the scenario says, else the profile, else the device's default."""
        known = _device(device, self, profile)
        host0, host1 = known.host_overlap_ms if overlap else known.host_ms
        return (
            _first(self.slowdown, profile.slowdown, known.slowdown),
            _first(self.host0_ms, profile.host0_ms, host0),
            _first(self.host1_ms, profile.host1_ms, host1),
        )


def _device(name: str, spec: FormD, profile: Profile) -> Device:
    if name in DEVICES:
        return DEVICES[name]
    for knob in ("slowdown", "host0_ms", "host1_ms"):
        if getattr(spec, knob) is None and getattr(profile, knob) is None:
            raise ScenarioError(f"device {name!r} is not one of {', '.join(DEVICES)}: give cost.{knob}")
    return Device(memory_gib=profile.device_gib or 0.0)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _slowed(token_ms: tuple[tuple[int, float], ...], slowdown: float) -> list[tuple[int, float]]:
    """Multiply the slopes from 256 tokens on; a piece that spans 256 is cut there."""
    knots = dict(token_ms)
    if _SUSTAINED_FROM not in knots:
        knots[_SUSTAINED_FROM] = next(ms for at, ms in reversed(token_ms) if at < _SUSTAINED_FROM)
    return [(at, ms * slowdown if at >= _SUSTAINED_FROM else ms) for at, ms in sorted(knots.items())]
