"""Comparing engines by requests in flight, and what to do when several share the lowest count.

Products differ in nothing so often as in the last step of "least loaded": which of the tied engines. The first one in
the router's order (verl, sglang 0.3.2, vLLM router, KubeAI), a random one (smg), or each in turn. On an idle pool the
rule is the whole policy: with ``first``, requests that never overlap all go to one engine.
"""

from collections.abc import Sequence
from typing import Literal

from policies._protocol import EngineView, Pick

Tie = Literal["first", "random", "rotate"]
"""``first`` in the router's order, ``random`` among the tied, ``rotate``: the first tied one after the last chosen."""


def first_least(engines: Sequence[EngineView]) -> EngineView:
    """The engine with fewest requests in flight, the first one on a tie."""
    best = engines[0]
    least = best.in_flight
    if least == 0:
        return best
    for engine in engines:
        if engine.in_flight < least:
            best, least = engine, engine.in_flight
            if least == 0:
                break
    return best


def all_least(engines: Sequence[EngineView]) -> list[EngineView]:
    """All engines that share the fewest requests in flight, in the router's order."""
    least = first_least(engines).in_flight
    return [engine for engine in engines if engine.in_flight == least]


def random_least(engines: Sequence[EngineView], pick: Pick) -> EngineView:
    """One of the engines with fewest requests in flight; chance is asked only if there are several."""
    tied = all_least(engines)
    chosen: EngineView = tied[0] if len(tied) == 1 else pick(tied)
    return chosen


def next_least(engines: Sequence[EngineView], cursor: int) -> tuple[EngineView, int]:
    """The first least loaded engine at or after place ``cursor``, wrapping around; and the place after it."""
    least = first_least(engines).in_flight
    tied = [place for place, engine in enumerate(engines) if engine.in_flight == least]
    place = next((place for place in tied if place >= cursor), tied[0])
    return engines[place], place + 1


def is_uneven(engines: Sequence[EngineView], by_more_than: float, by_factor: float) -> bool:
    """Whether the most loaded engine exceeds the least loaded one by a number and by a factor, both strictly."""
    least = most = engines[0].in_flight
    for engine in engines:
        load = engine.in_flight
        if load > most:
            most = load
        elif load < least:
            least = load
    return most - least > by_more_than and most > by_factor * least
