"""Flat columns of sessions of different lengths: session i holds elements ``starts[i] .. starts[i] + turns[i] - 1``.

Drawn turn by turn, one named column over all sessions for each turn: element (session, turn) is the same whatever the
number of sessions and whatever the number of turns.
"""

from collections.abc import Callable

import numpy as np

from sim.workload._lengths import Floats, Ints

Draw = Callable[[int, int], Floats]
"""``draw(turn, count)``: the column of a turn, for the first ``count`` sessions."""


def by_turn(draw: Draw, starts: Ints, turns: Ints, first: int = 0) -> Floats:
    """A flat column, drawn turn by turn from turn ``first`` on; earlier turns hold 0."""
    flat = np.zeros(int(turns.sum()))
    for turn in range(first, int(turns.max())):
        active = np.flatnonzero(turns > turn)
        flat[starts[active] + turn] = draw(turn, int(active[-1]) + 1)[active]
    return flat


def before(flat: Ints, starts: Ints, turns: Ints) -> Ints:
    """Sum of the elements before each one, within its session."""
    sums = np.cumsum(flat) - flat
    result: Ints = sums - np.repeat(sums[starts], turns)
    return result


def indices(starts: Ints, turns: Ints) -> Ints:
    """Indices of the first ``turns[i]`` elements of each session i, one session after the other."""
    ends = np.cumsum(turns)
    result: Ints = np.arange(int(ends[-1])) + np.repeat(starts - (ends - turns), turns)
    return result
