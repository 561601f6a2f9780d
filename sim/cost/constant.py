"""Steps of constant cost: the model that queueing theory and hand-computed tests can follow.

A step takes ``step_ms``, and more by token of prefill and by decoding sequence where those are set. Source: none, this
is no GPU. Left out: attention, the shape of the token cost, host time.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from sim.cost import _profiles
from sim.cost._coefficients import Coefficients


@dataclass(frozen=True, slots=True)
class Constant:
    """A step of fixed length, whatever the device, the model and the context."""

    step_ms: float
    """Milliseconds of every step that computes anything."""
    prefill_ms_per_token: float = 0.0
    """Milliseconds more for each token of prefill."""
    per_sequence_ms: float = 0.0
    """Milliseconds more for each decoding sequence."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a cost."""
        for name in ("step_ms", "prefill_ms_per_token", "per_sequence_ms"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be zero or more, not {value}")
        if self.step_ms == 0:
            raise ValueError("step_ms must be more than 0: a step without length lets time stand still")

    def compile(self, tick_s: float, *, device: str, model: str, tp: int, overlap: bool, base: Path) -> Coefficients:
        """The same for every device and model."""
        ticks = 1e-3 / tick_s
        token = self.prefill_ms_per_token * ticks
        # The base counts all tokens of a step; a decode is one of them and must not pay for prefill.
        return Coefficients(t0=self.step_ms * ticks, slopes=((0, token),), seq=self.per_sequence_ms * ticks - token)

    def load(self, *, device: str, model: str, tp: int, base: Path) -> _profiles.Profile:
        """Weights and KV bytes of the model where a shipped profile knows them; the times are this model's own."""
        shipped = _profiles.find(device=device, model=model, tp=tp)
        figures = shipped if shipped is not None else _profiles.Profile("", {}, ())
        own = replace(figures, name="constant", status="constant", source="a constant step, no measurement")
        return replace(own, error_percent=None, region=None, resamples=())

    def describe(self, *, device: str, model: str, tp: int, overlap: bool, base: Path) -> str:
        """What a reader must know of the cost in use."""
        return f"constant, {self.step_ms:g} ms a step"

    def files(self, *, device: str, model: str, tp: int, base: Path) -> list[Path]:
        """Reads no file."""
        return []
