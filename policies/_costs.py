"""The engine of lowest cost, or highest score, with ties left to chance."""

import math
from collections.abc import Callable, Sequence

from policies._protocol import EngineView, Pick

Cost = Callable[[EngineView], float]


def lowest(engines: Sequence[EngineView], cost: Cost) -> list[EngineView]:
    """All engines that share the lowest cost, in the router's order."""
    costs = [cost(engine) for engine in engines]
    least = min(costs)
    return [engine for engine, each in zip(engines, costs, strict=True) if each == least]


def random_lowest(engines: Sequence[EngineView], cost: Cost, pick: Pick) -> EngineView:
    """One of the engines of lowest cost; chance is asked only if there are several."""
    tied = lowest(engines, cost)
    chosen: EngineView = tied[0] if len(tied) == 1 else pick(tied)
    return chosen


def softmax_lowest(engines: Sequence[EngineView], costs: Sequence[float], temperature: float, pick: Pick) -> EngineView:
    """An engine with probability proportional to ``exp(-cost / (max - min) / temperature)``; 0 takes the lowest."""
    least, spread = min(costs), max(costs) - min(costs)
    if temperature == 0 or spread == 0:
        tied = [engine for engine, each in zip(engines, costs, strict=True) if each == least]
        chosen: EngineView = tied[0] if len(tied) == 1 else pick(tied)
        return chosen
    weights = [math.exp((least - each) / spread / temperature) for each in costs]
    drawn: EngineView = pick(engines, weights)
    return drawn
