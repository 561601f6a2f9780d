"""All assumptions drawn at once: the width that inputs give to the ratio."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sim.review.sensitivity._bars import Bar
from sim.review.sensitivity._runs import Runs
from sim.review.sensitivity._worth import response
from sim.stats.sensitivity import Spread, latin, spread

DRAWS: Final = 20
"""Of all assumptions at once, each on so many pairs at most:"""
DRAWN_PAIRS: Final = 4


@dataclass(frozen=True, slots=True)
class Joint:
    """All assumptions drawn at once."""

    spread: Spread
    pairs: int
    root_sum_square: float
    """Standard deviation of the log ratio that the bars alone add up to, if they act apart."""


def joint_of(runs: Runs, bars: Sequence[Bar], pairs: int, draws: int = DRAWS) -> Joint | None:
    """None where too few draws can be run, or a pair alone, or the budget has not enough for all."""
    knobs = [each.knob for each in bars]
    if not knobs or pairs < 2:
        return None
    settings = []
    for row in latin(draws, len(knobs)).tolist():
        drawn: dict[str, Any] = {}
        for knob, share in zip(knobs, row, strict=True):
            drawn |= knob.settings(knob.at(share))
        settings.append(drawn)
    if not runs.buy(settings, pairs):
        return None
    known = dict(runs.notes)
    found = runs.at(settings, ["a draw of all assumptions"] * draws, pairs)
    if refused := [each for each in runs.notes if each not in known]:
        # What does not go together is said once, however often it was drawn.
        runs.notes = {**known, f"{found.count(None)} of {draws} draws cannot be run; the first: {refused[0]}": None}
    moved = spread([each[2] for each in found if each is not None])
    if moved is None:
        return None
    apart = sum(response(runs.centre, bar).variance for bar in bars)
    return Joint(moved, pairs, float(apart**0.5))
