"""The better of two random engines, as smg 1.13.0 compares them."""

from dataclasses import dataclass
from typing import Literal

from policies._load import all_least
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from policies.smg._expected_wait import ExpectedWait


@dataclass
class PowerOfTwo(Policy):
    """Draw two different available engines; the one with the lower load, ties uniform.

    ``power_of_two_load_metric`` is the load: ``expected_wait`` scores the pair as ``smg.least_load`` does (without
    reports: fewer requests in flight); ``requests`` takes fewer requests in flight, equal ones by expected wait;
    ``least_requests`` draws no pair but takes the fewest in flight of all engines, equal ones by expected wait. Cost
    O(1), ``least_requests`` O(engines).

    Source: smg-project/smg ``model_gateway/src/policies/power_of_two.rs`` at f8daa8835; the metrics at 2463a7c71 (smg
    1.13.0). The scorer's tunables are fixed there: 0.15 s, 1024 tokens, 2000 tokens/s, no token counts (HTTP).
    Known pathologies: no prefix affinity; one of two random engines can be a bad one while a third idles.
    Checked against: recorded decisions on a pair of engines, and counts over 400 requests on four, of smg 1.13.0
    without reports; decision tables from the source with reports.
    """

    power_of_two_load_metric: Literal["expected_wait", "requests", "least_requests"] = "expected_wait"
    """What is compared."""

    arbitrary_order = True
    min_engines = 2

    def __post_init__(self) -> None:
        self._waits = ExpectedWait(0.15, 1024, 2000.0)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its report and credit are gone."""
        self._waits.forget(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Compare two random engines, or all."""
        available = fleet.available
        if len(available) < 2:
            return (available[0], "only_one", 0) if available else (None, "no_engine", 0)
        if self.power_of_two_load_metric == "least_requests":
            return self._waits.choose(all_least(available), None, pick), "least_requests", 0
        count = len(available)
        place: int = pick(range(count))
        pair = [available[place], available[(place + pick(range(1, count))) % count]]
        if self.power_of_two_load_metric == "requests":
            pair = all_least(pair)
        return self._waits.choose(pair, None, pick), "better_of_two", 0
