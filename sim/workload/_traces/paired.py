"""The trace of this program: a workload to the last token, with the keys that every arm sends. JSON lines.

    {"schema": "windtunnel.trace/1", "encoding": "chat", "chars_per_token": 4.0, ...}
    {"rid": 0, "group": 0, "session": 0, "turn": 0, "arrive": {"mode": "at", "t": 12.5, "rank": 0},
     "spans": [[0, 11000], [3, 1300]], "input_len": 12300, "shared_len": 11000, "output_len": 246, "max_tokens": 4096,
     "output_source": -1, "ignore_eos": true, "key": {"group": "a1b2", "sample": "c3d4"}}
    {"rid": 1, ..., "turn": 1, "arrive": {"mode": "after", "after_rid": 0, "delay_s": 0.85, "joins": []}}

``spans`` say what prompts share at any block size: a span is the first so many tokens of a source, and two prompts
share what their spans agree in. A load generator makes a text of each source once and cuts it. ``output_source`` is the
source that the answer continues, -1 if no later prompt has it. ``arrive``: at a time (``rank`` orders one instant),
after a group has ended, or after a request, a sub-agent's first call after its parent's; ``joins`` names sub-agents
(sessions) that must have ended too; ``boot_s`` is what lies between a session's place and its first request.
``shared_len``: tokens that a request above has as well. A real run sends ``output_len`` as the limit, with
``ignore_eos``, so that answers have the same lengths in every arm; ``max_tokens`` is what the job states, which
some policies read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from policies._content import Content, canonical, count, extend
from sim.workload._check import MOST_SECONDS
from sim.workload._model import Child, Turn, Workload
from sim.workload._reuse import Trie
from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import Call, Format, Reading
from sim.workload._traces._recording import Recorded, Recording

SCHEMA: Final = "windtunnel.trace/1"
_LAST_SOURCE: Final = 2**63 - 1


def lines(
    workload: Workload, header: Mapping[str, Any], keys: Mapping[str, Iterable[str]], deadline_s: float | None
) -> Iterator[str]:
    """The lines of a file; ``keys``: of each arm, the key of each session."""
    head = {
        "schema": SCHEMA,
        "encoding": workload.encoding,
        "chars_per_token": workload.chars_per_token,
        "sessions": workload.sessions,
        "groups": workload.groups,
        **header,
    }
    yield json.dumps(head) + "\n"
    first = workload.first_requests().tolist()
    starts = _Starts(workload, first)
    by_arm = {arm: list(each) for arm, each in keys.items()}
    seen = Trie()
    for index in range(workload.sessions):
        session = workload.session(index)
        sent = {arm: each[index] for arm, each in by_arm.items() if each[index]}
        for number, turn in enumerate(session.turns):
            row: dict[str, Any] = {
                "rid": first[index] + number,
                "group": session.group,
                "session": index,
                "turn": number,
                "arrive": starts.of(index, session.group, number, turn.delay_s),
                "spans": turn.prompt,
                "input_len": count(turn.prompt),
                "shared_len": seen.match(turn.prompt)[0],
                "output_len": turn.output_tokens,
                "max_tokens": turn.max_tokens,
                "output_source": turn.output_source,
                "ignore_eos": True,
                "key": sent,
            }
            if workload.keys[index]:
                row["own_key"] = workload.keys[index]
            if workload.key_owner is not None:
                row["key_owner"] = int(workload.key_owner[index])
            if deadline_s is not None:
                row["deadline_s"] = deadline_s
            seen.insert(turn.prompt, is_prompt=True)
            if turn.output_source >= 0:
                seen.insert(extend(turn.prompt, turn.output_source, turn.output_tokens), is_prompt=False)
            yield json.dumps(row) + "\n"


class _Starts:
    """When each request is sent."""

    def __init__(self, workload: Workload, first: list[int]) -> None:
        self._workload, self._first = workload, first
        self._rank = {group: rank for rank, group in enumerate(workload.order.tolist())}
        self._parent = {
            child.session: (parent, child) for parent, children in workload.children.items() for child in children
        }

    def of(self, session: int, group: int, turn: int, delay_s: float) -> dict[str, Any]:
        workload = self._workload
        if turn:
            joins = [c.session for c in workload.children.get(session, ()) if c.joins_turn == turn]
            return {"mode": "after", "after_rid": self._first[session] + turn - 1, "delay_s": delay_s, "joins": joins}
        if session in self._parent:
            parent, child = self._parent[session]
            return {"mode": "after", "after_rid": self._first[parent] + child.after_turn, "delay_s": child.delay_s}
        t, rank = float(workload.arrival_s[group]), self._rank[group]
        boot = {"boot_s": delay_s} if delay_s else {}
        if group in workload.follows:
            return {"mode": "after_group", "group": int(workload.follows[group]), "delay_s": t, "rank": rank, **boot}
        return {"mode": "at", "t": t, "rank": rank, **boot}


def read_whole(path: Path) -> Recording:
    """The workload of a file, as it was."""
    rows = read_rows(path)
    header = _header(next(rows))
    recording = Recording(is_live=False, shared_tokens=0, token_s=0.0)
    recording.encoding = header.text("encoding")
    recording.chars_per_token = header.number("chars_per_token", 1e9)
    recording.groups = header.whole("groups", 1)
    at_s = np.zeros(recording.groups)
    rank = np.zeros(recording.groups, dtype=np.int64)
    turn_of: list[tuple[int, int]] = []
    """Session and turn of each request."""
    for row in rows:
        if row.whole("rid", 0) != len(turn_of):
            raise row.refuse(f"rid must be {len(turn_of)}: requests stand in their order, none is missing")
        session, turn = row.whole("session", 0), row.whole("turn", 0)
        group = row.whole("group", 0, recording.groups - 1)
        arrive = Row(f"{row.where}: arrive", _mapping(row, "arrive"))
        if session == len(recording.sessions) and turn == 0:
            line = Recorded(session, session, group, 0.0, str(session))
            recording.sessions.append(line)
            _begin(recording, line, arrive, turn_of, at_s, rank)
        elif session != len(recording.sessions) - 1 or turn != len(recording.sessions[-1].turns):
            raise row.refuse(f"session and turn must follow those above, not be {session} and {turn}")
        line = recording.sessions[session]
        wait = "delay_s" if turn else "boot_s"
        delay_s = arrive.number(wait, MOST_SECONDS) if turn or arrive.has(wait) else 0.0
        if turn and arrive.has("joins"):
            line.joins[turn] = [row.check_whole("each of joins", each, 0, _LAST_SOURCE) for each in arrive.get("joins")]
        line.turns.append(_turn(row, delay_s))
        line.times.append(None)
        if row.has("own_key"):
            line.key = row.text("own_key")
        line.owner = row.whole("key_owner", 0) if row.has("key_owner") else None
        turn_of.append((session, turn))
    if len(recording.sessions) != header.whole("sessions", 1):
        raise header.refuse(f"says {header.get('sessions'):,} sessions, and {len(recording.sessions):,} follow")
    for line in recording.sessions:
        joined = {session: turn for turn, sessions in line.joins.items() for session in sessions}
        line.children = [c._replace(joins_turn=joined.get(c.session, c.joins_turn)) for c in line.children]
        line.at_s = float(at_s[line.group])
    recording.rank = rank
    return recording


def _begin(
    recording: Recording, line: Recorded, arrive: Row, turn_of: list[tuple[int, int]], at_s: Any, rank: Any
) -> None:
    mode = arrive.text("mode")
    if mode == "after":
        rid = arrive.whole("after_rid", 0, len(turn_of) - 1)
        parent, turn = turn_of[rid]
        line.root = recording.sessions[parent].root
        recording.sessions[parent].children.append(Child(line.index, turn, arrive.number("delay_s", MOST_SECONDS)))
        return
    rank[line.group] = arrive.whole("rank", 0)
    if mode == "after_group":
        recording.follows[line.group] = arrive.whole("group", 0, recording.groups - 1)
        at_s[line.group] = arrive.number("delay_s", MOST_SECONDS)
    else:
        at_s[line.group] = arrive.number("t", MOST_SECONDS)


def _turn(row: Row, delay_s: float) -> Turn:
    output = row.whole("output_len", 1)
    source = row.get("output_source")
    row.check_whole("output_source", source, -1, _LAST_SOURCE)
    return Turn(_spans(row), output, source, row.whole("max_tokens", 1), delay_s)


def _spans(row: Row) -> Content:
    spans = row.get("spans")
    if not isinstance(spans, list) or not spans:
        raise row.refuse("spans must be a list of sources and lengths")
    for each in spans:
        if not isinstance(each, list) or len(each) != 2:
            raise row.refuse("each of spans must be a source and a length")
        row.check_whole("a source", each[0], 0, _LAST_SOURCE)
        row.check_whole("a length", each[1], 1, _LAST_SOURCE)
    content = tuple((source, tokens) for source, tokens in spans)
    if canonical(content) != content or count(content) != row.whole("input_len", 1):
        raise row.refuse("spans must be merged, and add up to input_len")
    return content


def _header(row: Row) -> Row:
    if row.values.get("schema") != SCHEMA:
        raise row.refuse(f"schema must be {SCHEMA!r}")
    return row


def _mapping(row: Row, name: str) -> dict[str, Any]:
    value = row.get(name)
    if not isinstance(value, dict):
        raise row.refuse(f"{name} must be an object")
    return value


def read(path: Path, _: Reading) -> Iterator[Call]:
    """The calls of a file, for its figures."""
    rows = read_rows(path)
    _header(next(rows))
    for row in rows:
        arrive = Row(f"{row.where}: arrive", _mapping(row, "arrive"))
        at_s = arrive.number("t", MOST_SECONDS) if arrive.has("t") else None
        delay_s = arrive.number("delay_s", MOST_SECONDS) if arrive.has("delay_s") else None
        yield Call(
            row, row.whole("input_len", 1), row.whole("output_len", 1), str(row.whole("session", 0)),
            at_s=at_s, delay_s=delay_s, content=_spans(row),
        )  # fmt: skip


PAIRED = Format(
    "windtunnel",
    "what `windtunnel export` writes; JSON lines",
    lambda row: "schema" in row.values,
    read,
)
