"""From measured requests to the metrics of ``sim.metrics``, by the same expressions; from a simulated log to requests.

What a results file lacks stands in the trace: session, turn and group of a request, its deadline, when its group may
start. Metrics that need more than requests (busy and idle time of engines, decisions of the router, rollout steps)
have no measured value; ``NOT_MEASURED`` says why.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from sim.campaign._results import SKEW_S, TIMES, Run
from sim.errors import ScenarioError
from sim.log.frames import Tables
from sim.metrics import METRICS, evaluate
from sim.moves import with_moves

_WHY: Final = {
    "decisions": "the router's decisions are in no results file",
    "engines": "busy and idle time of engines is in no results file",
    "steps": "rollout steps are in no results file",
    "changes": "changes of the fleet are in no results file",
}
_NEEDS_ENGINE: Final = "busy time of engines is in no results file"
NOT_MEASURED: Final = {
    name: _NEEDS_ENGINE if name.startswith("load_busy") else _WHY[metric.source]
    for name, metric in METRICS.items()
    if metric.source in _WHY or name.startswith("load_busy")
} | dict.fromkeys(
    ("prefix_hit_rate_reported", "queries_per_prompt_token", "aborted_tokens_share", "untrained_tokens_share"),
    "counters of the product, or of a trainer, are in no results file",
)
"""Metrics that cannot be computed from a measured log, and why."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a trace fixes of the requests of a pair."""

    requests: pl.DataFrame
    """One row a request: rid, session, group, turn, is_last, parent, prompt_tokens, output_len, max_tokens,
    after_rid (the request that must have ended before, if any), starts_at (of its group, if at a time), deadline_s."""
    ideal_tokens: int
    """Prompt tokens that one unlimited cache shared by all engines would compute, of the pair."""


@lru_cache(maxsize=256)
def sent(trace: Path, ideal_tokens: int) -> Sent:
    """The requests of a sealed trace."""
    rows = []
    session_of: dict[int, int] = {}
    with trace.open(encoding="utf-8") as file:
        next(file)
        for line in file:
            row = json.loads(line)
            arrive = row["arrive"]
            session_of[row["rid"]] = row["session"]
            is_child = row["turn"] == 0 and arrive["mode"] == "after"
            rows.append(
                (
                    row["rid"],
                    row["session"],
                    row["group"],
                    row["turn"],
                    session_of[arrive["after_rid"]] if is_child else None,
                    row["input_len"],
                    row["output_len"],
                    row["max_tokens"],
                    arrive.get("after_rid"),
                    arrive.get("t"),
                    row.get("deadline_s"),
                )
            )
    columns = {
        "rid": pl.Int64,
        "session": pl.Int64,
        "group": pl.Int64,
        "turn": pl.Int64,
        "forked_from": pl.Int64,
        "prompt_tokens": pl.Int64,
        "output_len": pl.Int64,
        "max_tokens": pl.Int64,
        "after_rid": pl.Int64,
        "starts_at": pl.Float64,
        "deadline_s": pl.Float64,
    }
    frame = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        is_last=(pl.col("turn") == pl.col("turn").max().over("session")).cast(pl.Int64),
        parent=pl.col("forked_from").max().over("session").fill_null(-1),
    )
    return Sent(frame.drop("forked_from"), ideal_tokens)


def same_requests(run: Run, known: Sent) -> None:
    """Refuse a run whose requests are not those of the trace."""
    rids = set(run.requests["rid"].to_list())
    wanted = set(known.requests["rid"].to_list())
    if strange := rids - wanted:
        raise ScenarioError(f"{run.path}: request {min(strange)} is not in the trace of pair {run.header.pair}")
    if missing := wanted - rids:
        raise ScenarioError(f"{run.path}: request {min(missing)} of the trace is missing, {len(missing)} in all")


def too_early(run: Run, known: Sent) -> int:
    """Requests that were sent before the one that they follow had ended, by more than clocks may differ."""
    ended = run.requests.select(after_rid="rid", ended_s="last_s")
    follows = known.requests.select("rid", "after_rid").drop_nulls().join(ended, on="after_rid")
    both = run.requests.join(follows, on="rid")
    return int((both["arrive_s"] < both["ended_s"] - SKEW_S).sum())


