"""AIBrix ``least-busy-time``."""

from dataclasses import dataclass

from policies._costs import lowest
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class LeastBusyTime(Policy):
    """The pod whose GPU was busy for the smallest share of the time, first on a tie; without the metric a random one.

    At the commit nothing collects the metric (``gpu_busy_time_ratio`` has no source), so the choice is always random;
    ``has_metric`` says what it would do if something did. Cost O(pods), no state.

    Source: vllm-project/aibrix ``pkg/plugins/gateway/algorithms/least_busy_time.go`` and ``pkg/metrics/metrics.go`` at
    e3e10f9e4.
    Known pathologies: it is random, silently; with the metric, busy is 1 for every pod of a loaded pool, and the first
    of them gets everything.
    Checked against: decision tables from the source.
    """

    has_metric: bool = False
    """Whether somebody collects the busy share."""

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the least busy pod."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        scored = [each for each in available if self.has_metric and busy_share(each) is not None]
        if scored:
            return lowest(scored, lambda each: busy_share(each) or 0.0)[0], "least_busy_time", 0
        return pick(available), "no_report", 0


def busy_share(engine: EngineView) -> float | None:
    """What the pod last said, if it did."""
    return engine.report.busy_share if engine.report is not None else None
