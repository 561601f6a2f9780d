"""AIBrix ``throughput``."""

from dataclasses import dataclass

from policies._costs import random_lowest
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class Throughput(Policy):
    """The pod with the lowest reported token throughput, taken for the one with most to spare; ties uniform.

    A pod that does not report a rate is passed over while another does; without any the choice is random. Cost
    O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms`` at e3e10f9e4. AIBrix adds prompt and generation
    rates; reports carry the generation rate.
    Known pathologies: a pod that is slow, or stuck in prefill, has a low throughput and is preferred; the metric is
    scraped.
    Checked against: the description, by decision tables.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod with the lowest throughput."""
        reporting = [engine for engine in fleet.available if _rate(engine) is not None]
        if reporting:
            return random_lowest(reporting, lambda engine: _rate(engine) or 0.0, pick), "lowest_throughput", 0
        if not fleet.available:
            return None, "no_engine", 0
        return pick(fleet.available), "no_report", 0


def _rate(engine: EngineView) -> float | None:
    return engine.report.tokens_per_s if engine.report else None
