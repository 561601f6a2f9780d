"""The tornado: each assumption, or size, at its ends, the ratio and the decision there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim.review._judge import Decision
from sim.review._knobs import Knob, Level
from sim.review.sensitivity._centre import Centre
from sim.review.sensitivity._runs import Runs
from sim.stats.sensitivity import Estimate


@dataclass(frozen=True, slots=True)
class End:
    """An assumption somewhere else."""

    level: Level
    value: str
    """As it is read."""
    settings: Mapping[str, Any]
    """By field, as laid over both arms."""
    ratio: Estimate
    """Candidate over baseline there."""
    change: Estimate
    """Over the ratio at the centre, from the same pairs; 1 exactly where nothing moves."""
    decision: Decision
    flips: bool
    """It is decided there and at the centre, and differently."""
    outside: float | None = None
    """Share of busy time outside the calibrated region, in the arm that has more; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One assumption or size of the tornado."""

    knob: Knob
    ends: tuple[End, ...]

    @property
    def width(self) -> float:
        """Largest change of the log ratio."""
        return max((abs(each.change.log or 0.0) for each in self.ends), default=0.0)


def bars_of(runs: Runs, knobs: Sequence[Knob]) -> list[Bar]:
    """Both arms at all ends of these; one of which no end can be run has no bar."""
    asked = [(knob, level) for knob in knobs for level in knob.ends]
    settings = [knob.settings(level) for knob, level in asked]
    found = runs.at(settings, [f"{knob.name} {knob.shown(level)}" for knob, level in asked])
    ends: dict[str, list[End]] = {knob.id: [] for knob in knobs}
    here = runs.centre.decided
    for (knob, level), said, each in zip(asked, settings, found, strict=True):
        if each is not None:
            decided = runs.centre.decide(each[0])
            flips = "undecided" not in (here, decided) and here != decided
            ends[knob.id].append(End(level, knob.shown(level), said, *each[:2], decided, flips, runs.far(said)))
    return [Bar(knob, tuple(ends[knob.id])) for knob in knobs if ends[knob.id]]


def points_of(centre: Centre, bar: Bar) -> dict[float, Estimate]:
    """Estimates by level, the centre among them."""
    points = {float(end.level): end.ratio for end in bar.ends}
    if bar.knob.centre is not None:
        points[float(bar.knob.centre)] = centre.estimate
    return points
