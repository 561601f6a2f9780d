"""The tornado: each assumption, or size, at its ends, the ratio and the decision there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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


def bars_of(runs: Runs, knobs: Sequence[Knob], pairs: int) -> list[Bar]:
    """Both arms at all ends of these; one of which no end can be run has no bar."""
    ends = _ends(runs, [(knob, level) for knob in knobs for level in knob.ends], pairs)
    bars = [Bar(knob, tuple(end for of, end in ends if of is knob)) for knob in knobs]
    return [each for each in bars if each.ends]


def closer(runs: Runs, bars: Sequence[Bar], ends: Iterable[tuple[Knob, End]], pairs: int) -> list[Bar]:
    """The same bars with more pairs at some of their ends."""
    asked = [(knob, end.level) for knob, end in ends]
    new = {(knob.id, end.value): end for knob, end in _ends(runs, asked, pairs)}
    return [replace(bar, ends=tuple(new.get((bar.knob.id, end.value), end) for end in bar.ends)) for bar in bars]


def _ends(runs: Runs, asked: Sequence[tuple[Knob, Level]], pairs: int) -> list[tuple[Knob, End]]:
    settings = [knob.settings(level) for knob, level in asked]
    found = runs.at(settings, [f"{knob.name} {knob.shown(level)}" for knob, level in asked], pairs)
    here, ends = runs.centre.decided, []
    for (knob, level), said, each in zip(asked, settings, found, strict=True):
        if each is not None:
            decided = runs.centre.decide(each[0])
            flips = "undecided" not in (here, decided) and here != decided
            ends.append((knob, End(level, knob.shown(level), said, *each[:2], decided, flips, runs.far(said))))
    return ends


def points_of(centre: Centre, bar: Bar) -> dict[float, Estimate]:
    """Estimates by level, the centre among them."""
    points = {float(end.level): end.ratio for end in bar.ends}
    if bar.knob.centre is not None:
        points[float(bar.knob.centre)] = centre.estimate
    return points
