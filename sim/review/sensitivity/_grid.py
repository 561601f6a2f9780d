"""The two widest bars against each other: who wins at each pair of levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from sim.review._judge import Decision
from sim.review._knobs import Knob, Level
from sim.review.sensitivity._bars import Bar
from sim.review.sensitivity._runs import Runs, run_or_centre
from sim.stats.sensitivity import Estimate

CORNERS: Final = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """The two widest assumptions at one level each."""

    levels: tuple[str, str]
    ratio: Estimate
    decision: Decision
    outside: float | None = None
    """As of an end."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Who wins over the two widest assumptions."""

    knobs: tuple[Knob, Knob]
    tiles: tuple[Tile, ...]


def grid_of(runs: Runs, bars: Sequence[Bar], pairs: int) -> Grid | None:
    """None where fewer than two assumptions move anything, or the budget has not enough for all of it."""
    moving = sorted((each for each in bars if each.width > 0), key=lambda each: -each.width)[:2]
    if len(moving) < 2:
        return None
    knobs = moving[0].knob, moving[1].knob
    levels = [_levels(each) for each in moving]
    asked = list(product(*levels))
    settings = [{**knobs[0].settings(one), **knobs[1].settings(other)} for one, other in asked]
    if not runs.buy(settings, pairs):
        return None
    shown = [(_shown(knobs[0], one), _shown(knobs[1], other)) for one, other in asked]
    names = [f"{knobs[0].name} {one} with {knobs[1].name} {other}" for one, other in shown]
    found = run_or_centre(runs, settings, names, pairs)
    tiles = [
        Tile(said, each, runs.centre.decide(each), runs.far(there))
        for said, there, each in zip(shown, settings, found, strict=True)
        if each is not None
    ]
    return Grid(knobs, tuple(tiles))


def _levels(bar: Bar) -> list[Level]:
    """The ends that ran with the present value between them; two others at most."""
    ends = [end.level for end in bar.ends][:2]
    return [*ends, None] if bar.knob.options else sorted({*ends, bar.knob.centre} - {None})


def _shown(knob: Knob, level: Level) -> str:
    return f"{knob.value} (as stated)" if level is None else knob.shown(level)
