"""Content of a prompt, run-length coded.

A prompt is a short tuple of spans ``(source, length)``: the first ``length`` tokens (or characters) of a named
stream. A rollout prompt is ``((system, 11000), (group, 1300), (session, 42000))``; the next turn has the same spans,
the last one longer. Two prompts share exactly as many tokens as their spans agree, so matching, inserting and hashing
cost O(number of spans), about three, whatever the length.

Canonical form: no empty span, neighbours of one source merged. Sources are integers; who makes content sees to it that
equal text has equal spans (``Spans`` below does it for texts and for chains of block ids).

Left out: token values. Nothing here knows what a token says, only where it comes from.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

Span = tuple[int, int]
Content = tuple[Span, ...]

PRIVATE: Final = -1
"""Source of tokens that no later prompt repeats: they take room in a cache and are never matched."""


def canonical(spans: Iterable[Span]) -> Content:
    """Drop empty spans and merge neighbours of one source."""
    merged: list[Span] = []
    for source, length in spans:
        if length < 0:
            raise ValueError(f"a span cannot have {length} tokens")
        if length == 0:
            continue
        if merged and merged[-1][0] == source:
            merged[-1] = (source, merged[-1][1] + length)
        else:
            merged.append((source, length))
    return tuple(merged)


def count(content: Content) -> int:
    """Tokens in the content."""
    total = 0
    for _, length in content:
        total += length
    return total


def common_prefix(one: Content, other: Content) -> int:
    """Tokens that two contents share from the start: up to the first span whose source or length differs."""
    shared = 0
    for (source, length), (other_source, other_length) in zip(one, other, strict=False):
        if source != other_source:
            break
        if length != other_length:
            return shared + min(length, other_length)
        shared += length
    return shared


def cut(content: Content, tokens: int) -> Content:
    """The first ``tokens`` tokens; the whole content if it is shorter."""
    spans: list[Span] = []
    left = tokens
    for source, length in content:
        if left <= length:
            if left > 0:
                spans.append((source, left))
            break
        spans.append((source, length))
        left -= length
    return tuple(spans)


def extend(content: Content, source: int, tokens: int) -> Content:
    """The content with ``tokens`` more tokens of ``source`` at its end."""
    if tokens == 0:
        return content
    if content and content[-1][0] == source:
        return (*content[:-1], (source, content[-1][1] + tokens))
    return (*content, (source, tokens))


class Spans:
    """Turns sequences of symbols (characters, chained block ids) into content, so that prefixes stay comparable.

    Two sequences encoded by the same object share as many symbols as their contents agree. A sequence that leaves
    another one starts a new source at that length of its parent; cost is O(symbols) a sequence, paid once, at load.
    """

    def __init__(self, first_source: int = 0) -> None:
        self._next = first_source
        self._branches: dict[tuple[int, int, Hashable], int] = {}
        self._symbols: dict[int, Sequence[Hashable]] = {}

    def encode(self, symbols: Sequence[Hashable], tokens_per_symbol: int = 1) -> Content:
        """Content of a sequence; each symbol counts as ``tokens_per_symbol`` tokens."""
        spans: list[Span] = []
        at, parent, offset = 0, -1, 0
        while at < len(symbols):
            key = (parent, offset, symbols[at])
            source = self._branches.get(key)
            if source is None:
                source = self._next
                self._next += 1
                self._branches[key] = source
                self._symbols[source] = symbols[at:]
            known = self._symbols[source]
            length = _agreeing(known, symbols, at)
            if length == len(known) and at + length < len(symbols):
                self._symbols[source] = known = symbols[at:]
                length = len(known)
            spans.append((source, length * tokens_per_symbol))
            at, parent, offset = at + length, source, length
        return tuple(spans)


def _agreeing(known: Sequence[Hashable], symbols: Sequence[Hashable], at: int) -> int:
    """How many symbols from ``at`` on are those of a known sequence; slices first, they compare fastest."""
    length, most = 0, min(len(known), len(symbols) - at)
    while length < most:
        end = min(length + 256, most)
        if known[length:end] == symbols[at + length : at + end]:
            length = end
            continue
        while known[length] == symbols[at + length]:
            length += 1
        break
    return length
