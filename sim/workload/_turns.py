"""How many turns sessions have, and how their contexts grow along the turns.

Lognormal numbers of turns, z standard normal by session:

    log turns = log median + sigma z,       z = sqrt(r) a_group + sqrt(1 - r) e_session

with r the share of the variance between groups. Observations may grow with the number of turns: with correlation c,

    log observation = log median + sigma (c z + sqrt(1 - c^2) e_turn),

the same law for each observation, larger in long sessions where c > 0. And they may shrink along the session, so that
the context follows a power of the turn: with exponent a the sum of the first k of n observations is, in the mean,
(k / n)^a of the whole. Coding agents measure a = 0.57: they read much first and little later.
"""

import math

import numpy as np

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._check import MOST_REQUESTS, within
from sim.workload._lengths import Floats, Ints, Length, Lognormal, fixed, lengths, repeat, unrounded, whole
from sim.workload._ragged import by_turn, indices

MOST_TURNS = 10_000


def check_growth(turns: Length, observation: Length, exponent: float, correlation: float) -> None:
    """Refuse an exponent out of range, and a correlation of what is not lognormal."""
    within("growth_exponent", exponent, 0.01, 10)
    within("observation_turns_correlation", correlation, -1, 1)
    if correlation != 0 and not (isinstance(turns, Lognormal) and isinstance(observation, Lognormal)):
        raise ScenarioError("observation_turns_correlation needs turns and observation_tokens of kind lognormal")


def draw_turns(
    streams: Streams, purpose: str, turns: Length, group_of: Ints, groups: int, share: float | None
) -> tuple[Ints, Floats]:
    """Turns of each session, at least 1, and the standard normal behind each (zeros where the law has none)."""
    count = len(group_of)
    if not isinstance(turns, Lognormal):
        return bounded_turns(lengths("turns", turns, streams.column(purpose), count, 1)), np.zeros(count)
    normals = streams.column(purpose).standard_normal(count)
    if share is not None:
        levels = streams.column(f"{purpose}/group").standard_normal(groups)
        normals = math.sqrt(share) * levels[group_of] + math.sqrt(1 - share) * normals
    return bounded_turns(whole("turns", turns.at(normals), 1)), normals


def bounded_turns(turns: Ints) -> Ints:
    """The numbers of turns, none of them, nor their sum, beyond what one workload may hold."""
    within("turns of the longest session", int(turns.max(initial=1)), 1, MOST_TURNS)
    within("turns of all sessions", int(turns.sum()), 0, MOST_REQUESTS)
    return turns


def observations(
    streams: Streams,
    name: str,
    length: Length,
    starts: Ints,
    turns: Ints,
    *,
    exponent: float = 1.0,
    correlation: float = 0.0,
    normals: Floats | None = None,
) -> Ints:
    """Tokens that the environment adds after each turn, flat; the column of a turn is ``workload/<name>/<turn>``.

    ``normals``: by session, the standard normal behind its number of turns.
    """
    same = fixed(length)
    if same is not None and exponent == 1.0:
        return repeat(same, int(turns.sum()), 0)

    def draw(turn: int, count: int) -> Floats:
        column = streams.column(f"workload/{name}/{turn}")
        if correlation and isinstance(length, Lognormal) and normals is not None:
            own = math.sqrt(1 - correlation**2) * column.standard_normal(count)
            return length.at(correlation * normals[:count] + own)
        return unrounded(length, column, count)

    drawn = by_turn(draw, starts, turns)
    return whole(name, drawn if exponent == 1.0 else drawn * growth_factors(exponent, starts, turns), 0)


def growth_factors(exponent: float, starts: Ints, turns: Ints) -> Floats:
    """Factor of the observation after each turn, flat: of the n that a session adds, the k-th has mean 1 over k."""
    added = np.repeat(np.maximum(turns - 1, 1), turns)
    after = np.arange(int(turns.sum())) - np.repeat(np.cumsum(turns) - turns, turns)
    shares = ((after + 1) / added) ** exponent - (after / added) ** exponent
    factors = np.empty(int(turns.sum()))
    factors[indices(starts, turns)] = added * shares
    return factors
