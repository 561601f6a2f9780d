"""A profile in milliseconds becomes coefficients in ticks, with the knobs that no operator table has in it.

``slowdown`` multiplies the slopes of g from 256 tokens on, and the attention of prefill; ``host0`` and ``host1`` are
the host's time of a step, and of each sequence and chunk in it.
"""

from dataclasses import dataclass
from typing import Final

from sim.cost._coefficients import Coefficients
from sim.cost._devices import DEVICES, Device
from sim.cost._profiles import Profile
from sim.errors import ScenarioError

_SUSTAINED_FROM: Final = 256
"""Total tokens above which a step is long enough for clock and power limits to show."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a profile does not hold; None: by the profile, else by the device."""

    slowdown: float | None
    host0_ms: float | None
    host1_ms: float | None

    def resolve(self, profile: Profile, device: str, overlap: bool) -> tuple[float, float, float]:
        """Slowdown, host0 and host1: what the scenario says, else the profile, else the default of its device.

        The times of a profile were taken on the device that it names, so that one's defaults go with them.
        """
        known = self._device(profile.device or device, profile)
        host0, host1 = known.host_overlap_ms if overlap else known.host_ms
        return (
            _first(self.slowdown, profile.slowdown, known.slowdown),
            _first(self.host0_ms, profile.host0_ms, host0),
            _first(self.host1_ms, profile.host1_ms, host1),
        )

    def _device(self, name: str, profile: Profile) -> Device:
        if name in DEVICES:
            return DEVICES[name]
        for knob in ("slowdown", "host0_ms", "host1_ms"):
            if getattr(self, knob) is None and getattr(profile, knob) is None:
                raise ScenarioError(f"device {name!r} is not one of {', '.join(DEVICES)}: give cost.{knob}")
        return Device(memory_gib=profile.device_gib or 0.0)


def coefficients(profile: Profile, knobs: tuple[float, float, float], tick_s: float) -> Coefficients:
    """Coefficients in ticks of ``tick_s`` seconds."""
    slowdown, host0, host1 = knobs
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


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _slowed(token_ms: tuple[tuple[int, float], ...], slowdown: float) -> list[tuple[int, float]]:
    """Multiply the slopes from 256 tokens on; a piece that spans 256 is cut there."""
    knots = dict(token_ms)
    if _SUSTAINED_FROM not in knots:
        knots[_SUSTAINED_FROM] = next(ms for at, ms in reversed(token_ms) if at < _SUSTAINED_FROM)
    return [(at, ms * slowdown if at >= _SUSTAINED_FROM else ms) for at, ms in sorted(knots.items())]
