"""KubeAI's LeastLoad."""

from dataclasses import dataclass

from policies._load import first_least
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class LeastLoad(Policy):
    """The endpoint with the fewest requests in flight, first on a tie. Cost O(endpoints), no state.

    Source: substratusai/kubeai ``internal/loadbalancer`` at 2f32ef498.
    Known pathologies: no prefix affinity; on an idle pool every request goes to one endpoint.
    Checked against: the description, by decision tables.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the endpoint with fewest requests in flight."""
        if not fleet.available:
            return None, "no_engine", 0
        return first_least(fleet.available), "least_loaded", 0
