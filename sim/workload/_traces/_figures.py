"""What a trace holds, read once and in bounded memory: rows, sessions, times, percentiles, reuse ceilings.

A reuse ceiling is the share of prompt tokens that one cache without limit would not have to compute, in the order of
the file. Of prompts with block ids a block is known where its id has been there; of others the part of the session's
last prompt that they repeat is. What engines generate counts for nothing here, as in a replay.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from sim.workload._reuse import Trie
from sim.workload._traces._call import REPEATS_ALL, Call
from sim.workload._traces._known import Known

QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)
_LINES: Final = 500_000
"""Sessions and sub-agents whose state is kept; of more, those quiet for longest are taken as ended."""
_VALUES: Final = 1 << 17
"""Different values that a histogram keeps apart; beyond, eleven leading bits of each."""
_TOKENS: Final = 16
"""Block in which prompts given as token ids are compared."""

_COMMON: Final = 1 << 28
"""Ids below stand for blocks that sessions have in common."""


class Histogram:
    """Counts of whole numbers; exact up to ``_VALUES`` different ones, then to 0.05 %."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.number = 0
        self._coarse = False

    def add(self, value: int) -> None:
        """Count a value."""
        self.number += 1
        self.total += value
        key = _rounded(value) if self._coarse else value
        self.counts[key] = self.counts.get(key, 0) + 1
        if len(self.counts) > _VALUES and not self._coarse:
            self._coarse = True
            fine, self.counts = self.counts, {}
            for each, count in fine.items():
                self.counts[_rounded(each)] = self.counts.get(_rounded(each), 0) + count

    def quantiles(self) -> list[int]:
        """Values at ``QUANTILES``: the smallest that this share of all does not exceed."""
        found, seen = [], 0
        values = iter(sorted(self.counts.items()))
        value = 0
        for share in QUANTILES:
            while seen < share * self.number - 1e-9:
                value, count = next(values)
                seen += count
            found.append(value)
        return found

    @property
    def mean(self) -> float:
        """The mean, exact."""
        return self.total / self.number if self.number else 0.0


def _rounded(value: int) -> int:
    low = max(0, value.bit_length() - 11)
    return value >> low << low


@dataclass(slots=True)
class _Line:
    """The state of a session or of a sub-agent."""

    tokens: int = 0
    """Of the last prompt."""
    output: int = 0
    turns: int = 0
    ended_s: float | None = None


