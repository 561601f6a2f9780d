"""Mooncake rows, one JSON object a request, with the extensions of the tools that replay them.

    {"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, ..., 13]}
    {"session_id": "a", "delay": 250, "input_length": 900, "output_length": 40, "hash_ids": [0, 7]}

``timestamp`` and ``delay`` in milliseconds. ``session_id`` groups rows into a closed loop: a later row has ``delay``
after the answer of the row before, or a ``timestamp``. Two readings exist. ``cover`` (Mooncake, Dynamo): a row gives
its whole prompt. ``add`` (AIPerf): a row gives what it adds to the history that the replayer keeps, answers included.

Without ids a later row that covers its prompt repeats all of the one before that fits. Rows of AIPerf may have
``text_input`` or ``messages`` in place of lengths: a text is then cut into tokens of ``chars_per_token`` characters.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sim.workload._check import MOST_SECONDS
from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import REPEATS_ALL, Call, Format, Reading
from sim.workload._traces._text import Tokens

BLOCK_TOKENS: Final = 512
FINE_TOKENS: Final = 64
_LAST_ID: Final = 2**63 - 1


def read(path: Path, reading: Reading) -> Iterator[Call]:
    """The calls of a file."""
    tokens = Tokens(reading.chars_per_token)
    has_ids: bool | None = None
    for row in read_rows(path):
        session = row.name("session_id") if row.has("session_id") else ""
        at_s, delay_s = times(row, needed=not session)
        adds = reading.rows == "add" and bool(session)
        output = row.whole(either(row, "output_length", "output_tokens"), 1)
        if row.has("text_input") or row.has("messages"):
            ids = tokens.ids(text_of(row))
            yield Call(row, len(ids), output, session, at_s=at_s, delay_s=delay_s, ids=ids, block_tokens=1, adds=adds)
            continue
        length = row.whole(either(row, "input_length", "input_tokens"), 1)
        block = reading.block_tokens or BLOCK_TOKENS
        has_ids = row.has("hash_ids") if has_ids is None else has_ids
        # What adds to a history needs no ids; among rows that cover their prompts all have them or none.
        with_ids = row.has("hash_ids") if adds else has_ids
        ids_or_none = blocks(row, length, block) if with_ids else None
        kept = REPEATS_ALL if session and ids_or_none is None and not adds else -1
        yield Call(
            row, length, output, session, at_s=at_s, delay_s=delay_s,
            ids=ids_or_none, block_tokens=block, kept_tokens=kept, adds=adds,
        )  # fmt: skip


def times(row: Row, *, needed: bool) -> tuple[float | None, float | None]:
    """Recorded time or wait of a row; ``needed``: one of them must be there."""
    delay = either(row, "delay", "delay_ms")
    if row.has(delay):
        return None, row.number(delay, 1000 * MOST_SECONDS) / 1000
    at = either(row, "timestamp", "created_time")
    if row.has(at):
        return row.number(at, 1000 * MOST_SECONDS) / 1000, None
    if needed:
        raise row.refuse("timestamp is missing")
    return None, None


def either(row: Row, name: str, alias: str) -> str:
    """The name that a row uses."""
    return alias if alias in row.values and name not in row.values else name


def blocks(row: Row, tokens: int, block_tokens: int) -> list[int]:
    """Ids of a prompt, one for each block, the last one maybe partial."""
    ids = row.wholes("hash_ids", 0, _LAST_ID)
    needed = -(-tokens // block_tokens)
    if len(ids) != needed:
        raise row.refuse(
            f"hash_ids must hold {needed:,} ids, one for each {block_tokens:,} of {tokens:,} tokens, not {len(ids):,}"
        )
    return ids


def text_of(row: Row) -> str:
    """The prompt of a row that holds texts."""
    if row.has("text_input"):
        return row.text("text_input")
    return "\n".join(f"{each.values.get('role', '')}: {_words(each)}" for each in row.objects("messages"))


def _words(message: Row) -> str:
    content: Any = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _fits(row: Row) -> bool:
    names = row.values.keys()
    if "wait_for" in names or "request_id" in names or "chat_id" in names:
        return False
    has_length = bool({"input_length", "input_tokens"} & names and {"output_length", "output_tokens"} & names)
    has_text = bool({"text_input", "messages"} & names)
    return (has_length or has_text) and bool({"timestamp", "created_time", "session_id", "hash_ids"} & names)


MOONCAKE = Format(
    "mooncake",
    "Mooncake, multi-turn and AIPerf rows; JSON lines",
    lambda row: _fits(row) and not is_fine(row),
    read,
    accepts=("block_tokens", "rows", "chars_per_token"),
)


def is_fine(row: Row) -> bool:
    """Whether a row with a session has more ids than blocks of 512 tokens: LMCache's have 64."""
    ids, tokens = row.values.get("hash_ids"), row.values.get("input_length")
    fits = "session_id" in row.values and isinstance(ids, list) and isinstance(tokens, int)
    return fits and len(ids) == -(-tokens // FINE_TOKENS) != -(-tokens // BLOCK_TOKENS)  # type: ignore[operator,arg-type]


def _read_fine(path: Path, reading: Reading) -> Iterator[Call]:
    """LMCache's rows; a prompt of no tokens, as some of its agents send, is taken as one token."""
    block = reading.block_tokens or FINE_TOKENS
    for row in read_rows(path):
        session, (at_s, delay_s) = row.text("session_id"), times(row, needed=True)
        tokens, output = row.whole("input_length", 0), row.whole("output_length", 1)
        ids = blocks(row, tokens, block) if tokens else None
        yield Call(row, tokens or 1, output, session, at_s=at_s, delay_s=delay_s, ids=ids, block_tokens=block)


LMCACHE = Format(
    "lmcache",
    "LMCache agent traces: Mooncake rows of sessions, blocks of 64; JSON lines",
    lambda row: _fits(row) and is_fine(row),
    _read_fine,
    accepts=("block_tokens",),
)
