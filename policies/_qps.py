"""Requests per second of each engine over a sliding window, as production-stack's router keeps them."""

from collections import deque
from collections.abc import Sequence

from policies._protocol import EngineView


class Qps:
    """Counts dispatches. An engine without any so far has no statistics."""

    def __init__(self, window_s: float) -> None:
        self._window = window_s
        self._times: dict[EngineView, deque[float]] = {}

    def sent(self, engine: EngineView, now: float) -> None:
        """A request went to an engine."""
        self._times.setdefault(engine, deque()).append(now)

    def lowest(self, engines: Sequence[EngineView], now: float) -> EngineView:
        """The first engine without statistics, else the one with fewest requests in the window, first on a tie."""
        best, least = engines[0], float("inf")
        for engine in engines:
            times = self._times.get(engine)
            if times is None:
                return engine
            while times and times[0] < now - self._window:
                times.popleft()
            if len(times) < least:
                best, least = engine, len(times)
        return best

    def forget(self, engine: EngineView) -> None:
        """The engine is gone."""
        self._times.pop(engine, None)