def measured(runs: Sequence[tuple[Run, Sent]], warm_up_s: float | None = None) -> pl.DataFrame:
    """Metrics of the runs of one arm: one row a pair, ``pair`` first, those that can be computed."""
    requests = pl.concat([_requests(run, known) for run, known in runs])
    groups = _groups(requests)
    bounds = requests.group_by("pair", maintain_order=True).agg(
        start_s=pl.col("submitted_s").min(),
        makespan_s=pl.col("ended_s").max() - pl.col("submitted_s").min(),
    )
    engines = pl.DataFrame(
        [(run.header.pair, run.header.engines, known.ideal_tokens) for run, known in runs],
        schema={"pair": pl.Int64, "engines": pl.Int64, "prefill_tokens_ideal": pl.Int64},
        orient="row",
    )
    replications = bounds.join(engines, on="pair", maintain_order="left")
    moved = with_moves(requests)
    if warm_up_s:
        ends = replications.select("pair", from_s=pl.col("start_s") + warm_up_s)
        moved = moved.join(ends, on="pair").filter(pl.col("submitted_s") >= pl.col("from_s")).drop("from_s")
        groups = groups.join(ends, on="pair").filter(pl.col("arrived_s") >= pl.col("from_s")).drop("from_s")
        left = pl.max_horizontal(pl.col("makespan_s") - warm_up_s, 0.0)
        replications = replications.with_columns(makespan_s=left, start_s=pl.col("start_s") + warm_up_s)
    sources = {
        "requests": moved.join(replications.select("pair", "start_s", "makespan_s"), on="pair").with_columns(
            pl.when(pl.col("status") == "finished").then(pl.col(name)).alias(name) for name in ("ttft_s", "e2e_s")
        ),
        "groups": groups,
        "loads": _loads(moved, engines),
        "replications": replications,
    }
    values = evaluate(replications.select("pair"), sources, leave_out=NOT_MEASURED)
    return values.with_columns(pl.lit(None, pl.Float64).alias(name) for name in _unknown(runs) if name in values)


def _unknown(runs: Sequence[tuple[Run, Sent]]) -> list[str]:
    """Metrics whose fields some run did not measure: a sum over what is there would be wrong."""
    needs = {
        "first_s": ("ttft_p50_s", "ttft_p95_s", "tpot_mean_s"),
        "cached": ("prefix_hit_rate", "prefill_tokens", "reprefilled_tokens", "load_tokens"),
        "recomputed": ("recomputed_tokens", "prefill_tokens", "load_tokens"),
        "preempted": ("preemptions",),
        "engine": ("load_requests", "load_tokens", "moved_turns_rate", "reprefilled_tokens"),
    }
    found: list[str] = []
    done = pl.col("status") == "finished"
    for field, metrics in needs.items():
        if any(run.requests.filter(done)[field].null_count() for run, _ in runs):
            found += [name for name in METRICS if any(name.startswith(each) for each in metrics)]
    return list(dict.fromkeys(found))


def _requests(run: Run, known: Sent) -> pl.DataFrame:
    """A run in the columns of the requests table."""
    names = sorted(set(run.requests["engine"].drop_nulls().to_list()), key=_natural)
    if len(names) > run.header.engines:
        raise ScenarioError(
            f"{run.path}: {len(names)} engines answered, the header says {run.header.engines} are there"
        )
    index = {name: at for at, name in enumerate(names)}
    joined = run.requests.join(known.requests, on="rid", how="inner", maintain_order="left")
    prefill = pl.col("input_tokens") - pl.col("cached") + pl.col("recomputed")
    was_admitted = pl.col("prefill_s").is_not_null() | pl.col("first_s").is_not_null()
    return joined.select(
        pl.lit(run.header.pair, pl.Int64).alias("pair"),
        pl.col("rid").alias("request"),
        "session",
        "group",
        "turn",
        "is_last",
        "parent",
        pl.lit(0, pl.Int64).alias("attempt"),
        pl.col("engine").replace_strict(index, default=None, return_dtype=pl.Int64).fill_null(-1),
        pl.col("arrive_s").alias("submitted_s"),
        pl.col("queue_s").alias("arrived_s"),
        # An engine that tells no start of prefill has admitted what it gave a token of.
        pl.coalesce("prefill_s", pl.when(was_admitted).then(pl.col("first_s"))).alias("scheduled_s"),
        pl.col("first_s").alias("first_token_s"),
        pl.col("last_s").alias("ended_s"),
        pl.col("input_tokens").alias("prompt_tokens"),
        pl.when(was_admitted).then(pl.col("cached")).otherwise(0).alias("cached_tokens"),
        "output_tokens",
        pl.when(was_admitted).then(prefill).otherwise(0).alias("prefill_tokens"),
        pl.col("recomputed").alias("recomputed_tokens"),
        pl.col("preempted").alias("preemptions"),
        "status",
        "starts_at",
        "deadline_s",
        (pl.col("first_s") - pl.col("arrive_s")).alias("ttft_s"),
        (pl.col("last_s") - pl.col("arrive_s")).alias("e2e_s"),
    )


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isdigit() else (1, 0, name)


