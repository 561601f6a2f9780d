"""NeMo-RL's generation router."""

from dataclasses import dataclass

from policies._load import all_least
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class LeastInFlight(Policy):
    """The serving backend with the fewest requests in flight; ties go to the lexicographically first address.

    Cost O(engines), no state. No affinity. A backend that fails is dropped until the next push of the membership.

    Source: NVIDIA-NeMo/RL ``nemo_rl/models/generation/generation_router.py`` at 7ea279abf.
    Known pathologies: each turn of a session may land elsewhere and compute its prefix anew; on an idle pool every
    request goes to one backend. Addresses are compared as texts, so port 10000 comes before port 9000.
    Checked against: the description, by decision tables.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the backend with fewest requests in flight."""
        if not fleet.available:
            return None, "no_engine", 0
        return min(all_least(fleet.available), key=lambda engine: engine.url), "least_in_flight", 0
