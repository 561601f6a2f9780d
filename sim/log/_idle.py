"""Idle time of engines, found from what is missing between their busy rows.

The account runs from the first submission to the last end (or to the end of the last step, which asynchronous
scheduling may compute for nobody). An idle stretch of an engine is divided at instants:

    queue    another engine has waiting requests meanwhile
    tail     none has, and this engine has done its last work
    client   none has, and work will come: it waits for clients

An engine waits-with-requests from a request's arrival to its first admission, and during its rows with ``waiting``. An
engine that never works has its tail from the start. All arithmetic is on integer ticks, so nothing is lost.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.errors import LawError
from sim.log.record import BUSY, Log

Ticks = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches of time, each of one engine."""

    engine: Ticks
    start: Ticks
    end: Ticks

    def keep(self, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> "Spans":
        return Spans(self.engine[mask], self.start[mask], self.end[mask])


def window(log: Log) -> tuple[int, int]:
    """First submission, and last end of a request or a step; (0, 0) for an empty log."""
    requests, engines = log.numpy("requests"), log.numpy("engines")
    submitted = requests["submitted"][requests["submitted"] >= 0]
    if not submitted.size:
        return 0, 0
    ends = np.concatenate([submitted, requests["ended"], engines["end"][engines["kind"] == BUSY]])
    return int(submitted.min()), int(ends.max())


def gaps(
    busy: Spans, down: Spans, engines: int, first: int, last: int
) -> tuple[Spans, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Stretches of [first, last] in which an engine is neither busy nor down; which of them follow its last work."""
    every = np.arange(engines, dtype=np.int64)
    engine = np.concatenate([every, busy.engine, down.engine, every])
    start = np.concatenate([np.full(engines, first), busy.start, down.start, np.full(engines, last)])
    end = np.concatenate([np.full(engines, first), busy.end, down.end, np.full(engines, last)])
    order = np.lexsort((end, start, engine))
    engine, start, end = engine[order], start[order], end[order]
    same = engine[1:] == engine[:-1]
    if (overlap := same & (start[1:] < end[:-1])).any():
        at = int(np.flatnonzero(overlap)[0])
        raise LawError(f"engine {engine[at]} starts a step at {start[at + 1]} before the one until {end[at]} ends")
    idle = same & (start[1:] > end[:-1])
    spans = Spans(engine[:-1][idle], end[:-1][idle], start[1:][idle])
    last_work = np.full(engines, first)
    np.maximum.at(last_work, busy.engine, busy.end)
    return spans, spans.start >= last_work[spans.engine]


def waits(log: Log, last: int) -> Spans:
    """When each engine has waiting requests; stretches may overlap."""
    requests, rows = log.numpy("requests"), log.numpy("engines")
    never = np.where(requests["ended"] >= 0, requests["ended"], last)
    until = np.where(requests["scheduled"] >= 0, requests["scheduled"], never)
    came = (requests["arrived"] >= 0) & (requests["engine"] >= 0) & (until > requests["arrived"])
    queued = rows["waiting"] > 0
    return Spans(
        np.concatenate([requests["engine"][came], rows["engine"][queued]]),
        np.concatenate([requests["arrived"][came], rows["start"][queued]]),
        np.concatenate([until[came], rows["end"][queued]]),
    )


def covered(start: Ticks, end: Ticks, spans: Spans) -> Ticks:
    """Ticks of each of ``spans`` that lie in the union of the stretches ``[start, end)``."""
    if not start.size:
        return np.zeros_like(spans.start)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.append(True, start[1:] > reach[:-1])
    start, end = start[opens], reach[np.append(opens[1:], True)]
    before = np.concatenate([[0], np.cumsum(end - start)])

    def until(instant: Ticks) -> Ticks:
        index = np.searchsorted(start, instant, side="right")
        unfinished = np.maximum(end[index - 1] - instant, 0)
        return np.where(index > 0, before[index] - unfinished, 0)

    return np.asarray(until(spans.end) - until(spans.start), dtype=np.int64)


def with_queue(idle: Spans, waiting: Spans) -> Ticks:
    """Ticks of each idle stretch during which another engine has waiting requests."""
    result = covered(waiting.start, waiting.end, idle)
    if not result.any():
        return result
    # An idle engine has no admissible request of its own, so "any engine" nearly always is "another engine".
    # Laid end to end on one axis, the engines answer in one pass whether that holds; where it does not, look closer.
    latest = max([int(x.max()) + 1 for x in (idle.end, waiting.end) if x.size], default=0)
    shifted = Spans(idle.engine, idle.start + idle.engine * latest, idle.end + idle.engine * latest)
    offset = waiting.engine * latest
    own = covered(waiting.start + offset, waiting.end + offset, shifted) > 0
    for engine in np.unique(idle.engine[own]):
        mine, others = idle.engine == engine, waiting.engine != engine
        result[mine] = covered(waiting.start[others], waiting.end[others], idle.keep(mine))
    return result
