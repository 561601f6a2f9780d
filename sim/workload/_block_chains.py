"""Turns the block ids of a trace into spans, by merging chains of blocks that never branch.

A trace names each block of a prompt by an id that stands for the block and all before it. Prompts that share k leading
ids share k blocks, and nothing more is known: where two chains part, the text may part anywhere in the block, so they
share whole blocks only. The last block of a prompt may be partial; it equals a partial block of the same id and length,
and never a part of a full one.
"""

from collections.abc import Hashable, Sequence

from policies._content import Content, Spans


class BlockChains:
    """Encodes the prompts of one trace; those encoded by one object are comparable."""

    def __init__(self, block_tokens: int) -> None:
        """Blocks of the trace hold ``block_tokens`` tokens."""
        self._block = block_tokens
        self._spans = Spans()

    def encode(self, ids: Sequence[int], tokens: int) -> Content:
        """Content of a prompt of ``tokens`` tokens; ``ids`` names its blocks, the last one maybe partial."""
        rest = tokens % self._block
        symbols: list[Hashable] = list(ids)
        if rest:
            symbols[-1] = (ids[-1], rest)
        content = self._spans.encode(symbols, self._block)
        if not rest:
            return content
        # A partial block ends its chain, so cutting the last span short moves nothing that follows.
        source, length = content[-1]
        return (*content[:-1], (source, length - self._block + rest))
