"""AIBrix ``least-latency``."""

from dataclasses import dataclass
from statistics import fmean

from policies._costs import lowest
from policies._protocol import Choice, Ended, FleetView, Pick, Policy, RequestView


@dataclass
class LeastLatency(Policy):
    """The pod of least expected latency for a request of average size, by its ended requests; the last one on a tie.

    ``prefill time / its mean prompt tokens * mean of all pods' + decode time / its mean output tokens * mean of all``.
    A pod whose mean is 0 is taken for one of the average; where all are, 10 and 100 tokens. Pods without the metrics
    are left out; without any the choice is random. Cost O(pods), no state.

    The queue time is meant to be added, and never is: the metric is a histogram, and what is read of it is the plain
    value, which is 0 for histograms.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_latency.go`` and ``pkg/metrics/types.go`` at
    e3e10f9e4.
    Known pathologies: queues do not count; all requests between two readings go to one pod, and its times answer for
    them only once they have ended.
    Checked against: decision tables from the source.
    """

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the pod of least expected latency."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        ended = {engine: engine.report.ended for engine in available if engine.report and engine.report.ended}
        if not ended:
            return pick(available), "no_report", 0
        prompt = _mean([each.prompt_tokens for each in ended.values()], 10.0)
        output = _mean([each.output_tokens for each in ended.values()], 100.0)
        return lowest(list(ended), lambda engine: _latency(ended[engine], prompt, output))[-1], "least_latency", 0


def _mean(values: list[float], otherwise: float) -> float:
    """Mean of those above 0."""
    return fmean([value for value in values if value > 0] or [otherwise])


def _latency(ended: Ended, prompt: float, output: float) -> float:
    """Seconds for a request of so many tokens."""
    prefill = ended.prefill_s / (ended.prompt_tokens or prompt) * prompt
    return prefill + ended.decode_s / (ended.output_tokens or output) * output
