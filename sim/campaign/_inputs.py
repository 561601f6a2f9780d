"""What both arms take for given, drawn within the ranges of the review's register of assumptions.

Drawn are the assumptions with a numeric range that a campaign's own files do not fix: costs of steps, host time, KV
room, noise, time on the way. The workload and the client stand in the traces and in the arms' configurations. A draw
holds for a whole campaign: the real system has one value of each, whatever the number of pairs, so this width does not
shrink with them. Draws are uniform and stratified (Latin hypercube), one permutation an assumption.

Left out: assumptions that are one of several values, as when siblings see a prefix. They are held as they stand: half
of the draws with another rule would predict nothing. A wrong one shows in the hit rate of the results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sim.review import Knob
from sim.rng import Streams

FIXED_BY_TRACES: Final = ("workload.", "client.")


@dataclass(frozen=True, slots=True)
class Draw:
    """One value of each drawn assumption."""

    levels: Mapping[str, float]
    """By name of the assumption, in the register's order: the value, or the factor for those that are factors."""
    settings: Mapping[str, Any]
    """Fields of a cell by path, with what is laid over both arms."""


def drawn(knobs: Sequence[Knob]) -> list[Knob]:
    """The assumptions that are drawn."""
    return [each for each in knobs if each.is_numeric and not any(f.startswith(FIXED_BY_TRACES) for f in each.fields)]


def draws(knobs: Sequence[Knob], count: int, seed: int) -> list[Draw]:
    """So many draws of the assumptions among ``knobs`` that are drawn; empty ones where there are none."""
    found: list[dict[str, float]] = [{} for _ in range(count)]
    settings: list[dict[str, Any]] = [{} for _ in range(count)]
    for number, knob in enumerate(drawn(knobs)):
        column = Streams(seed).column(f"campaign/inputs/{number}")
        shares = (column.permutation(count) + column.random(count)) / count
        for index, share in enumerate(shares.tolist()):
            level = float(knob.at(share))
            found[index][knob.name] = level
            settings[index] |= knob.settings(level)
    return [Draw(levels, laid) for levels, laid in zip(found, settings, strict=True)]
