"""AIBrix ``least-utilization``."""

from dataclasses import dataclass
from typing import Literal

from policies._costs import random_lowest
from policies._protocol import Choice, FleetView, Pick, Policy, RequestView
from policies.aibrix.least_busy_time import busy_share


@dataclass
class LeastUtilization(Policy):
    """The pod of lowest engine utilization, ties uniform; without the metric a random one.

    Of the engines that AIBrix knows only xLLM has the metric: over vLLM and SGLang the choice is random. Cost O(pods),
    no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_util.go`` and ``pkg/metrics/metrics.go`` at
    e3e10f9e4. The utilization is taken to be the share of the time in which the engine computed.
    Known pathologies: over vLLM it is random, silently; where it is known it saturates at 1.
    Checked against: decision tables from the source.
    """

    engine: Literal["vllm", "sglang", "xllm"] = "vllm"
    """What the pods run."""

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the least utilized pod."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        scored = [each for each in available if self.engine == "xllm" and busy_share(each) is not None]
        if scored:
            return random_lowest(scored, lambda each: busy_share(each) or 0.0, pick), "least_utilization", 0
        return pick(available), "no_report", 0
