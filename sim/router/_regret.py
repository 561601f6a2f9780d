"""A decision held against what would have been best at its moment, had the router known all."""

from collections.abc import Sequence

from policies._content import Content
from policies._protocol import EngineView
from sim.engine.shell import Engine

Hindsight = tuple[int, int, int]
"""Best engine, tokens of the prompt that it has cached more than the chosen, tokens queued at the chosen beyond the
fewest anywhere."""


def regret(
    engines: Sequence[Engine], candidates: Sequence[EngineView], chosen: int, content: Content, now: int
) -> Hindsight:
    """The two regrets of a choice among candidates, and the engine of most cached, then least queued, then first."""
    cached = {view.index: engines[view.index].cached_tokens(content) for view in candidates}
    queued = {view.index: engines[view.index].peek(now).queued_tokens for view in candidates}
    best = min(cached, key=lambda index: (-cached[index], queued[index], index))
    return best, cached[best] - cached[chosen], queued[chosen] - min(queued.values())
