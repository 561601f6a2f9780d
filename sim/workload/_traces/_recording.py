"""A trace in memory: its sessions as turns whose prompts are spans.

Prompts with block ids become spans by merging chains that never branch, and share what their ids share; the tail
behind the last full block equals only itself, and one that a file leaves unnamed equals nothing. Prompts without ids
share what their session says: the part of the last prompt that they repeat. All else is a source of its own.
"""

from dataclasses import dataclass, field
from typing import Final

from policies._content import PRIVATE, Content, Spans, count, cut, extend
from sim.workload._check import MOST_TOKENS
from sim.workload._lengths import Ints
from sim.workload._model import Child, Turn
from sim.workload._traces._call import Call

_LOCAL: Final = 1 << 44
"""Room for the ids of one session, where they are its own."""
COMMON: Final = 0
"""Source of what all prompts without ids have in common."""


@dataclass(slots=True)
class Recorded:
    """A session, or a sub-agent of one."""

    index: int
    root: int
    """The session that it belongs to, maybe itself."""
    group: int
    at_s: float
    """When its first call was made."""
    name: str
    turns: list[Turn] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    """When each call was made, where that is known."""
    children: list[Child] = field(default_factory=list)
    content: Content = ()
    """What a next prompt may repeat: the last one, and its answer if that counts."""
    own: int = PRIVATE
    """The source that goes on at the end of ``content``."""
    tokens: int = 0
    """Of the last prompt and its answer, whether or not that can be repeated."""
    joins: dict[int, list[int]] = field(default_factory=dict)
    """Sessions that a turn waits for, where a file says so there."""
    owner: int | None = None
    """Session whose random id is its key, if not its own."""
    key: str = ""
    """Its key, if the data has one."""
    ends: list[float | None] = field(default_factory=list)
    """When the answer to each call had come, where that is known."""


