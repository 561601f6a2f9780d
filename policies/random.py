"""Uniformly random routing."""

from dataclasses import dataclass

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class Random(Policy):
    """Any available engine with equal probability, independent of everything.

    Cost O(1), no state. The split of K requests over N engines is multinomial, so loads differ by chance alone.

    Source: smg-project/smg ``src/policies/random.rs`` at c7f9bf9f5 (sglang-router 0.3.2); the same rule in smg 1.13.0
    and vllm-router 0.1.17.
    Known pathologies: no prefix affinity; some engines idle while others queue.
    Checked against: counts over 400 recorded requests of each of the three routers.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Pick one of the available engines."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        return pick(available), "random", 0
