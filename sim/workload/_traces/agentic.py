"""Dynamo's agentic rows: Mooncake rows that wait for others.

    {"request_id": "r3", "session_id": "a", "wait_for": ["r1", "r2"], "delay": 10, "tool_wait_ms": 900,
     "input_length": 900, "output_length": 40, "hash_ids": [0, 7]}

A row is sent ``delay`` plus ``tool_wait_ms`` after the last of ``wait_for`` has ended; one that waits for nothing
starts a session at its ``timestamp``. ``hash_ids`` cover the whole prompt. Rows become lines that fork and join: a row
goes on with the row of its own ``session_id`` that it waits for, or starts a line of its own after the one row that it
waits for; every other row it waits for must be the last of a line that started out of the one it goes on with. A graph
of another shape is refused at the row that shows it. A row that joins lines waits its delay after the row that it
goes on with, not after the last of them. ``branches``, ``tool_events``, ``prefix_reset`` and ``priority`` are not read.
"""

from collections.abc import Iterator
from pathlib import Path

from sim.workload._check import MOST_SECONDS
from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import Call, Format, Reading
from sim.workload._traces.mooncake import BLOCK_TOKENS, blocks, either, times


class _Sent:
    """A row that others may wait for: its session, its line, and what follows it."""

    __slots__ = ("line", "name", "root", "successor", "turn")

    def __init__(self, root: str, line: str, name: str, turn: int = 0) -> None:
        self.root, self.line, self.name, self.turn = root, line, name, turn
        self.successor = False


class _Graph:
    """Rows so far, and the lines that they make."""

    def __init__(self) -> None:
        self.sent: dict[str, _Sent] = {}
        self.parent: dict[tuple[str, str], str] = {}
        """Line that a line started out of."""
        self.joined: set[tuple[str, str]] = set()

    def place(self, row: Row, name: str, session: str, waits: list[str]) -> tuple[_Sent, _Sent | None, tuple[str, ...]]:
        """Where a row stands: its line, the row it forks from if it is the first of its own, and lines it joins."""
        known = [self._known(row, each) for each in waits]
        if not known:
            return _Sent(name, "", session), None, ()
        if len({each.root for each in known}) > 1:
            raise row.refuse("wait_for names rows of sessions that started apart")
        free = [each for each in known if not each.successor]
        before = next((each for each in free if each.name == session), None)
        if before is None and len(known) == 1:
            root, line = known[0].root, name
            self.parent[root, line] = known[0].line
            return _Sent(root, line, session), known[0], ()
        before = before or self._outermost(free)
        if before is None:
            raise row.refuse("wait_for joins lines without going on with one of them")
        joins = tuple(each.line for each in known if each is not before)
        for each in known:
            if each is not before:
                self._join(row, each, before)
        before.successor = True
        return _Sent(before.root, before.line, session, before.turn + 1), None, joins

    def _known(self, row: Row, name: str) -> _Sent:
        if name not in self.sent:
            raise row.refuse(f"wait_for names {name!r}, which no row above has as its request_id")
        return self.sent[name]

    def _outermost(self, free: list[_Sent]) -> _Sent | None:
        """Of ends of lines, the one that the others started out of."""
        own = {(each.root, each.line) for each in free}
        return next((each for each in free if not self._ancestors(each) & own), None)

    def _ancestors(self, each: _Sent) -> set[tuple[str, str]]:
        found, key = set(), (each.root, each.line)
        while key in self.parent:
            key = (each.root, self.parent[key])
            found.add(key)
        return found

    def _join(self, row: Row, end: _Sent, before: _Sent) -> None:
        key = (end.root, end.line)
        if end.successor or key in self.joined or self.parent.get(key) != before.line:
            raise row.refuse(f"wait_for has a shape that is not made of forks and joins, at a row of {end.name!r}")
        self.joined.add(key)
        end.successor = True


def read(path: Path, reading: Reading) -> Iterator[Call]:
    """The calls of a file."""
    graph = _Graph()
    block = reading.block_tokens or BLOCK_TOKENS
    for row in read_rows(path):
        name = row.name("request_id")
        if name in graph.sent:
            raise row.refuse(f"request_id {name!r} stands above already")
        waits = row.get("wait_for") if row.has("wait_for") else []
        if not isinstance(waits, list) or not all(isinstance(each, str | int) for each in waits):
            raise row.refuse("wait_for must be a list of request ids")
        session = row.name("session_id") if row.has("session_id") else ""
        placed, forks, joins = graph.place(row, name, session, [str(each) for each in waits])
        graph.sent[name] = placed
        at_s, delay_s = times(row, needed=not waits)
        if waits:
            tool_s = row.number("tool_wait_ms", 1000 * MOST_SECONDS) / 1000 if row.has("tool_wait_ms") else 0.0
            delay_s = (delay_s or 0.0) + tool_s
        length = row.whole(either(row, "input_length", "input_tokens"), 1)
        output = row.whole(either(row, "output_length", "output_tokens"), 1)
        yield Call(
            row, length, output, placed.root, line=placed.line, at_s=None if waits else at_s, delay_s=delay_s,
            ids=blocks(row, length, block), block_tokens=block, joins=joins,
            after_line=forks.line if forks else None, after_turn=forks.turn if forks else -1,
        )  # fmt: skip


AGENTIC = Format(
    "dynamo",
    "Dynamo's agentic rows: Mooncake rows that wait for others; JSON lines",
    lambda row: "request_id" in row.values and "hash_ids" in row.values,
    read,
    accepts=("block_tokens",),
)
