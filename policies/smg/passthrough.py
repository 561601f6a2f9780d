"""No balancing at all, as smg's ``passthrough`` does it."""

from dataclasses import dataclass

from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class Passthrough(Policy):
    """The first available engine in the router's order, always.

    Cost O(1), no state.

    Source: smg-project/smg ``model_gateway/src/policies`` at f8daa8835 (smg 1.13.0 ``passthrough``).
    Known pathologies: every other engine idles; meant for a single engine.
    Checked against: decision tables from the description.
    """

    arbitrary_order = True

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the first available engine."""
        if not fleet.available:
            return None, "no_engine", 0
        return fleet.available[0], "first", 0
