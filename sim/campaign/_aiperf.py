"""What AIPerf exports of a run, as the requests of a results file.

AIPerf writes one record a request into ``profile_export.jsonl``: the conversation and the turn, when the request began
and ended in nanoseconds of one clock, the time to the first token, lengths, and an error where there was one
(ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md @13992db). A conversation is a session of the trace
that ``windtunnel export --format aiperf`` wrote, by the name that it has there.

A client sees no engine: which one answered, when it began, what was cached and what was computed again stay null, so
metrics of throughput, latency and groups are scored and those of work are not. Traces whose sessions have one call
each carry no names; their records cannot be told apart and are refused.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import polars as pl

from sim.campaign._results import FIELDS, REQUESTS
from sim.errors import ScenarioError

_NAME: Final = re.compile(r"s(\d+)")


def from_aiperf(records: Path, trace: Path) -> pl.DataFrame:
    """The requests of a results file; ``trace`` is the sealed ``windtunnel-<pair>.jsonl`` of the same pair."""
    rids = _rids(trace)
    rows = []
    with records.open(encoding="utf-8") as file:
        for at, line in enumerate(file, 1):
            where = f"{records}:{at}"
            try:
                record = json.loads(line)
                meta, values = record["metadata"], record.get("metrics") or {}
                rid, prompt = rids[_key(where, meta, rids)]
                rows.append(_row(rid, prompt, meta, values, record.get("error")))
            except (ValueError, KeyError, TypeError) as error:
                raise ScenarioError(f"{where}: is no record of AIPerf: {error!r}") from None
    if not rows:
        raise ScenarioError(f"{records}: holds no records")
    start = min(row["arrive_s"] for row in rows)
    moved = pl.col("arrive_s", "first_s", "last_s") - start
    # Nanoseconds since 1970 are too long for a float: seconds count from the first request.
    frame = pl.DataFrame(rows, schema={**REQUESTS, "arrive_s": pl.Int64, "first_s": pl.Int64, "last_s": pl.Int64})
    return frame.with_columns(moved / 1e9).select(FIELDS).sort("rid")


def _rids(trace: Path) -> dict[tuple[int, int], tuple[int, int]]:
    """Request and length of the prompt, by session and turn."""
    with trace.open(encoding="utf-8") as file:
        next(file)
        found = [json.loads(line) for line in file]
    return {(row["session"], row["turn"]): (row["rid"], row["input_len"]) for row in found}


def _key(where: str, meta: dict[str, Any], rids: dict[tuple[int, int], tuple[int, int]]) -> tuple[int, int]:
    name = _NAME.fullmatch(str(meta["conversation_id"]))
    key = (int(name[1]), int(meta["turn_index"])) if name else None
    if key is None or key not in rids:
        raise ScenarioError(
            f"{where}: conversation {meta['conversation_id']!r}, turn {meta['turn_index']} is none of the trace: "
            "export sessions of several turns with --format aiperf"
        )
    return key


def _row(rid: int, prompt: int, meta: dict[str, Any], values: dict[str, Any], error: Any) -> dict[str, Any]:
    began = int(meta["request_start_ns"])
    first_ms = _value(values, "time_to_first_token")
    return {
        **dict.fromkeys(FIELDS),
        "rid": rid,
        "arrive_s": began,
        "first_s": None if first_ms is None else began + round(1e6 * first_ms),
        "last_s": int(meta["request_end_ns"]),
        "input_tokens": int(_value(values, "input_sequence_length") or prompt),
        "output_tokens": int(_value(values, "output_sequence_length") or 0),
        "status": "aborted" if meta["was_cancelled"] else "failed" if error else "finished",
    }


def _value(values: dict[str, Any], name: str) -> float | None:
    return None if name not in values else float(values[name]["value"])