@dataclass(slots=True)
class Figures:
    """Counts and sums over the calls of a file."""

    blocks: tuple[int, ...]
    """Block sizes that reuse is counted in."""
    rows: int = 0
    sub_agents: int = 0
    input: Histogram = field(default_factory=Histogram)
    output: Histogram = field(default_factory=Histogram)
    turns: Histogram = field(default_factory=Histogram)
    wait_ms: Histogram = field(default_factory=Histogram)
    first_s: float | None = None
    last_s: float | None = None
    largest: int = 0
    """Tokens of prompt and answer of the largest call."""
    largest_at: str = ""
    computed: list[int] = field(default_factory=list)
    """Tokens left to compute, by block size."""
    block_tokens: int = 0
    """Of the file, where it has blocks."""
    _ids: Known = field(default_factory=Known)
    _ends: Known = field(default_factory=Known)
    _names: Known = field(default_factory=Known)
    _heads: Known = field(default_factory=Known)
    _trie: Trie = field(default_factory=Trie)
    _unnamed: int = 0
    _local: str = ""
    """Session whose own ids are counted from ``_base``."""
    _base: int = _COMMON
    _top: int = _COMMON
    _lines: dict[tuple[str, str], _Line] = field(default_factory=dict)

    @property
    def sessions(self) -> int:
        """Sessions, sub-agents not counted."""
        return self._names.count + self._unnamed

    @property
    def is_exact(self) -> bool:
        """Whether no table of known ids had to forget anything."""
        return all(each.is_exact for each in (self._ids, self._ends, self._names, self._heads))

    @property
    def reuse(self) -> dict[int, float]:
        """Reuse ceiling by block size."""
        return {block: 1 - left / self.input.total for block, left in zip(self.blocks, self.computed, strict=True)}

    def add(self, call: Call) -> None:
        """Count one call."""
        self.rows += 1
        line = self._line(call)
        tokens = line.tokens + line.output + call.input_tokens if call.adds else call.input_tokens
        shared, is_known = self._shared(call, line, tokens)
        self.computed = self.computed or [0] * len(self.blocks)
        if not is_known:
            for index, block in enumerate(self.blocks):
                self.computed[index] += tokens - shared // block * block
        self.input.add(tokens)
        self.output.add(call.output_tokens)
        if tokens + call.output_tokens > self.largest:
            self.largest, self.largest_at = tokens + call.output_tokens, call.row.where
        self._times(call, line)
        line.tokens, line.output, line.turns = tokens, call.output_tokens, line.turns + 1

    def end(self) -> None:
        """Count the turns of what is still open."""
        for line in self._lines.values():
            self.turns.add(line.turns)
        self._lines.clear()

    def _line(self, call: Call) -> _Line:
        if not call.session:
            self._unnamed += 1
            self.turns.add(1)
            return _Line()
        key = call.session, call.line
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
            if call.line:
                self.sub_agents += 1
            else:
                self._names.add([_number(call.session)])
            if len(self._lines) > _LINES:
                for old in list(islice(self._lines, _LINES // 2)):
                    self.turns.add(self._lines.pop(old).turns)
        return line

    def _times(self, call: Call, line: _Line) -> None:
        wait = call.delay_s
        if call.at_s is not None:
            self.first_s = call.at_s if self.first_s is None else min(self.first_s, call.at_s)
            self.last_s = call.at_s if self.last_s is None else max(self.last_s, call.at_s)
            if wait is None and line.ended_s is not None:
                wait = max(0.0, call.at_s - line.ended_s)
        if line.turns and wait is not None:
            self.wait_ms.add(round(1000 * wait))
        line.ended_s = None if call.at_s is None else call.at_s + (call.took_s or 0.0)

    def _shared(self, call: Call, line: _Line, tokens: int) -> tuple[int, bool]:
        """Tokens of the prompt that were there before, and whether an equal prompt was."""
        if call.content is not None:
            shared, is_known = self._trie.match(call.content)
            self._trie.insert(call.content, is_prompt=True)
            return shared, is_known
        if call.ids is not None and not (call.adds and line.turns):
            return self._shared_blocks(call, call.ids)
        if line.turns and (call.adds or call.kept_tokens >= 0):
            shared = min(line.tokens, tokens, REPEATS_ALL if call.adds else call.kept_tokens)
            return shared, shared == tokens == line.tokens
        if call.group and not line.turns:
            head = _number(f"{call.group} {tokens}")
            is_known = head in self._heads
            self._heads.add([head])
            return 0, is_known
        return 0, False

    def _shared_blocks(self, call: Call, ids: Sequence[int]) -> tuple[int, bool]:
        block = call.block_tokens
        if block == 1:
            ids, block = _chained(ids), _TOKENS
        self.block_tokens = block
        if call.is_local:
            ids = self._global(call, ids)
        known = self._ids.leading(ids)
        self._ids.add(ids[known:])
        rest = call.input_tokens % block
        shared = min(known * block, call.input_tokens)
        if rest:
            return shared, known == len(ids) > call.input_tokens // block
        end = [ids[-1]] if ids else []
        is_known = bool(end) and end[0] in self._ends
        self._ends.add(end)
        return shared, is_known

    def _global(self, call: Call, ids: Sequence[int]) -> list[int]:
        """Ids of a session as ids of the file; sessions stand one after the other."""
        if call.session != self._local:
            self._local, self._base = call.session, self._top + 1
        self._top = max(self._top, self._base + max(ids, default=0))
        size = min(call.common_blocks, len(ids))
        first = (call.common_blocks + 1) << 16 if call.line else 0
        return [*range(first, first + size), *(self._base + each for each in ids[size:])]


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _chained(tokens: Sequence[int]) -> list[int]:
    """Token ids as ids of blocks: each a hash of all up to its end, the last one maybe of a partial block."""
    digest = hashlib.blake2b(digest_size=8)
    ids: list[int] = []
    for start in range(0, len(tokens), _TOKENS):
        digest.update(array("q", tokens[start : start + _TOKENS]).tobytes())
        ids.append(int.from_bytes(digest.digest(), "little"))
    return ids


def figures(calls: Iterable[Call], blocks: tuple[int, ...]) -> Figures:
    """The figures of a file."""
    found = Figures(blocks)
    for call in calls:
        found.add(call)
    found.end()
    return found
