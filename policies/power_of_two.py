"""The better of two random engines."""

from dataclasses import dataclass
from typing import Literal

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class PowerOfTwo(Policy):
    """Draw two different available engines and take the one with less load; a tie goes to the one drawn first.

    Cost O(1). The two draws are symmetric, so a tie is a fair coin.

    Source: smg-project/smg ``src/policies/power_of_two.rs`` at c7f9bf9f5. ``load`` selects the product: sglang-router
    0.3.2 is ``reports_only``, since it keeps no counts for this policy; vllm-router 0.1.17 is ``reports``; smg 1.13.0
    without engine reports is ``requests``.
    Known pathologies: with ``reports_only`` and engines that report nothing it is uniformly random; with reports, all
    requests between two polls see the same stale numbers and herd; no prefix affinity.
    Checked against: recorded decisions on a pair of engines, and counts over 400 requests on four, of all three
    routers.
    """

    load: Literal["requests", "reports", "reports_only"] = "requests"
    """``requests``: own count in flight. ``reports``: tokens that the engines reported, own counts unless both did.
    ``reports_only``: reported tokens, otherwise the first drawn."""

    min_engines = 2

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Compare two random engines."""
        available = fleet.available
        if len(available) < 2:
            return (available[0], "only_one", 0) if available else (None, "no_engine", 0)
        count = len(available)
        place: int = pick(range(count))
        one, other = available[place], available[(place + pick(range(1, count))) % count]
        if self._load(one, other) <= self._load(other, one):
            return one, "better_of_two", 0
        return other, "better_of_two", 0

    def _load(self, engine: EngineView, rival: EngineView) -> int:
        if self.load == "requests":
            return engine.in_flight
        if engine.report is not None and rival.report is not None:
            return engine.report.tokens
        return engine.in_flight if self.load == "reports" else 0
