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

    def cover(self, tokens: int) -> None:
        """Extend ``base`` in place up to steps of ``tokens`` tokens; who holds the list sees it grow."""
        first = len(self.base)
        fixed = self.host0 + self.t0
        ends = [start for start, _ in self.slopes[1:]] + [max(tokens, self.slopes[-1][0])]
        before = 0.0
        for (start, slope), end in zip(self.slopes, ends, strict=True):
            known = max(first, start + 1)
            self.base.extend(fixed + before + slope * (n - start) for n in range(known, min(end, tokens) + 1))
            before += slope * (end - start)

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
