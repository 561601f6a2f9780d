"""Bailian (Qwen) usage traces: chats whose rows name their parents, one JSON object a request.

    {"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
     "type": "text", "turn": 2, "hash_ids": [1089, 1090, 1091, 6326]}

``timestamp`` in seconds, ``parent_chat_id`` -1 at a root, blocks of 16 tokens; every row covers its whole prompt. The
second row that goes on from one parent starts a line of its own. A parent outside the file makes its row a root.
"""

from collections.abc import Iterator
from pathlib import Path

from sim.workload._check import MOST_SECONDS
from sim.workload._rows import read_rows
from sim.workload._traces._call import Call, Format, Reading
from sim.workload._traces.mooncake import blocks

BLOCK_TOKENS = 16


def read(path: Path, reading: Reading) -> Iterator[Call]:
    """The calls of a file."""
    block = reading.block_tokens or BLOCK_TOKENS
    place: dict[int, tuple[str, str, int]] = {}
    has_successor: set[int] = set()
    for row in read_rows(path):
        chat = row.whole("chat_id", 0, 2**63 - 1)
        parent = row.get("parent_chat_id")
        row.check_whole("parent_chat_id", parent, -1, 2**63 - 1)
        if chat in place:
            raise row.refuse(f"chat_id {chat} stands above already")
        after_line, after_turn = None, -1
        if parent not in place:
            session, line, turn = str(chat), "", 0
        else:
            session, line, turn = place[parent]
            turn += 1
            if parent in has_successor:
                after_line, after_turn = line, turn - 1
                line, turn = str(chat), 0
            has_successor.add(parent)
        place[chat] = session, line, turn
        tokens, output = row.whole("input_length", 1), row.whole("output_length", 1)
        at_s = row.number("timestamp", MOST_SECONDS)
        yield Call(
            row, tokens, output, session, line=line, at_s=at_s, ids=blocks(row, tokens, block), block_tokens=block,
            after_line=after_line, after_turn=after_turn,
        )  # fmt: skip


BAILIAN = Format(
    "bailian",
    "Bailian (Qwen) usage traces, chats that name their parents; JSON lines",
    lambda row: {"chat_id", "parent_chat_id", "hash_ids"} <= row.values.keys(),
    read,
    is_open=True,
    accepts=("block_tokens",),
)
