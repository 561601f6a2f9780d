"""AIBrix ``power-of-two``."""

from dataclasses import dataclass

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class PowerOfTwo(Policy):
    """Two different random pods; the one with fewer running requests, the first drawn on a tie. Cost O(1), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/power_of_two.go`` at e3e10f9e4.
    Known pathologies: no prefix affinity.
    Checked against: the description, by decision tables; the same decisions as ``power_of_two``.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Compare two random pods."""
        available = fleet.available
        if len(available) < 2:
            return (available[0], "only_one", 0) if available else (None, "no_engine", 0)
        count = len(available)
        place: int = pick(range(count))
        one, other = available[place], available[(place + pick(range(1, count))) % count]
        return (one if one.in_flight <= other.in_flight else other), "better_of_two", 0
