"""Traces in CSV: Azure's and BurstGPT's, and the per-request times of a measured run.

Azure (2023, 2024): ``TIMESTAMP`` as a wall clock, ``ContextTokens``, ``GeneratedTokens``. BurstGPT: ``Timestamp`` in
seconds, ``Request tokens``, ``Response tokens``; newer files name sessions. Neither says what prompts share, and a
session of BurstGPT may or may not repeat its history: none is assumed. An answer of no token (a failed request in
BurstGPT) is taken as one token. The serving run is that of ``_serving_csv``.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from sim.workload._check import MOST_SECONDS
from sim.workload._rows import Row, read_table
from sim.workload._traces._call import Call, Format, Reading

_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_BURST = ("Timestamp", "Request tokens", "Response tokens")
_RUN = ("request_id", "input_toks", "output_toks", "queued_s")


def wall_clock_s(row: Row, name: str) -> float:
    """Seconds of a wall clock in ISO form; digits beyond microseconds count too."""
    text = row.text(name)
    whole, point, digits = text.removesuffix("Z").partition(".")
    zone = ""
    for sign in "+-":
        if sign in digits:
            digits, _, zone = digits.partition(sign)
            zone = sign + zone
    try:
        moment = datetime.fromisoformat(whole + zone)
        fraction = float(f"0.{digits}") if point else 0.0
    except ValueError:
        raise row.refuse(f"{name} must be a date and a time, not {text[:40]!r}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() + fraction


def read_azure(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file; time starts with the first."""
    start: float | None = None
    for row in read_table(path, _AZURE):
        now = wall_clock_s(row, "TIMESTAMP")
        start = now if start is None else start
        # Ten-millionths are all that the file has; the difference of two wall clocks as floats has noise below them.
        yield Call(row, _prompt(row, "ContextTokens"), _answer(row, "GeneratedTokens"), at_s=round(now - start, 7))


def read_burst(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file."""
    for row in read_table(path, _BURST):
        session = str(row.values["Session ID"]) if row.values.get("Session ID", "") != "" else ""
        at_s = row.number("Timestamp", MOST_SECONDS)
        took = row.number("Elapsed time", MOST_SECONDS) if row.values.get("Elapsed time", "") != "" else None
        yield Call(row, _prompt(row, _BURST[1]), _answer(row, _BURST[2]), session, at_s=at_s, took_s=took)


def read_run(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file."""
    for row in read_table(path, _RUN):
        yield Call(
            row, row.whole("input_toks", 1), row.whole("output_toks", 1), at_s=row.number("queued_s", MOST_SECONDS)
        )


def _prompt(row: Row, name: str) -> int:
    return max(1, row.whole(name, 0))


def _answer(row: Row, name: str) -> int:
    return max(1, row.whole(name, 0))


def _has(*names: str) -> Callable[[Row], bool]:
    return lambda row: set(names) <= row.values.keys()


AZURE = Format(
    "azure", "Azure LLM inference 2023 and 2024; CSV", _has(*_AZURE), read_azure, is_table=True, is_open=True
)
BURST = Format("burstgpt", "BurstGPT; CSV", _has(*_BURST), read_burst, is_table=True, is_open=True)
RUN = Format(
    "serving_run", "per-request times of a measured run; CSV", _has(*_RUN), read_run, is_table=True, is_open=True
)
