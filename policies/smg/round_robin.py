"""Cyclic routing of smg 1.13.0."""

from dataclasses import dataclass

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class RoundRobin(Policy):
    """The available engines in turn, in the router's order, from a random place after each change of the pool.

    From the start the cycle begins with the first engine. Where it goes on after an engine fails, recovers, joins or
    leaves could not be derived from the product, only that it stays in order; here it goes on at a uniform place. Keys,
    content and load are ignored. Cost O(1), and one comparison of lists.

    Source: measured on smg 1.13.0; smg-project/smg ``model_gateway/src/policies/round_robin.rs`` at f8daa8835.
    Known pathologies: every turn of a session lands elsewhere, so its prefix is computed on every engine; equal counts
    are not equal work.
    Checked against: recorded decisions of smg 1.13.0, on a stable pool and with engines failing, joining and leaving.
    """

    arbitrary_order = True

    def __post_init__(self) -> None:
        self._cycle: list[EngineView] = []
        self._next = 0

    def start(self, fleet: FleetView) -> None:
        """Begin with the first engine."""
        self._cycle = list(fleet.available)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the next engine in the cycle."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if available != self._cycle:
            self._cycle = list(available)
            self._next = pick(range(len(available)))
            branch = "pool_changed"
        else:
            branch = "turn"
        engine = available[self._next]
        self._next = (self._next + 1) % len(available)
        return engine, branch, 0
