"""AIBrix ``least-kv-cache``."""

from dataclasses import dataclass

from policies._costs import lowest
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class LeastKvCache(Policy):
    """The pod with the lowest reported KV use, GPU and CPU together, the last one on a tie; without both a random one.

    A pod that lacks one of the two metrics is passed over. vLLM's present engine (V1) has no metric of a CPU cache, and
    of SGLang AIBrix reads none, so over both the choice is random; ``has_cpu_metric`` says what it does over vLLM's
    engine before: a CPU cache that is not used adds nothing. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_kv_cache.go`` and ``pkg/metrics/metrics.go``
    at e3e10f9e4.
    Known pathologies: over present engines it is random, silently; the metric is scraped, so all requests between two
    readings go to one pod; cached blocks that nobody uses count as use in some engines; on an idle pool the last pod
    gets everything.
    Checked against: decision tables from the source.
    """

    has_cpu_metric: bool = False
    """Whether the pods report the use of a CPU cache."""

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod with the lowest KV use."""
        reporting = [each for each in fleet.available if self.has_cpu_metric and each.report is not None]
        if reporting:
            return lowest(reporting, kv_share)[-1], "least_kv_cache", 0
        if not fleet.available:
            return None, "no_engine", 0
        return pick(fleet.available), "no_report", 0


def kv_share(engine: EngineView) -> float:
    """What a pod last said."""
    assert engine.report is not None, "only reporting engines are compared"
    return engine.report.kv_share
