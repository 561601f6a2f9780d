"""AIBrix ``least-latency``."""

from dataclasses import dataclass
from statistics import fmean

from policies._costs import lowest
from policies._protocol import Choice, Ended, FleetView, Pick, Policy, RequestView


@dataclass
class LeastLatency(Policy):
    """The pod with the least mean time of prefill and decode, of all its ended requests; the last one on a tie.

    Meant is the latency of a request of average size: ``prefill time / its mean prompt tokens * mean of all pods' +
    decode time / its mean output tokens * mean of all``, a pod whose mean is 0 taken for one of the average, 10 and 100
    tokens where all are. But the mean tokens are answers of Prometheus, of which 0 is read, for every pod, so sizes
    drop out; ``reads_queries`` says what it would do with them. The queue time is meant to be added, and never is:
    the metric is a histogram, and the plain value of a histogram is 0, too. Pods without the metrics are left out;
    without any the choice is random. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_latency.go``, ``pkg/metrics/metrics.go`` and
    ``types.go``, ``pkg/cache/cache_metrics.go`` at e3e10f9e4. Of the engines that AIBrix knows only vLLM has the times.
    Without Prometheus, and by default there is none, the choice is random; here there is one.
    Known pathologies: queues do not count, nor how large the requests were: who served long ones is avoided; all
    requests between two readings go to one pod, and its times answer for them only once they have ended.
    Checked against: decision tables from the source.
    """

    reads_queries: bool = False
    """Whether the gateway reads what Prometheus answers."""

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod of least expected latency."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        ended = {engine: engine.report.ended for engine in available if engine.report and engine.report.ended}
        if not ended:
            return pick(available), "no_report", 0
        if self.reads_queries:
            prompt = _mean([each.prompt_tokens for each in ended.values()], 10.0)
            output = _mean([each.output_tokens for each in ended.values()], 100.0)
            costs = {engine: _latency(each, prompt, output) for engine, each in ended.items()}
        else:
            costs = {engine: each.prefill_s + each.decode_s for engine, each in ended.items()}
        return lowest(list(ended), costs.__getitem__)[-1], "least_latency", 0


def _mean(values: list[float], otherwise: float) -> float:
    """Mean of those above 0."""
    return fmean([value for value in values if value > 0] or [otherwise])


def _latency(ended: Ended, prompt: float, output: float) -> float:
    """Seconds for a request of so many tokens."""
    prefill = ended.prefill_s / (ended.prompt_tokens or prompt) * prompt
    return prefill + ended.decode_s / (ended.output_tokens or output) * output
