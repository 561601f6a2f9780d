"""What knowing an assumption is worth, by what measuring it costs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sim.review._knobs import Knob
from sim.review.sensitivity._bars import Bar, points_of
from sim.review.sensitivity._centre import Centre
from sim.stats.sensitivity import Response


@dataclass(frozen=True, slots=True)
class Worth:
    """What knowing an assumption is worth."""

    knob: Knob
    chance: float
    """Probability that who knew it would decide otherwise."""
    loss: float
    """Expected loss that knowing avoids, as a share of the metric."""

    @property
    def per_gpu_hour(self) -> float | None:
        """None where nobody says what measuring takes."""
        hours = self.knob.gpu_hours
        return None if hours is None else self.loss / hours if hours else float("inf") if self.loss else 0.0


def worth_of(centre: Centre, bars: Iterable[Bar]) -> list[Worth]:
    """Of each, best first."""
    found = []
    for bar in bars:
        moved = response(centre, bar)
        found.append(Worth(bar.knob, moved.chance, float(np.expm1(moved.worth))))
    return sorted(found, key=lambda each: (-(each.per_gpu_hour or 0.0), -each.loss, -each.chance))


def response(centre: Centre, bar: Bar) -> Response:
    """Gains over the smallest effect worth having."""
    if bar.knob.options:
        return Response(tuple(centre.gain(each) for each in (centre.estimate, *(end.ratio for end in bar.ends))))
    points = points_of(centre, bar)
    levels = sorted(points)
    gains = tuple(centre.gain(points[level]) for level in levels)
    return Response(gains, tuple(levels)) if len(levels) > 1 else Response(gains)
