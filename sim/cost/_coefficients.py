"""The cost of one engine step, as the numbers that an engine multiplies.

A step computes prefill chunks (q new tokens on p cached ones) and n decodes (contexts c):

    N = sum q + n      tokens of the step          A = sum (q*p + q*(q+1)/2)   query-key pairs of the chunks
    C = sum c          context tokens it reads     K = number of chunks

    ticks = base[N] + pair*A + seq*n + ctx*C + chunk*K          base[N] = host0 + t0 + g(N)

g is piecewise linear. ``seq`` and ``chunk`` carry the host time of a sequence (host1) besides the GPU's. A step of no
tokens costs nothing. While the batch stands, only C moves, by n a step: k pure-decode steps cost
``k*t + ctx*n*k*(k-1)/2`` exactly, and that is what lets an engine jump.

Left out: attention of prefill and decode in one launch is not additive on a GPU (about 10 % of a mixed step, of both
signs), and decode batches padded to the next captured CUDA graph.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True)
class Coefficients:
    """Ticks of one step, linear in all that changes while a batch stands; ``base`` grows on demand."""

    t0: float
    """Ticks of the GPU in every step."""
    slopes: tuple[tuple[int, float], ...]
    """(from this total of tokens on, ticks a token), ascending, the first from 0."""
    pair: float = 0.0
    """Ticks of one query-key pair of a prefill chunk."""
    seq: float = 0.0
    """Ticks of one decoding sequence, host1 included."""
    ctx: float = 0.0
    """Ticks of one context token read by a decode."""
    chunk: float = 0.0
    """Ticks of one prefill chunk, host1 included."""
    host0: float = 0.0
    """Ticks of the host in every step."""
    host1: float = 0.0
    """Ticks of the host for each sequence and chunk of a step."""
    base: list[float] = field(default_factory=lambda: [0.0], repr=False)
    """``host0 + t0 + g(N)`` by N, as far as ``cover`` was asked; ``base[0]`` is 0."""
    _array: Floats = field(default_factory=lambda: np.zeros(1), repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Its terms alone travel between processes; ``base`` is found again where it is needed."""
        return _kept, (self.t0, self.slopes, self.pair, self.seq, self.ctx, self.chunk, self.host0, self.host1)

    def cover(self, tokens: int) -> None:
        """Extend ``base`` in place up to steps of ``tokens`` tokens; who holds the list sees it grow."""
        first = len(self.base)
        if tokens < first:
            return
        fixed = self.host0 + self.t0
        ends = [start for start, _ in self.slopes[1:]] + [max(tokens, self.slopes[-1][0])]
        before = 0.0
        for (start, slope), end in zip(self.slopes, ends, strict=True):
            known, last = max(first, start + 1), min(end, tokens)
            if known <= last:
                self.base += (fixed + before + slope * np.arange(known - start, last + 1 - start)).tolist()
            before += slope * (end - start)

    def array(self, tokens: int) -> Floats:
        """``base``, at least up to steps of ``tokens`` tokens, as an array that nobody may write to."""
        self.cover(tokens)
        if len(self._array) < len(self.base):
            self._array = np.array(self.base)
        return self._array

    def scaled(self, factor: float) -> "Coefficients":
        """The same cost, every time multiplied: an engine that is faster or slower than its like."""
        return Coefficients(
            t0=self.t0 * factor,
            slopes=tuple((start, slope * factor) for start, slope in self.slopes),
            pair=self.pair * factor,
            seq=self.seq * factor,
            ctx=self.ctx * factor,
            chunk=self.chunk * factor,
            host0=self.host0 * factor,
            host1=self.host1 * factor,
        )

    def step(self, chunks: list[tuple[int, int]], contexts: list[int]) -> float:
        """Ticks of one step of chunks ``(new tokens, cached tokens)`` and decodes by context: for tests and reports."""
        tokens = sum(new for new, _ in chunks) + len(contexts)
        if tokens == 0:
            return 0.0
        self.cover(tokens)
        pairs = sum(new * cached + new * (new + 1) // 2 for new, cached in chunks)
        reads = self.seq * len(contexts) + self.ctx * sum(contexts)
        return self.base[tokens] + self.pair * pairs + reads + self.chunk * len(chunks)


def shared(cost: Coefficients) -> Coefficients:
    """The one object of this process that holds these numbers: what it knows of ``base`` serves every replication."""
    return _kept(cost.t0, cost.slopes, cost.pair, cost.seq, cost.ctx, cost.chunk, cost.host0, cost.host1)


@lru_cache(maxsize=64)
def _kept(
    t0: float,
    slopes: tuple[tuple[int, float], ...],
    pair: float,
    seq: float,
    ctx: float,
    chunk: float,
    host0: float,
    host1: float,
) -> Coefficients:
    return Coefficients(t0, slopes, pair, seq, ctx, chunk, host0, host1)