def _groups(requests: pl.DataFrame) -> pl.DataFrame:
    """One row a pair and group; a group arrives when the trace says, on the clock of the run."""
    first = (pl.col("submitted_s") - pl.col("starts_at")).min().over("pair")
    done = (pl.col("status") == "finished") & (pl.col("is_last") == 1)
    frame = requests.with_columns(zero_s=first)
    return (
        frame.group_by("pair", "group", maintain_order=True)
        .agg(
            arrived_s=pl.coalesce((pl.col("zero_s") + pl.col("starts_at")).min(), pl.col("submitted_s").min()),
            ended_s=pl.col("ended_s").max(),
            sessions=pl.col("session").n_unique(),
            finished=pl.col("session").filter(done).n_unique(),
        )
        .with_columns(completion_s=pl.col("ended_s") - pl.col("arrived_s"))
    )


def _loads(requests: pl.DataFrame, engines: pl.DataFrame) -> pl.DataFrame:
    """One row a pair and engine, engines without work included."""
    every = engines.select("pair", engine=pl.int_ranges(0, pl.col("engines"))).explode("engine")
    served = requests.group_by("pair", "engine").agg(
        requests=(pl.col("status") == "finished").sum().cast(pl.Int64),
        tokens=(pl.col("prefill_tokens") + pl.col("output_tokens")).sum(),
    )
    return (
        every.join(served, on=["pair", "engine"], how="left")
        .with_columns(pl.col("requests", "tokens").fill_null(0))
        .sort("pair", "engine")
    )


def of_tables(tables: Tables) -> pl.DataFrame:
    """Simulated runs in the fields of a results file, with ``pair`` before them; engines by number."""
    names = dict(zip(("submitted_s", "arrived_s", "scheduled_s", "first_token_s", "ended_s"), TIMES, strict=True))
    return tables.requests.select(
        "pair",
        pl.col("request").alias("rid"),
        pl.when(pl.col("engine") >= 0).then(pl.col("engine").cast(pl.String)),
        *(pl.col(column).alias(field) for column, field in names.items()),
        pl.col("cached_tokens").alias("cached"),
        pl.col("recomputed_tokens").alias("recomputed"),
        pl.col("preemptions").alias("preempted"),
        pl.col("prompt_tokens").alias("input_tokens"),
        "output_tokens",
        pl.col("status").cast(pl.String),
    )


def stages(requests: pl.DataFrame) -> dict[str, float]:
    """How long the stages of requests take, in the fields of results: what shows which input is off.

    ``prefill_s_per_token`` of tokens computed; ``decode_fast_s`` and ``decode_slow_s``: 10 and 90 % quantile over
    requests of the time of an output token; ``queue_s``: mean wait before the first admission.
    """
    frame = requests.filter(pl.col("status") == "finished")
    prefill = frame.filter(pl.col("first_s") > pl.col("prefill_s"))
    computed = (prefill["input_tokens"] - prefill["cached"] + prefill["recomputed"]).sum()
    token_s = (
        frame.filter(pl.col("output_tokens") > 1)
        .select(((pl.col("last_s") - pl.col("first_s")) / (pl.col("output_tokens") - 1)).alias("s"))["s"]
        .drop_nulls()
        .to_numpy()
    )
    found: dict[str, float] = {}
    if computed:
        found["prefill_s_per_token"] = float((prefill["first_s"] - prefill["prefill_s"]).sum()) / float(computed)
    if token_s.size:
        found["decode_fast_s"], found["decode_slow_s"] = (float(each) for each in np.quantile(token_s, [0.1, 0.9]))
    waits = (frame["prefill_s"] - frame["queue_s"]).drop_nulls()
    if waits.len():
        found["queue_s"] = float(waits.mean() or 0.0)  # type: ignore[arg-type]
    return {name: value for name, value in found.items() if value > 0}
