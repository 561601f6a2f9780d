"""The account of every engine-second of a replication, exact in ticks.

    prefill | reprefill | decode | host          of each busy row, by the cost model's own terms
    idle_queue | idle_client | idle_tail         of each idle row, see ``sim.log._idle``
    down                                         of each row between a failure and the restart

The eight sum to engines times the length of the run: there is no residual. Prefill time is divided by tokens into
first and repeated computation.
"""

from typing import Any

import numpy as np

from sim.cost._split import split
from sim.log._idle import Spans, Ticks, gaps, waits, window, with_queue
from sim.log.record import BUSY, DOWN, ENGINES, IDLE, Log

TAIL = 3
"""An idle row after the engine's last work; only here, the log itself knows ``IDLE``, ``BUSY`` and ``DOWN``."""
KINDS = ("idle", "busy", "down", "tail")
SHARES = ("prefill", "reprefill", "decode", "host", "idle_queue", "idle_client", "idle_tail", "down")
AFTER = "after_end"
"""Steps after the last answer, which are in no makespan; a line of the ledger takes them off."""
MECHANISMS = {
    "saved prefill": ("prefill",),
    "re-prefill": ("reprefill",),
    "batching": ("decode", "host"),
    "imbalance": ("idle_queue",),
    "router and clients": ("idle_client",),
    "tail idle": ("idle_tail", AFTER),
    "outages": ("down",),
}
"""What a change of routing can gain or lose by, and the shares that it shows in; each share is in one of them."""


def account(log: Log) -> dict[str, Ticks]:
    """Columns of the engines table with its idle rows and the eight shares, by engine and time."""
    rows = log.numpy("engines")
    mask = rows["kind"] == BUSY
    busy = {name: column[mask] for name, column in rows.items()}
    down = _down_rows(log, rows)
    idle = _idle_rows(log, *(Spans(each["engine"], each["start"], each["end"]) for each in (busy, down)))
    parts = (busy | _busy_shares(log.costs, busy), down, idle)

    def column(name: str) -> Ticks:
        return np.concatenate([part.get(name, np.zeros_like(part["start"])) for part in parts])

    order = np.lexsort((column("start"), column("engine")))
    return {name: column(name)[order] for name in ENGINES + SHARES}


def _busy_shares(costs: list[Any], busy: dict[str, Ticks]) -> dict[str, Ticks]:
    shares = {name: np.zeros_like(busy["start"]) for name in ("prefill", "decode", "host")}
    alike: dict[int, list[int]] = {}
    for engine, coefficients in enumerate(costs):
        alike.setdefault(id(coefficients), []).append(engine)
    for engines in alike.values():
        mask = np.isin(busy["engine"], engines) if len(alike) > 1 else slice(None)
        parts = split(costs[engines[0]], {name: column[mask] for name, column in busy.items()})
        for share, part in zip(shares.values(), parts, strict=True):
            share[mask] = part
    repeated = busy["repeat_tokens"] / np.maximum(busy["chunk_tokens"], 1)
    reprefill = np.rint(shares["prefill"] * repeated).astype(np.int64)
    return {**shares, "prefill": shares["prefill"] - reprefill, "reprefill": reprefill}


def _down_rows(log: Log, rows: dict[str, Ticks]) -> dict[str, Ticks]:
    """Stretches in which an engine is down, as far as they lie in the account."""
    first, last = window(log)
    start, end = np.clip(rows["start"], first, last), np.clip(rows["end"], first, last)
    mask = (rows["kind"] == DOWN) & (start < end)
    down = {"engine": rows["engine"], "start": start, "end": end, "kind": rows["kind"], "down": end - start}
    return {name: column[mask] for name, column in down.items()}


def _idle_rows(log: Log, busy: Spans, down: Spans) -> dict[str, Ticks]:
    first, last = window(log)
    idle, is_tail = gaps(busy, down, len(log.engine_names), first, last)
    queue = with_queue(idle, waits(log, last))
    rest = idle.end - idle.start - queue
    return {
        "engine": idle.engine,
        "start": idle.start,
        "end": idle.end,
        "kind": np.where(is_tail, TAIL, IDLE),
        "idle_queue": queue,
        "idle_client": np.where(is_tail, 0, rest),
        "idle_tail": np.where(is_tail, rest, 0),
    }
