"""What cost models that rest on a profile share: how it is drawn, scaled, compiled and described."""

from typing import Protocol

from sim.cost._coefficients import Coefficients
from sim.cost._compile import Knobs, coefficients
from sim.cost._profiles import Profile
from sim.cost._uncertain import Uncertainty, draw, factored, scaled
from sim.rng import Streams


class OnProfile(Protocol):
    """The parameters that stand over a profile; their docstrings are those of the cost models."""

    @property
    def slowdown(self) -> float | None: ...
    @property
    def host0_ms(self) -> float | None: ...
    @property
    def host1_ms(self) -> float | None: ...
    @property
    def prefill_factor(self) -> float: ...
    @property
    def decode_factor(self) -> float: ...
    @property
    def uncertainty(self) -> Uncertainty: ...


def compiled(
    cost: OnProfile, profile: Profile, tick_s: float, *, device: str, overlap: bool, streams: Streams | None
) -> Coefficients:
    """Coefficients in ticks of ``tick_s`` seconds; ``streams`` are those of a replication that draws its own."""
    drawn = scaled(draw(profile, cost.uncertainty, streams), cost.prefill_factor, cost.decode_factor)
    return coefficients(drawn, _knobs(cost).resolve(profile, device, overlap), tick_s)


def described(cost: OnProfile, profile: Profile, *, device: str, overlap: bool) -> str:
    """Profile, its status, and the knobs as they resolve: what a reader must know of the cost in use."""
    draw(profile, cost.uncertainty, None)  # refuses what the profile has no draws for
    slowdown, host0, host1 = _knobs(cost).resolve(profile, device, overlap)
    drawn = factored(cost.prefill_factor, cost.decode_factor)
    drawn += "" if cost.uncertainty == "none" else f", uncertainty {cost.uncertainty}"
    return f"{profile.name} ({profile.status}), slowdown {slowdown:g}, host0_ms {host0:g}, host1_ms {host1:g}{drawn}"


def _knobs(cost: OnProfile) -> Knobs:
    return Knobs(cost.slowdown, cost.host0_ms, cost.host1_ms)
