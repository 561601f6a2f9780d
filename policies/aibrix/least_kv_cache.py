"""AIBrix ``least-kv-cache``."""

from dataclasses import dataclass

from policies._costs import lowest
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class LeastKvCache(Policy):
    """The pod with the lowest reported KV use, the last one on a tie.

    A pod without a report is passed over while another has one; without any report the choice is random. AIBrix counts
    GPU and CPU caches together; an engine here has the first alone. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_kv_cache.go`` at e3e10f9e4.
    Known pathologies: the metric is scraped, so all requests between two readings go to one pod; cached blocks that
    nobody uses count as use in some engines; on an idle pool the last pod gets everything.
    Checked against: decision tables from the source.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod with the lowest KV use."""
        reporting = [engine for engine in fleet.available if engine.report is not None]
        if reporting:
            return lowest(reporting, kv_share)[-1], "least_kv_cache", 0
        if not fleet.available:
            return None, "no_engine", 0
        return pick(fleet.available), "no_report", 0


def kv_share(engine: EngineView) -> float:
    """What a pod last said."""
    assert engine.report is not None, "only reporting engines are compared"
    return engine.report.kv_share
