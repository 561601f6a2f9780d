"""AIBrix ``least-request``."""

from dataclasses import dataclass

from policies._load import random_least
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class LeastRequest(Policy):
    """The pod with the fewest running requests, by the gateway's own count; ties uniform. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_request.go`` at e3e10f9e4.
    Known pathologies: no prefix affinity; a count of requests is not an amount of work.
    Checked against: the description, by decision tables; the same decisions as ``least_load`` with random ties.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod with fewest running requests."""
        if not fleet.available:
            return None, "no_engine", 0
        return random_least(fleet.available, pick), "least_request", 0
