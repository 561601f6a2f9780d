"""From the logs of many replications to polars frames: one frame a table, ``pair`` first, seconds instead of ticks.

A time that never came is null. Columns keep the names of ``sim.log.record`` with ``_s`` behind those that were ticks;
``status``, ``reason``, ``branch`` and ``kind`` become words; what was not recorded of a decision is null; durations are
taken in ticks before they become floats. The engines table gains its idle rows and the eight shares of
``sim.log.account``; the table ``replications`` has one row a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import polars as pl

from sim.log._idle import window
from sim.log.account import KINDS, SHARES, account
from sim.log.record import CHANGE, REASON, STATUS, Log

TIMES = {
    "requests": ("submitted", "arrived", "scheduled", "first_token", "ended"),
    "decisions": ("at", "waited", "service", "signal_age"),
    "groups": ("arrived", "ended"),
    "engines": ("start", "end", *SHARES),
    "steps": ("start", "end", "updated"),
    "changes": ("at",),
}
Columns = dict[str, np.ndarray[Any, np.dtype[np.int64]]]


@dataclass(frozen=True, slots=True)
class Tables:
    """What was logged in some replications of one cell."""

    requests: pl.DataFrame
    """One row a request; besides the log's columns ``ttft_s`` and ``e2e_s``, both from the client's submission."""
    decisions: pl.DataFrame
    """One row a choice of the router."""
    groups: pl.DataFrame
    """One row a group; besides the log's columns ``completion_s``, from its arrival to its last session's end."""
    engines: pl.DataFrame
    """One row a run of equal steps or an idle stretch; ``kind``: busy, idle, tail (idle after the last work), down."""
    steps: pl.DataFrame
    """One row a rollout step; none where no trainer makes any."""
    changes: pl.DataFrame
    """One row a change of the fleet; none where it stays as it is."""
    replications: pl.DataFrame
    """One row a pair: ``engines``, ``start_s``, ``makespan_s``, ``prefill_tokens_ideal``, ``deadline_s``,
    ``router_cores``; ``constant_signals``: those that every report gave the same value, by name, with commas."""


NAMES = tuple(field.name for field in fields(Tables))


def read_logs(logs: Sequence[Log], pairs: Sequence[int]) -> Tables:
    """The frames of these logs; ``pairs`` names the replication of each."""
    tick_s = logs[0].tick_s
    branches = [
        pl.Series("branch", log.branches, dtype=pl.String).gather(log.numpy("decisions")["branch"]) for log in logs
    ]
    return Tables(
        requests=_frame(
            "requests",
            [log.numpy("requests") for log in logs],
            pairs,
            tick_s,
            status=_word("status", STATUS),
            reason=_word("reason", REASON),
            ttft_s=_since("submitted", "first_token", tick_s),
            e2e_s=_since("submitted", "ended", tick_s),
        ),
        decisions=_frame(
            "decisions",
            [log.numpy("decisions") for log in logs],
            pairs,
            tick_s,
            branch=pl.concat(branches),
            **{name: _recorded(name) for name in ("best_engine", "regret_tokens", "regret_work")},
        ),
        groups=_frame(
            "groups",
            [log.numpy("groups") for log in logs],
            pairs,
            tick_s,
            completion_s=_since("arrived", "ended", tick_s),
        ),
        engines=_frame("engines", [account(log) for log in logs], pairs, tick_s, kind=_word("kind", KINDS)),
        steps=_frame("steps", [log.numpy("steps") for log in logs], pairs, tick_s),
        changes=_frame(
            "changes", [log.numpy("changes") for log in logs], pairs, tick_s, change=_word("change", CHANGE)
        ),
        replications=_replications(logs, pairs),
    )


def concat(parts: Sequence[Tables]) -> Tables:
    """Tables of several runs of ``read_logs`` one after the other."""
    return Tables(**{name: pl.concat([getattr(part, name) for part in parts], rechunk=True) for name in NAMES})


def _frame(
    table: str, parts: Sequence[Columns], pairs: Sequence[int], tick_s: float, **derived: pl.Expr | pl.Series
) -> pl.DataFrame:
    """Columns of several logs, times in seconds; a derived column stands in place of its like, or at the end."""
    rows = [len(next(iter(part.values()))) for part in parts]
    pair = np.repeat(np.asarray(pairs, dtype=np.int64), rows)
    columns = [pl.Series(name, _joined([part[name] for part in parts])) for name in parts[0]]
    frame = pl.DataFrame([pl.Series("pair", pair), *columns])
    seconds = {name: _seconds(name, tick_s) for name in TIMES[table]}
    kept = [derived.pop(name, seconds.get(name, pl.col(name))) for name in frame.columns]
    return frame.select(kept, **derived)


def _joined(columns: Sequence[np.ndarray[Any, np.dtype[np.int64]]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """One after the other; a single one as it is, for a large log has no room to spare."""
    return np.ascontiguousarray(columns[0]) if len(columns) == 1 else np.concatenate(columns)


def _replications(logs: Sequence[Log], pairs: Sequence[int]) -> pl.DataFrame:
    first = [window(log)[0] for log in logs]
    last = [int(log.numpy("requests")["ended"].max(initial=0)) for log in logs]
    return pl.DataFrame(
        {
            "pair": pl.Series(pairs, dtype=pl.Int64),
            "engines": pl.Series([len(log.engine_names) for log in logs], dtype=pl.Int64),
            "start_s": pl.Series([at * logs[0].tick_s for at in first], dtype=pl.Float64),
            "makespan_s": pl.Series(
                [max(end - start, 0) * logs[0].tick_s for start, end in zip(first, last, strict=True)],
                dtype=pl.Float64,
            ),
            "prefill_tokens_ideal": pl.Series([log.prefill_ideal for log in logs], dtype=pl.Int64),
            "deadline_s": pl.Series([log.deadline_s for log in logs], dtype=pl.Float64),
            "router_cores": pl.Series([log.router_cores for log in logs], dtype=pl.Int64),
            "constant_signals": pl.Series([_constant(log) for log in logs], dtype=pl.String),
        }
    )


def _constant(log: Log) -> str:
    return ",".join(sorted(name for name, moved in log.signals.items() if not moved))


def _seconds(name: str, tick_s: float) -> pl.Expr:
    return pl.when(pl.col(name) >= 0).then(pl.col(name) * tick_s).alias(f"{name}_s")


def _recorded(name: str) -> pl.Expr:
    return pl.when(pl.col(name) >= 0).then(pl.col(name))


def _since(start: str, end: str, tick_s: float) -> pl.Expr:
    came = (pl.col(start) >= 0) & (pl.col(end) >= 0)
    return pl.when(came).then((pl.col(end) - pl.col(start)) * tick_s)


def _word(name: str, words: Sequence[str]) -> pl.Expr:
    return pl.col(name).replace_strict(range(len(words)), words, return_dtype=pl.Enum(words))
