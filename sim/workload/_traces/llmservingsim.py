"""LLMServingSim requests, one JSON object each, and its agent sessions, one JSON object a session; a file may mix them.

    {"input_toks": 1472, "output_toks": 133, "arrival_time_ns": 4059740, "input_tok_ids": [1, 2, 3]}
    {"session_id": "s0", "arrival_time_ns": 1000000,
     "sub_requests": [{"input_toks": 200, "output_toks": 100, "tool_duration_ns": 5000000}]}

``tool_duration_ns`` is the wait after a call before the next. With token ids prompts share what their ids share;
without, the prompts of a session repeat those before them, and requests share nothing.
"""

from collections.abc import Iterator
from pathlib import Path

from sim.workload._check import MOST_SECONDS
from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import REPEATS_ALL, Call, Format, Reading

_NS = 1_000_000_000
_LAST_TOKEN = 2**31


def read(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file."""
    seen: set[str] = set()
    for row in read_rows(path):
        at_s = row.number("arrival_time_ns", MOST_SECONDS * _NS) / _NS
        if "sub_requests" not in row.values:
            yield _call(row, "")._replace(at_s=at_s)
            continue
        name = row.name("session_id") if row.has("session_id") else f"session {row.where.rpartition(':')[2]}"
        if name in seen:
            raise row.refuse(f"session_id {name!r} stands above already")
        seen.add(name)
        delay_s = None
        for each in row.objects("sub_requests"):
            yield _call(each, name)._replace(at_s=at_s if delay_s is None else None, delay_s=delay_s)
            tool = each.values.get("tool_duration_ns", 0)
            delay_s = each.check_number("tool_duration_ns", tool, MOST_SECONDS * _NS) / _NS


def _call(row: Row, session: str) -> Call:
    tokens, output = row.whole("input_toks", 1), row.whole("output_toks", 1)
    if not row.has("input_tok_ids"):
        return Call(row, tokens, output, session, kept_tokens=REPEATS_ALL if session else -1)
    ids = row.wholes("input_tok_ids", 0, _LAST_TOKEN)
    if len(ids) != tokens:
        raise row.refuse(f"input_tok_ids must hold {tokens:,} ids, as input_toks says, not {len(ids):,}")
    return Call(row, tokens, output, session, ids=ids, block_tokens=1)


LLMSERVINGSIM = Format(
    "llmservingsim",
    "LLMServingSim, flat and agentic; JSON lines",
    lambda row: "arrival_time_ns" in row.values and bool({"input_toks", "sub_requests"} & row.values.keys()),
    read,
    is_open=True,
)
