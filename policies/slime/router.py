"""slime's own router, before slime took the sglang gateway."""

from collections.abc import Iterator
from dataclasses import dataclass

from policies._load import first_least
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView


@dataclass
class Router(Policy):
    """The live engine with the fewest active requests, first in the router's order on a tie.

    Cost O(engines), no state: counts rise when a request is sent and fall when its answer is delivered. An engine is
    dead after a number of failed health checks, and is not asked again.

    Source: THUDM/slime before 2026-03-27 (removed by its change 1773); described at 624b824a8.
    Known pathologies: no affinity at all: each turn of a session is likely to land elsewhere; on an idle pool every
    request goes to the first engine.
    Checked against: the description, by decision tables: 200 of 200 requests that never overlap go to the first engine.
    """

    radix_tree_middleware: bool = False
    """slime's RadixTreeMiddleware. It kept token ids of texts to save tokenizing, and never changed where a request
    went: neither value changes a decision."""

    def idle_fields(self) -> Iterator[str]:
        """The middleware never chose an engine."""
        if self.radix_tree_middleware:
            yield "radix_tree_middleware has no effect: it saved tokenizing and never changed where a request went"

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the engine with fewest active requests."""
        if not fleet.available:
            return None, "no_engine", 0
        return first_least(fleet.available), "least_loaded", 0
