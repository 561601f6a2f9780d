"""What each engine did when, of one replication: as binned frames for a chart, as a Chrome trace for Perfetto.

A trace (https://ui.perfetto.dev, "Trace Event Format") has one process an engine: its runs of equal steps and idle
stretches as slices, the parts of their time as slices inside, counters for what runs, waits and is held, and marks
where it fails, joins, leaves, or gets other weights. The log does not say where in a run of steps its prefill lies:
parts stand one behind the other, their lengths are those of the ledger. What runs is what a step computes: a request
whose decode waits for the prefill of others is in neither count.
"""

import json
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import polars as pl

from sim.errors import ScenarioError
from sim.log.account import SHARES
from sim.log.frames import Tables
from sim.report.region import Region, outside

COUNTS: Final = {"running": "decodes", "waiting": "waiting", "kv_used": "kv_used", "kv_cached": "kv_cached"}
BINS: Final = 120


def trace(tables: Tables, pair: int) -> dict[str, Any]:
    """The Chrome trace of one pair; times in microseconds from the first submission."""
    rows, start_s = _rows(tables, pair)
    events = [*_names(rows), *_marks(tables, pair, rows)]
    for row in rows.iter_rows(named=True):
        events += _slices(row, start_s)
        events += _counters(row, start_s)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def to_json(found: dict[str, Any]) -> str:
    """The trace as text, the same bytes for the same run."""
    return json.dumps(found, separators=(",", ":"), allow_nan=False) + "\n"


def binned(
    tables: Tables, pair: int, bins: int = BINS, *, regions: Sequence[Region | None] | None = None
) -> pl.DataFrame:
    """What engines did, bin by bin.

    ``engine``, ``start_s``, ``end_s`` of a bin from the first submission, engine-seconds of each line of the ledger in
    it, and time-weighted means of what runs, waits and is held; of KV over busy time alone, as nothing is written of
    an engine that idles. With the calibrated region of each engine, ``outside`` is the share of busy time outside it.
    """
    rows, start_s = _rows(tables, pair)
    rows = _cut(rows, tables.requests.filter(pl.col("pair") == pair))
    if regions is not None:
        rows = rows.with_columns(far=outside(rows, regions))
    last_s = float(rows["end_s"].to_numpy().max())
    edges = np.linspace(start_s, last_s, bins + 1)
    frames = []
    for (engine,), own in rows.group_by("engine", maintain_order=True):
        knots = np.append(own["start_s"].to_numpy()[:1], own["end_s"].to_numpy())
        length = np.diff(knots)
        spent = {name: own[f"{name}_s"].to_numpy() for name in SHARES}
        busy = (own["kind"] == "busy").to_numpy() * length
        held = {name: _count(own, name) * length for name in COUNTS} | {"busy": busy}
        if regions is not None:
            held["outside"] = own["far"].to_numpy() * length
        sums = {
            name: np.diff(np.interp(edges, knots, np.append(0.0, np.cumsum(values))))
            for name, values in (spent | held).items()
        }
        columns = {name: sums[name] for name in SHARES}
        for name in [each for each in held if each != "busy"]:
            over = np.diff(edges) if name in ("running", "waiting") else sums["busy"]
            columns[name] = np.divide(sums[name], over, out=np.full(bins, np.nan), where=over > 0)
        frames.append(
            pl.DataFrame({"start_s": edges[:-1] - start_s, "end_s": edges[1:] - start_s} | columns).select(
                pl.lit(engine).alias("engine"), pl.all().fill_nan(None)
            )
        )
    return pl.concat(frames)


