"""TraceLab rounds: one JSON object a model call of a coding agent.

``input_tokens_total`` is the prompt, ``prefix_tokens`` what the provider served from its cache, ``timing_events`` and
``tools`` say when things happened. There are no block ids: a prompt that is no shorter than the last one of its session
repeats it (a cache that had expired is no other content), a shorter one (compaction) repeats ``prefix_tokens`` of it.

A call starts with the last thing that was said to it (user_message, tool_result) and ends with the last thing it said.
Where a round has neither, the wait before it is that of its tools.
"""

from collections.abc import Iterator
from pathlib import Path

from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import REPEATS_ALL, Call, Format, Reading
from sim.workload._traces.tables import wall_clock_s

_SAID_TO = ("user_message", "tool_result")


def read(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file; time starts with the first event."""
    last: dict[str, tuple[int, int]] = {}
    start: float | None = None
    for row in read_rows(path):
        session, index = row.text("session_id"), row.whole("round_index", 0)
        before, tokens_before = last.get(session, (-1, 0))
        if index <= before:
            raise row.refuse(f"round_index {index} of its session does not follow {before}")
        tokens = row.whole("input_tokens_total", 1)
        last[session] = index, tokens
        begun, ended = _times(row)
        start = begun if start is None else start
        at_s = None if begun is None or start is None else round(begun - start, 6)
        took_s = None if begun is None or ended is None else max(0.0, ended - begun)
        kept = REPEATS_ALL if tokens >= tokens_before else row.whole("prefix_tokens", 0)
        output = max(1, row.whole("output_tokens", 0))
        yield Call(row, tokens, output, session, at_s=at_s, took_s=took_s, kept_tokens=kept)


def _times(row: Row) -> tuple[float | None, float | None]:
    if not row.values.get("timing_events"):
        return None, None
    events = [(str(each.get("event_type")), wall_clock_s(each, "timestamp")) for each in row.objects("timing_events")]
    said = [at for kind, at in events if kind in _SAID_TO]
    answers = [at for kind, at in events if kind not in _SAID_TO]
    begun = max(said) if said else min(answers)
    return begun, max(answers, default=begun)


TRACELAB = Format(
    "tracelab",
    "TraceLab rounds; JSON lines",
    lambda row: {"session_id", "round_index", "input_tokens_total"} <= row.values.keys(),
    read,
)
