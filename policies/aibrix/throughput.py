"""AIBrix ``throughput``."""

from dataclasses import dataclass

from policies._costs import random_lowest
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class Throughput(Policy):
    """A random pod: lowest ``2 * mean prompt tokens + mean output tokens``, ties uniform, of which both are read as 0.

    The means are answers of Prometheus, whose values are kept in a form of which the rule reads a plain 0, for every
    pod. ``reads_queries`` says what it would do with the means: over the requests of the last day, not over what is
    under way; pods without them left out; without any random. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/throughput.go``, ``pkg/metrics/metrics.go`` and
    ``types.go``, ``pkg/cache/cache_metrics.go`` at e3e10f9e4. The means are over all requests that ended here.
    Known pathologies: it is random, silently; with the means it is no load: a pod with a thousand small requests counts
    less than one with a single large one, and until the means move all requests go to one pod.
    Checked against: decision tables from the source.
    """

    reads_queries: bool = False
    """Whether the gateway reads what Prometheus answers."""

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod of smallest requests."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        if not self.reads_queries:
            return pick(available), "read_as_0", 0
        scored = [engine for engine in available if engine.report is not None and engine.report.ended is not None]
        if scored:
            return random_lowest(scored, _size, pick), "throughput", 0
        return pick(available), "no_report", 0


def _size(engine: EngineView) -> float:
    assert engine.report is not None, "only scored pods are compared"
    assert engine.report.ended is not None, "only scored pods are compared"
    return 2 * engine.report.ended.prompt_tokens + engine.report.ended.output_tokens
