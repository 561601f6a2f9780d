"""The least expected wait, as smg 1.13.0 estimates it."""

from dataclasses import dataclass
from typing import Literal

from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView
from policies.smg._expected_wait import ExpectedWait


@dataclass
class LeastLoad(Policy):
    """Lowest ``(queued_tokens + credit_tokens) / throughput + 0.15 * k / (1 - k)`` seconds, ties uniform.

    queued_tokens: uncached tokens that wait, as reported, or else reported waiting requests times
    ``mean_prefill_tokens``. credit_tokens: what this router sent there since the engine's last report,
    ``mean_prefill_tokens`` each over HTTP, the prompt's tokens over gRPC. throughput: the reported rate, else
    ``default_throughput``. k: reported share of KV, at most 0.999. An engine without a report while others have one
    scores its requests in flight times ``mean_prefill_tokens`` over the mean rate. **No reports at all: fewest
    requests in flight, ties uniform.** With ``max_waiting_requests``, engines whose reported queue and requests sent
    since reach it are skipped, and if all do the request is refused. Cost O(engines).

    Source: smg-project/smg ``model_gateway/src/policies/least_load.rs`` at f8daa8835. Left out: that the router makes a
    refused request wait for a place.
    Known pathologies: no prefix affinity; over HTTP a long prompt weighs as much as a short one; without engine reports
    it is a count of requests.
    Checked against: recorded decisions and counts of smg 1.13.0 without reports; decision tables from the source with
    reports.
    """

    kv_pressure_weight: float = 0.15
    """Seconds that the KV term weighs."""
    mean_prefill_tokens: int = 1024
    """Tokens that a request is taken for where its own are not known."""
    default_throughput: float = 2000.0
    """Tokens per second of an engine that does not report its rate; 0 means the default as well."""
    max_waiting_requests: int = 0
    """Waiting requests from which an engine is skipped; 0: no limit."""
    connection: Literal["http", "grpc"] = "http"
    """Over gRPC the router knows a prompt's tokens, over HTTP it does not."""

    arbitrary_order = True
    may_refuse = True

    def __post_init__(self) -> None:
        self.refuse_negative("kv_pressure_weight", "mean_prefill_tokens", "default_throughput", "max_waiting_requests")
        self._waits = ExpectedWait(self.kv_pressure_weight, self.mean_prefill_tokens, self.default_throughput)

    def left(self, engine: EngineView, fleet: FleetView) -> None:
        """Its report and credit are gone."""
        self._waits.forget(engine)

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the engine of lowest expected wait."""
        candidates = fleet.available
        if not candidates:
            return None, "no_engine", 0
        if self.max_waiting_requests:
            candidates = [engine for engine in candidates if self._has_room(engine)]
            if not candidates:
                return None, "at_the_cap", 0
        tokens = request.prompt_tokens if self.connection == "grpc" else None
        return self._waits.choose(candidates, tokens, pick), "least_wait", 0

    def _has_room(self, engine: EngineView) -> bool:
        """Whether the engine's queue is below the cap; without a report nothing speaks against it."""
        report = engine.report
        if report is None:
            return True
        return report.waiting + self._waits.credit(engine, report)[2] < self.max_waiting_requests
