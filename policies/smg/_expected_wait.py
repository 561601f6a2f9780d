"""Seconds until an engine would have drained its queue, as smg estimates them from polled reports."""

from collections.abc import Sequence

from policies._costs import random_lowest
from policies._load import random_least
from policies._protocol import EngineView, Pick, Report

_FULLEST = 0.999


class ExpectedWait:
    """``(queued tokens + credit) / throughput + weight * k / (1 - k)`` of each engine, k being its share of KV in use.

    Queued tokens are those reported, or waiting requests times a mean prefill; the credit is what was sent there since
    its last report. An engine without a report among reporting ones is taken for its own requests in flight at the
    mean throughput of the others. Without any report, requests in flight are compared.
    """

    def __init__(self, kv_pressure_weight: float, mean_prefill_tokens: float, default_throughput: float) -> None:
        self._weight = kv_pressure_weight
        self._prefill = max(mean_prefill_tokens, 1)
        self._throughput = default_throughput or 2000.0
        self._sent: dict[EngineView, tuple[float, float, int]] = {}
        """By engine: time of the report that the credit counts from, tokens, requests."""

    def choose(self, engines: Sequence[EngineView], tokens: float | None, pick: Pick) -> EngineView:
        """The engine of lowest wait, ties uniform; it is credited with the request's tokens (None: a mean prefill)."""
        reports = [engine.report for engine in engines if engine.report is not None]
        if reports:
            nominal = self._nominal(reports)
            engine = random_lowest(engines, lambda each: self._wait(each, nominal), pick)
        else:
            engine = random_least(engines, pick)
        if engine.report is not None:
            at, credit, requests = self.credit(engine, engine.report)
            self._sent[engine] = (at, credit + (self._prefill if tokens is None else tokens), requests + 1)
        return engine

    def credit(self, engine: EngineView, report: Report) -> tuple[float, float, int]:
        """Time of the report, and the tokens and requests sent since."""
        sent = self._sent.get(engine)
        return sent if sent is not None and sent[0] == report.at else (report.at, 0.0, 0)

    def forget(self, engine: EngineView) -> None:
        """The engine is gone."""
        self._sent.pop(engine, None)

    def _nominal(self, reports: list[Report]) -> float:
        """Mean of the rates that are known and positive."""
        rates = [report.tokens_per_s for report in reports if report.tokens_per_s]
        return sum(rates) / len(rates) if rates else self._throughput

    def _wait(self, engine: EngineView, nominal: float) -> float:
        report = engine.report
        if report is None:
            return engine.in_flight * self._prefill / nominal
        queued = report.queued_tokens or report.waiting * self._prefill
        share = min(max(report.kv_share, 0.0), _FULLEST)
        drain = (queued + self.credit(engine, report)[1]) / (report.tokens_per_s or self._throughput)
        return drain + self._weight * share / (1 - share)
