"""A ring of hashed points, as routers place keys with.

Each engine has ``points`` places on a circle of 2^64; a key belongs to the first point at or after its own place. An
engine that joins takes keys only for itself, one that leaves gives up only its own: about 1/N of the keys move and
none between two that stay. An engine's share of the circle is Beta(V, (N-1)V) distributed for V points, so shares
differ by about 1/sqrt(V) of their mean.

Lookup is one bisection. Left out: weights of engines.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from policies._protocol import EngineView

Hash = Callable[[str], int]
Label = Callable[[str, int], str]
"""Name of point i of the engine at an address, as it is hashed."""


class HashRing:
    """The points of some engines, in order. Where two engines share a point, the later one has it."""

    def __init__(self, points: int, label: Label, place: Hash) -> None:
        self._points = points
        self._label = label
        self._place = place
        self._places: list[int] = []
        self._owners: list[EngineView] = []

    def build(self, engines: Sequence[EngineView]) -> None:
        """Put exactly these engines on the ring."""
        owners: dict[int, EngineView] = {}
        for engine in engines:
            for place in _places_of(engine.url, self._points, self._label, self._place):
                owners[place] = engine
        self._places = sorted(owners)
        self._owners = [owners[place] for place in self._places]

    def owner(self, key: str) -> EngineView:
        """Engine of the first point at or after the key, available or not. The ring must not be empty."""
        at = bisect_left(self._places, self._place(key))
        return self._owners[at if at < len(self._owners) else 0]

    def find(self, key: str) -> EngineView | None:
        """The first available engine at or after the key, wrapping around; None if there is none."""
        return next((engine for engine in self.walk(key) if engine.is_available), None)

    def walk(self, key: str) -> Iterator[EngineView]:
        """Engines from the key on, clockwise, once around; an engine comes again at each of its points."""
        owners = self._owners
        at = bisect_left(self._places, self._place(key))
        for step in range(len(owners)):
            yield owners[(at + step) % len(owners)]

    def find_within(self, key: str, limit: float) -> tuple[EngineView | None, bool]:
        """The first available engine clockwise with at most ``limit`` requests in flight, else the first of all.

        Also whether it is the first available one, and within the limit.
        """
        first: EngineView | None = None
        seen: set[EngineView] = set()
        for engine in self.walk(key):
            if engine in seen or not engine.is_available:
                continue
            seen.add(engine)
            if engine.in_flight <= limit:
                return engine, first is None
            first = first or engine
        return first, False


@lru_cache(4096)
def _places_of(url: str, points: int, label: Label, place: Hash) -> tuple[int, ...]:
    """Places of an engine's points: hashed once a process, since every replication has the same addresses."""
    return tuple(place(label(url, point)) for point in range(points))
