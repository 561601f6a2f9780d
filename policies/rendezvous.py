"""Rendezvous hashing: each key ranks all engines, and takes the first that is available."""

from dataclasses import dataclass

from policies._hashes import xxh3_u64
from policies._keys import HEADERS, key_of
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class Rendezvous(Policy):
    """The available engine with the largest hash of key and address (XXH3-64 of ``{key}@{url}``).

    Keys of an engine that fails spread evenly over the others and return with it; a join takes 1/N of the keys, all for
    itself. Shares are exactly even in the mean, without points to choose as on a ring. A request without a key is
    placed at random. Cost O(1) for a known key while its engine is up, O(engines) otherwise; the places of keys are
    kept.

    Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998. Products:
    NovaSky-AI/SkyRL's older agent service, vllm-project/aibrix ``session-affinity``, ties of vllm-router's
    ``sticky_least_loaded``.
    Known pathologies: blind to load: the split of few keys is multinomial, and heavy keys collide.
    Checked against: the definition; shares of moved keys and of counts by property tests.
    """

    key_headers = HEADERS
    places_by_hash = True

    def __post_init__(self) -> None:
        self._homes: dict[str, EngineView] = {}

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Rank anew."""
        self._homes.clear()

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Rank anew."""
        self._homes.clear()

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by the key's ranking."""
        if not fleet.available:
            return None, "no_engine", 0
        key = key_of(request)
        if not key:
            return pick(fleet.available), "no_key", 0
        home = self._homes.get(key)
        if home is None:
            home = self._homes[key] = first_of(key, fleet.engines)
        if home.is_available:
            return home, "key", 0
        return first_of(key, fleet.available), "next_in_rank", 0


def first_of(key: str, engines: list[EngineView]) -> EngineView:
    """The engine that a key ranks first."""
    return max(engines, key=lambda engine: xxh3_u64(f"{key}@{engine.url}"))