def telling(bins: pl.DataFrame, most: int, changes: pl.DataFrame | None = None) -> dict[int, str]:
    """Engines that tell the story of a large fleet, and what each is; all of them, unnamed, where they are no more.

    By busy time the fullest, the emptiest and the one in the middle, then one that fails or leaves (of ``marks``) and
    the one with the longest queue; further ones evenly from the order of busy time.
    """
    idle = [name for name in SHARES if name.startswith("idle") or name == "down"]
    busy = pl.sum_horizontal(pl.col(*SHARES).exclude(*idle))
    found = bins.group_by("engine").agg(busy=busy.sum(), waiting=pl.col("waiting").max()).sort("busy", "engine")
    order = found["engine"].to_list()
    if len(order) <= most:
        return dict.fromkeys(sorted(order), "")
    longest = found.sort("waiting", "engine", descending=[True, False])["engine"][0]
    gone = [] if changes is None else changes.filter(pl.col("mark").is_in(["fail", "stop"]))["engine"].head(1).to_list()
    roles = [
        (order[-1], "fullest"),
        (order[0], "emptiest"),
        (order[len(order) // 2], "median"),
        *((engine, "fails or leaves") for engine in gone),
        (longest, "longest queue"),
    ]
    ranks = np.linspace(0, len(order) - 1, most).round().astype(int)
    chosen: dict[int, str] = {}
    for engine, role in [*roles, *((order[rank], "") for rank in ranks)]:
        if len(chosen) < most:
            chosen.setdefault(engine, role)
    return dict(sorted(chosen.items()))


def marks(tables: Tables, pair: int) -> pl.DataFrame:
    """``at_s`` from the first submission, ``engine`` (-1: all) and ``mark``: a word of the log, or of new weights.

    A flush of all engines at one instant is one mark, and part of that of the new weights where it comes with them.
    """
    rows, start_s = _rows(tables, pair)
    changed = tables.changes.filter(pl.col("pair") == pair).select(
        (pl.col("at_s") - start_s).alias("at_s"), "engine", pl.col("change").cast(pl.String).alias("mark")
    )
    updated = tables.steps.filter((pl.col("pair") == pair) & pl.col("updated_s").is_not_null()).select(
        (pl.col("updated_s") - start_s).alias("at_s"),
        pl.lit(-1, dtype=pl.Int64).alias("engine"),
        pl.lit("weights updated").alias("mark"),
    )
    is_flush = pl.col("mark") == "flush"
    flushed = changed.filter(is_flush)
    together = flushed.group_by("at_s").len().filter(pl.col("len") >= rows["engine"].n_unique()).select("at_s")
    single = flushed.join(together, on="at_s", how="anti")
    alone = together.join(updated, on="at_s", how="anti")
    of_all = alone.select("at_s", pl.lit(-1, dtype=pl.Int64).alias("engine"), pl.lit("flush").alias("mark"))
    both = updated.join(together, on="at_s", how="semi").with_columns(mark=pl.lit("weights updated, caches flushed"))
    plain = updated.join(together, on="at_s", how="anti")
    return pl.concat([changed.filter(~is_flush), single, of_all, both, plain]).sort("at_s", "engine", "mark")


def _rows(tables: Tables, pair: int) -> tuple[pl.DataFrame, float]:
    run = tables.replications.filter(pl.col("pair") == pair)
    if run.is_empty():
        raise ScenarioError(f"no pair {pair} is stored; there are {tables.replications.height}, from 0 on")
    rows = tables.engines.filter(pl.col("pair") == pair).sort("engine", "start_s")
    if rows.is_empty():
        raise ScenarioError(f"pair {pair} has no time: nothing was submitted")
    return rows, float(run["start_s"][0])


def _cut(rows: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """The rows, with an idle stretch cut where other engines begin or cease to have requests that wait.

    The account says how long of a stretch somebody waited elsewhere, not when: that is known from when each request
    reached its engine and was scheduled there.
    """
    length = pl.col("end_s") - pl.col("start_s")
    is_mixed = (pl.col("idle_queue_s") > 0) & (pl.col("idle_queue_s") < length) & (pl.col("kind") != "busy")
    mixed = rows.filter(is_mixed)
    if mixed.is_empty():
        return rows
    last_s = float(rows["end_s"].to_numpy().max())
    until = pl.coalesce("scheduled_s", "ended_s", pl.lit(last_s))
    came = requests.filter(pl.col("arrived_s").is_not_null() & (pl.col("engine") >= 0))
    queued = rows.filter(pl.col("waiting") > 0).select("engine", "start_s", "end_s")
    waits = (
        pl.concat([came.select("engine", start_s="arrived_s", end_s=until), queued]).filter(length > 0).sort("start_s")
    )
    pieces: list[dict[str, Any]] = []
    for (engine,), own in mixed.group_by("engine", maintain_order=True):
        others = _union(waits.filter(pl.col("engine") != engine).select("start_s", "end_s").rows())
        for row in own.iter_rows(named=True):
            found = list(_pieces(row, others))
            queue_s = sum(each["idle_queue_s"] for each in found)
            pieces += found if abs(queue_s - row["idle_queue_s"]) < 1e-6 else [row]
    return pl.concat([rows.filter(~is_mixed), pl.DataFrame(pieces, schema=rows.schema)]).sort("engine", "start_s")


def _union(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stretches that do not overlap, of stretches by their start."""
    found: list[tuple[float, float]] = []
    for start_s, end_s in spans:
        if found and start_s <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end_s))
        else:
            found.append((start_s, end_s))
    return found


def _pieces(row: dict[str, Any], waits: list[tuple[float, float]]) -> Iterator[dict[str, Any]]:
    """One idle row as rows of one kind of idleness each."""
    at, rest = row["start_s"], "idle_tail_s" if row["idle_tail_s"] else "idle_client_s"
    none = dict.fromkeys(("idle_queue_s", "idle_client_s", "idle_tail_s"), 0.0)
    for start_s, end_s in waits[max(0, bisect(waits, (at,)) - 1) :]:
        start_s, end_s = max(start_s, at), min(end_s, row["end_s"])
        if start_s >= row["end_s"]:
            break
        if end_s <= at:
            continue
        if start_s > at:
            yield row | none | {"start_s": at, "end_s": start_s, rest: start_s - at}
        yield row | none | {"start_s": start_s, "end_s": end_s, "idle_queue_s": end_s - start_s}
        at = end_s
    if at < row["end_s"]:
        yield row | none | {"start_s": at, "end_s": row["end_s"], rest: row["end_s"] - at}


def _count(rows: pl.DataFrame, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    column = rows[COUNTS[name]] + rows["chunks"] if name == "running" else rows[COUNTS[name]]
    return column.to_numpy().astype(np.float64)


def _names(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for engine in rows["engine"].unique().sort():
        yield {"ph": "M", "name": "process_name", "pid": engine, "args": {"name": f"engine {engine}"}}
        yield {"ph": "M", "name": "thread_name", "pid": engine, "tid": 0, "args": {"name": "steps"}}


def _slices(row: dict[str, Any], start_s: float) -> Iterator[dict[str, Any]]:
    """A row, and its parts one behind the other; both end on the same nanosecond."""
    begin = round(row["start_s"] * 1e9) - round(start_s * 1e9)
    parts = [(name, round(row[f"{name}_s"] * 1e9)) for name in SHARES if row[f"{name}_s"]]
    counts = ("steps", "chunk_tokens", "repeat_tokens", "decodes", "tokens")
    own = {name: row[name] for name in counts} if row["kind"] == "busy" else {}
    yield _slice(row, str(row["kind"]), begin, sum(length for _, length in parts), own)
    starts = accumulate((length for _, length in parts), initial=begin)
    for (name, length), at in zip(parts, starts, strict=False):
        yield _slice(row, name, at, length, {})


def _slice(row: dict[str, Any], name: str, at_ns: int, length_ns: int, args: dict[str, Any]) -> dict[str, Any]:
    found = {"ph": "X", "name": name, "pid": row["engine"], "tid": 0, "ts": at_ns / 1000, "dur": length_ns / 1000}
    return found | ({"args": args} if args else {})


def _counters(row: dict[str, Any], start_s: float) -> Iterator[dict[str, Any]]:
    at = (round(row["start_s"] * 1e9) - round(start_s * 1e9)) / 1000
    groups = {
        "requests": {"running": row["decodes"] + row["chunks"], "waiting": row["waiting"]},
        "KV blocks": {"used": row["kv_used"], "cached": row["kv_cached"]},
    }
    if row["kind"] == "busy":
        for name, values in groups.items():
            yield {"ph": "C", "name": name, "pid": row["engine"], "ts": at, "args": values}
    else:  # nothing of memory is written down while an engine idles
        yield {"ph": "C", "name": "requests", "pid": row["engine"], "ts": at, "args": {"running": 0, "waiting": 0}}


def _marks(tables: Tables, pair: int, rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    engines = rows["engine"].unique().sort().to_list()
    for at_s, engine, mark in marks(tables, pair).iter_rows():
        scope = {"pid": engines[0], "s": "g"} if engine < 0 else {"pid": engine, "s": "p"}
        yield {"ph": "i", "name": mark, "tid": 0, "ts": round(at_s * 1e9) / 1000, **scope}
