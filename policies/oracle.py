"""Placement with full knowledge, to show the distance to what is possible."""

from dataclasses import dataclass
from typing import ClassVar

from policies._costs import lowest
from policies._load import random_least
from policies._protocol import Choice, EngineView, FleetView, Pick, Policy, RequestView


@dataclass
class Oracle(Policy):
    """The available engine where the request is expected to end first, by what caches and queues hold at this instant.

    Expected are ``prefill_ms_per_token`` times the prompt tokens that wait there and those of this prompt that its
    cache lacks, and ``decode_ms_per_request`` times ``output_tokens`` times the requests that run or wait there, which
    this one will share its steps with. An engine whose pool is fuller than ``full_share`` is taken only if all are. Of
    equal ones those with fewest requests in flight, then uniform. It knows lengths of answers no more than others do.
    Cost O(engines) and a look into each engine's cache.

    A router gives this policy reports of age 0 and the exact caches; without a report an engine has the requests that
    the router counts, and an empty cache.

    Source: none; no router has this knowledge. The estimate is that of smg's ``least_load`` with exact tokens.
    Known pathologies: greedy: each request's own end is what counts, not what its placement does to later ones, so a
    policy that keeps sessions apart can beat it; the two times are a guess at the model that runs.
    Checked against: decision tables by hand.
    """

    prefill_ms_per_token: float = 0.05
    """Time that a prompt token takes to compute."""
    decode_ms_per_request: float = 0.1
    """Time that another request adds to each step."""
    output_tokens: int = 256
    """Length that every answer is taken for."""
    full_share: float = 0.95
    """Share of the KV pool in use above which an engine is full."""

    reads_content: ClassVar[bool] = True
    sees_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.refuse_negative("prefill_ms_per_token", "decode_ms_per_request", "output_tokens", "full_share")

    def choose(self, request: RequestView, fleet: FleetView, now: float, pick: Pick) -> Choice:
        """Choose the engine of the least expected time."""
        available = fleet.available
        if not available:
            return None, "no_engine", 0
        room = [engine for engine in available if engine.report is None or engine.report.kv_share <= self.full_share]
        cached = {engine: self._cached(engine, request) for engine in room or available}
        best = lowest(room or available, lambda engine: self._expected(engine, request.prompt_tokens - cached[engine]))
        engine = random_least(best, pick)
        return engine, "expected_first" if room else "all_full", cached[engine]

    def _cached(self, engine: EngineView, request: RequestView) -> int:
        return engine.cached_tokens(request.content) if engine.cached_tokens is not None else 0

    def _expected(self, engine: EngineView, new_tokens: int) -> float:
        """Milliseconds until the request would end there."""
        report = engine.report
        queued = (report.queued_tokens or 0) if report is not None else 0
        others = report.running + report.waiting if report is not None else engine.in_flight
        decode = others * self.output_tokens * self.decode_ms_per_request
        return (queued + new_tokens) * self.prefill_ms_per_token + decode
