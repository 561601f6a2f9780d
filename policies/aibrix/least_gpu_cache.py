"""AIBrix ``least-gpu-cache``."""

from dataclasses import dataclass

from policies._costs import random_lowest
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView
from policies.aibrix.least_kv_cache import kv_share


@dataclass
class LeastGpuCache(Policy):
    """The pod with the lowest reported use of the GPU's KV pool; ties uniform.

    Pods without a report are left out; without any report the choice is random. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_gpu_cache.go`` at e3e10f9e4.
    Known pathologies: of vLLM it reads ``vllm:gpu_cache_usage_perc``, a name that newer versions have given up, and is
    random over those; the metric is scraped, so all requests between two readings go to one pod; cached blocks that
    nobody uses count as use in some engines.
    Checked against: decision tables from the source.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod with the lowest use."""
        reporting = [engine for engine in fleet.available if engine.report is not None]
        if reporting:
            return random_lowest(reporting, kv_share, pick), "least_gpu_cache", 0
        if not fleet.available:
            return None, "no_engine", 0
        return pick(fleet.available), "no_report", 0
