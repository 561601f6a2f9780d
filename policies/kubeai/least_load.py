"""KubeAI's LeastLoad."""

from dataclasses import dataclass

from policies._load import random_least
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class LeastLoad(Policy):
    """The endpoint with the fewest requests in flight; ties at random. Cost O(endpoints), no state.

    The product takes the first of equals in the order in which Go walks a map, which begins anew at a random place for
    each request: nearly uniform, and uniform here.

    Source: substratusai/kubeai ``internal/loadbalancer/balance_least_load.go`` at 2f32ef498. Left out: adapters.
    Known pathologies: no prefix affinity; a count of requests is not an amount of work.
    Checked against: decision tables from the source.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the endpoint with fewest requests in flight."""
        if not fleet.available:
            return None, "no_engine", 0
        return random_least(fleet.available, pick), "least_loaded", 0
