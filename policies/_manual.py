"""Keys that stay where they were placed, as the ``manual`` policy of the sglang gateway and smg keeps them.

Each key has a list of at most two addresses, oldest first, and the time of its last request. A product's file says
which values of the header are keys, and carries the rule as its reference.
"""

from dataclasses import dataclass
from typing import Literal

from policies._costs import random_lowest
from policies._keys import KeysInFlight
from policies._load import random_least
from policies._passes import Passes
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView

Mode = Literal["random", "min_load", "min_group"]
"""How a new key is placed: uniformly, on fewest requests in flight, or on fewest distinct keys in flight."""

_PLACES = 2


def assign(mode: Mode, available: list[EngineView], keys: KeysInFlight, pick: Pick) -> EngineView:
    """Place a key; ties are uniform."""
    if mode == "min_load":
        return random_least(available, pick)
    if mode == "min_group":
        return random_lowest(available, keys.keys, pick)
    engine: EngineView = pick(available)
    return engine


@dataclass
class ManualPolicy(Policy):
    """The rule; see the products' files."""

    assignment_mode: Mode = "random"
    """How a new key is placed: random, min_load (fewest requests in flight) or min_group (fewest distinct keys with a
    request in flight)."""
    max_idle_secs: float = 14400
    """A key without a request for this long is forgotten at the next pass."""
    eviction_interval_secs: float = 60
    """Seconds between those passes; 0: never."""

    key_headers = ("x-smg-routing-key",)

    def __post_init__(self) -> None:
        self.refuse_negative("max_idle_secs", "eviction_interval_secs")
        self._passes = Passes(self.eviction_interval_secs)
        self._places: dict[str, list[str]] = {}
        self._seen: dict[str, float] = {}
        self._engines: dict[str, EngineView] = {}
        self._keys = KeysInFlight()

    def start(self, fleet: FleetView) -> None:
        """Learn the addresses."""
        self._engines = {engine.url: engine for engine in fleet.engines}

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Learn its address; keys that had it in their lists may return to it."""
        self._engines[engine.url] = engine

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its address leads nowhere; the lists keep it."""
        del self._engines[engine.url]
        self._keys.forget(engine)

    def dispatched(self, request: RequestView, engine: EngineView) -> None:
        """Count the key's request."""
        key = self._key(request)
        if key:
            self._keys.sent(key, engine)

    def completed(self, request: RequestView, engine: EngineView) -> None:
        """Uncount it."""
        key = self._key(request)
        if key:
            self._keys.ended(key, engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the key's first available place, or a new one."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if self._passes.are_due(now):
            self._forget(self._passes.last - self.max_idle_secs)
        key = self._key(request)
        if not key:
            return assign(self.assignment_mode, available, self._keys, pick), "no_key", 0
        places = self._places.get(key)
        # A key used now moves to the end, so the order is that of the last use and a pass stops at the first young one.
        self._seen.pop(key, None)
        self._seen[key] = now
        for url in places or ():
            engine = self._engines.get(url)
            if engine is not None and engine.is_available:
                return engine, "known_key", 0
        engine = assign(self.assignment_mode, available, self._keys, pick)
        self._places[key] = [*(places or ()), engine.url][-_PLACES:]
        return engine, "moved_key" if places else "new_key", 0

    def _key(self, request: RequestView) -> str:
        """The routing key, empty where there is none."""
        raise NotImplementedError

    def _forget(self, before: float) -> None:
        """Drop keys last used at or before a time."""
        while self._seen:
            key = next(iter(self._seen))
            if self._seen[key] > before:
                return
            del self._seen[key], self._places[key]
