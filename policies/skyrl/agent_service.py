"""The engine that SkyRL's older agent service picked."""

from dataclasses import dataclass

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from policies.rendezvous import first_of


@dataclass
class AgentService(Policy):
    """Round robin; with ``sticky``, rendezvous hashing of the trajectory id (``X-Session-ID``).

    The counter of the round robin starts at 0 and is not reset. Sticky: the available engine with the largest hash of
    id and address, so a failed engine's trajectories spread over the others and return; without an id, round robin.
    Cost O(1), O(engines) when sticky.

    Source: NovaSky-AI/SkyRL at a9564572e, by description. The product's hash is not known; XXH3-64 stands for it.
    Known pathologies: round robin sends every turn elsewhere, and it is the default; sticky is blind to load.
    Checked against: the description, by decision tables.
    """

    sticky: bool = False
    """Whether a trajectory keeps its engine."""

    key_headers = ("x-session-id",)

    def __post_init__(self) -> None:
        self._turn = 0
        self._homes: dict[str, EngineView] = {}

    def joined(self, engine: EngineView, fleet: FleetView) -> None:
        """Rank anew."""
        self._homes.clear()

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Rank anew."""
        self._homes.clear()

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose by trajectory, or in turn."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        key = request.headers.get("x-session-id")
        if self.sticky and key:
            home = self._homes.get(key)
            if home is None:
                home = self._homes[key] = first_of(key, fleet.engines)
            return (home if home.is_available else first_of(key, available)), "sticky", 0
        engine = available[self._turn % len(available)]
        self._turn += 1
        return engine, "turn", 0
