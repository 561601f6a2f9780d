"""Recorded coding sessions as kv-cache-tester publishes them: one JSON object a session, one a line or one a file.

``requests`` are in time order: ``t`` seconds from the start of the session, ``in`` and ``out`` tokens, ``hash_ids`` of
full 64-token blocks only, ``api_time`` and ``think_time`` where they were recorded. An entry of type ``subagent`` holds
requests of its own, whose ``t`` counts from the entry; the session goes on when all sub-agents beside each other have
ended. A think time that spans sub-agents is cut to what lies before they start: what they take is simulated.

Ids are private to the session (``hash_id_scope`` local), though in truth all sessions of one harness share tools and
system prompt. ``common_prefix`` says that they do: the first (tool_tokens + system_tokens) / 64 blocks of a session are
then those of all others, of a sub-agent those of all sub-agents with as large a prefix.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sim.workload._check import MOST_SECONDS, MOST_TOKENS
from sim.workload._rows import Row, read_rows
from sim.workload._traces._call import Call, Format, Reading

_BLOCK: Final = 64
_LAST_ID: Final = 2**40


def read(path: Path, reading: Reading) -> Iterator[Call]:
    """The calls of a file, sub-agents where they stand."""
    seen: set[str] = set()
    for row in read_rows(path):
        name = row.text("id")
        if name in seen:
            raise row.refuse(f"id {name!r} stands above already")
        seen.add(name)
        block = row.whole("block_size", 1) if row.has("block_size") else _BLOCK
        is_local = row.values.get("hash_id_scope", "local") == "local"
        yield from _Session(row, name, block, is_local=is_local, common=reading.common_prefix).calls()


class _Session:
    """One session: what all its calls have in common."""

    def __init__(self, row: Row, name: str, block: int, *, is_local: bool, common: bool) -> None:
        self.row, self.name, self.block = row, name, block
        self.is_local, self.common = is_local, common

    def calls(self) -> Iterator[Call]:
        """Calls of the session and of its sub-agents."""
        common = self._common_blocks(self.row)
        agents: list[_Agent] = []
        at_end: float | None = None
        for entry in self.row.objects("requests"):
            if entry.values.get("type") == "subagent":
                agents.append(_Agent(entry))
                if at_end is not None:
                    yield from self._agent(agents[-1], at_end)
                continue
            at, took = entry.number("t", MOST_SECONDS), _seconds(entry, "api_time")
            is_first, late, agents = at_end is None, agents, []
            delay = None if is_first else _seconds(entry, "think_time")
            if late and at_end is not None:
                delay = max(0.0, min(each.start for each in late) - at_end)
            joins = () if is_first else tuple(each.name for each in late)
            yield self._call(entry, "", at, took, delay, common)._replace(joins=joins)
            at_end = at + (took or 0.0)
            if is_first:
                # Recorded before any call of the session itself: they cannot start earlier than the first one's end.
                for each in late:
                    yield from self._agent(each, at_end)
        if at_end is None:
            raise self.row.refuse("requests holds sub-agents alone")

    def _agent(self, agent: "_Agent", since: float) -> Iterator[Call]:
        """The calls of a sub-agent that starts after the call that ended at ``since``."""
        common = self._common_blocks(agent.entry)
        for index, each in enumerate(agent.entry.objects("requests")):
            if each.values.get("type") == "subagent":
                raise each.refuse("a sub-agent of a sub-agent is not read")
            at, took = agent.start + each.number("t", MOST_SECONDS), _seconds(each, "api_time")
            delay = _seconds(each, "think_time") if index else max(0.0, at - since)
            call = self._call(each, agent.name, at, took, delay, common)
            yield call if index else call._replace(after_line="")

    def _call(self, entry: Row, line: str, at: float, took: float | None, delay: float | None, common: int) -> Call:
        tokens = entry.whole("in", 1)
        blocks = tokens // self.block
        ids = entry.wholes("hash_ids", 0, _LAST_ID) if blocks or entry.values.get("hash_ids") else []
        if len(ids) != blocks:
            raise entry.refuse(
                f"hash_ids must hold {blocks:,} ids, one for each full {self.block} of {tokens:,} tokens, "
                f"not {len(ids):,}"
            )
        return Call(
            entry, tokens, entry.whole("out", 1) if entry.get("out") else 1, self.name, line=line, at_s=at, took_s=took,
            delay_s=delay, ids=ids, block_tokens=self.block, is_local=self.is_local, common_blocks=common,
        )  # fmt: skip

    def _common_blocks(self, row: Row) -> int:
        if not (self.common and self.is_local):
            return 0
        sizes = (row.whole(name, 0, MOST_TOKENS) if row.has(name) else 0 for name in ("tool_tokens", "system_tokens"))
        return sum(sizes) // self.block


class _Agent:
    """A sub-agent: its entry, a name that is its own in the session, and when it started."""

    def __init__(self, entry: Row) -> None:
        self.entry = entry
        self.name = f"{entry.values.get('agent_id', 'agent')}@{entry.where.rpartition('[')[2][:-1]}"
        self.start = entry.number("t", MOST_SECONDS)


def _seconds(entry: Row, name: str) -> float | None:
    return entry.number(name, MOST_SECONDS) if entry.has(name) else None


WEKA = Format(
    "weka",
    "coding sessions of kv-cache-tester, with sub-agents; one JSON object a session",
    lambda row: {"id", "requests"} <= row.values.keys(),
    read,
    accepts=("common_prefix",),
)
