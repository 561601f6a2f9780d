"""Sessions by the lengths of their prompts, one JSON object a session.

    {"session_id": "a7", "output_tokens": 246, "prompt_tokens": [14082, 26227, 26518]}

The prompt of turn k extends the prompt of turn k-1; no times.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import REPEATS_ALL, Call, Format, Reading


def sessions(path: Path) -> Iterator[tuple[Row, str, int, list[int]]]:
    """Of each session: its row, its name, the output of every turn, the prompt of each."""
    seen: set[object] = set()
    for row in read_rows(path):
        name = row.get("session_id")
        if not isinstance(name, str) or name in seen:
            raise row.refuse(f"session_id must be a text that no earlier row has, not {name!r}")
        seen.add(name)
        prompts = row.wholes("prompt_tokens", 1)
        if any(later < earlier for earlier, later in pairwise(prompts)):
            raise row.refuse("prompt_tokens must not fall: each prompt extends the one before")
        yield row, name, row.whole("output_tokens", 1), prompts


def read(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file."""
    for row, name, output, prompts in sessions(path):
        for tokens in prompts:
            yield Call(row, tokens, output, name, delay_s=0.0, kept_tokens=REPEATS_ALL)


TURNS = Format(
    "turns",
    "sessions by the lengths of their prompts; one JSON object a session",
    lambda row: {"session_id", "prompt_tokens"} <= row.values.keys(),
    read,
)