class Recording:
    """All sessions of a file."""

    def __init__(self, *, is_live: bool, shared_tokens: int, token_s: float) -> None:
        """``shared_tokens`` are common to all prompts without ids, ``token_s`` what a generated token took."""
        self.sessions: list[Recorded] = []
        self.groups = 0
        self.rank: Ints | None = None
        """Of each group, its place among those that arrive at one instant; None: as they stand."""
        self.follows: dict[int, int] = {}
        self.encoding: str | None = None
        self.chars_per_token: float | None = None
        self._live, self._shared, self._token_s = is_live, shared_tokens, token_s
        self._next = COMMON + 1
        self._spans: dict[int, Spans] = {}
        self._tails: dict[tuple[int, int, int], int] = {}
        self._lines: dict[tuple[str, str], Recorded] = {}
        self._groups: dict[str, int] = {}
        self._heads: dict[tuple[int, int], int] = {}

    def _source(self) -> int:
        self._next += 1
        return self._next - 1

    def add(self, call: Call) -> None:
        """One more call, in order of the file."""
        line = self._lines.get((call.session, call.line)) if call.session else None
        line = line or self._start(call)
        if call.joins:
            self._join(call, line)
        prompt, tokens = self._prompt(call, line)
        source = line.own if self._live else PRIVATE
        delay = self._wait(call, line) if line.turns else 0.0
        line.turns.append(Turn(prompt, call.output_tokens, source, call.output_tokens, delay))
        line.times.append(call.at_s)
        line.content = extend(prompt, source, call.output_tokens) if self._live else prompt
        line.tokens = tokens + call.output_tokens
        if line.tokens > MOST_TOKENS:
            raise call.row.refuse(f"the prompt grows to {tokens:,} tokens")
        took = call.output_tokens * self._token_s if call.took_s is None else call.took_s
        line.ends.append(None if call.at_s is None else call.at_s + took)

    def start_at_zero(self) -> None:
        """Shift all times so that none is negative: files of many sessions need not begin with the earliest."""
        first = min((at for each in self.sessions for at in (each.at_s, *each.times) if at is not None), default=0.0)
        if first < 0:
            for each in self.sessions:
                each.at_s -= first
                each.times = [None if at is None else at - first for at in each.times]

    # -- sessions ----------------------------------------------------------------------------------------------------

    def _start(self, call: Call) -> Recorded:
        index, parent = len(self.sessions), None
        if call.after_line is not None:
            parent = self._lines[call.session, call.after_line]
        at_s = call.at_s if call.at_s is not None else call.delay_s or 0.0
        if parent is None:
            line = Recorded(index, index, self._group(call), at_s, call.session)
        else:
            line = Recorded(index, parent.root, parent.group, at_s, call.session)
            turn = call.after_turn % len(parent.turns)
            parent.children.append(Child(index, turn, self._wait(call, parent, turn)))
        self.sessions.append(line)
        if call.session:
            self._lines[call.session, call.line] = line
        return line

    def _group(self, call: Call) -> int:
        if call.group in self._groups:
            return self._groups[call.group]
        if call.group:
            self._groups[call.group] = self.groups
        self.groups += 1
        return self.groups - 1

    def _join(self, call: Call, line: Recorded) -> None:
        joined = {self._lines[call.session, each].index for each in call.joins}
        turn = len(line.turns)
        line.children = [c._replace(joins_turn=turn) if c.session in joined else c for c in line.children]

    def _wait(self, call: Call, before: Recorded, turn: int = -1) -> float:
        if call.delay_s is not None:
            return call.delay_s
        ended = before.ends[turn]
        return 0.0 if call.at_s is None or ended is None else max(0.0, call.at_s - ended)

    # -- prompts -----------------------------------------------------------------------------------------------------

    def _prompt(self, call: Call, line: Recorded) -> tuple[Content, int]:
        """The prompt and its length; afterwards ``line.own`` is the source that an answer would continue."""
        is_first = not line.turns
        if call.adds and line.tokens:
            new = call.input_tokens
            kept = line.content
            if self._live:
                return self._grow(line, kept, new), line.tokens + new
            return self._grow(line, kept, line.tokens + new - count(kept)), line.tokens + new
        if call.ids is not None:
            prompt = self._chain(call, line)
            line.own = self._source() if self._live else PRIVATE
            return prompt, call.input_tokens
        if not is_first and call.kept_tokens >= 0:
            kept = cut(line.content, min(call.kept_tokens, call.input_tokens))
            if kept != line.content:
                line.own = self._source()
            return self._grow(line, kept, call.input_tokens - count(kept)), call.input_tokens
        return self._first(call, line), call.input_tokens

    def _grow(self, line: Recorded, kept: Content, tokens: int) -> Content:
        if line.own == PRIVATE:
            line.own = self._source()
        return extend(kept, line.own, tokens)

    def _first(self, call: Call, line: Recorded) -> Content:
        """A prompt of which only the length is known, or that all of its group start with."""
        own = call.input_tokens - self._shared
        if own < 0:
            raise call.row.refuse(
                f"shared_prefix_tokens must be at most each prompt, and this has {call.input_tokens:,}"
            )
        head: Content = ((COMMON, self._shared),) if self._shared else ()
        line.own = self._source()
        if not call.group:
            return extend(head, line.own, own)
        source = self._heads.setdefault((line.group, own), line.own)
        if source == line.own:
            line.own = self._source()
        return extend(head, source, own)

    def _chain(self, call: Call, line: Recorded) -> Content:
        ids, block = call.ids or [], call.block_tokens
        full, rest = divmod(call.input_tokens, block)
        symbols = ids[:full]
        if call.is_local:
            offset, common = (line.root + 1) * _LOCAL, min(call.common_blocks, full)
            # What sub-agents have in common is apart from what sessions have, and differs with its size.
            first = -1 - call.common_blocks * _LOCAL if call.line else -1
            symbols = [*range(first, first - common, -1), *(offset + each for each in symbols[common:])]
        spans = self._spans.get(block)
        if spans is None:
            # Far from the sources that are handed out one by one; content of other block sizes is other content.
            spans = self._spans[block] = Spans((len(self._spans) + 1) << 48)
        chain = spans.encode(symbols, block)
        if not rest:
            return chain
        if len(ids) == full:
            return extend(chain, self._source(), rest)
        tail = (call.block_tokens, ids[-1] + ((line.root + 1) * _LOCAL if call.is_local else 0), rest)
        source = self._tails.get(tail)
        if source is None:
            source = self._tails[tail] = self._source()
        return extend(chain, source, rest)
