"""Divides the time of steps that were run into prefill, decode and host, exactly: integers that add up.

The decode share of a mixed step is the cost of the same step without its chunks; host time is
``host0 + host1*(n + K)``; what is left is prefill. The shares are taken of the cost by the model and scaled to the time
the step really took, which differs from it where a scenario adds noise to the speed of engines or steps.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.cost._coefficients import Coefficients, Floats

Ints = np.ndarray[Any, np.dtype[np.int64]]


def split(coefficients: Coefficients, columns: Mapping[str, Ints]) -> tuple[Ints, Ints, Ints]:
    """Ticks of prefill, decode and host of each row of an engines table; they add up to ``end - start`` of busy rows.

    A row is a run of ``steps`` equal steps, ``context`` and ``pairs`` those of the first. Idle rows get zeros. Rows of
    one engine, or of engines with the same coefficients.
    """
    steps, n, chunks = columns["steps"], columns["decodes"], columns["chunks"]
    busy = (steps > 0) & (columns["tokens"] > 0)
    total = np.where(busy, columns["end"] - columns["start"], 0)
    decode_cost = _decode(coefficients, columns)
    host_cost = steps * (coefficients.host0 + coefficients.host1 * (n + chunks))
    cost = np.where(chunks > 0, _whole(coefficients, columns), decode_cost + host_cost)
    scale = np.divide(total, cost, out=np.zeros(len(total)), where=cost > 0)
    host = np.clip(np.rint(host_cost * scale).astype(np.int64), 0, total)
    decode = np.clip(np.rint(decode_cost * scale).astype(np.int64), 0, total - host)
    # A step without chunks has no prefill to take what rounding leaves.
    decode = np.where(chunks > 0, decode, total - host)
    return total - decode - host, decode, host


def _decode(coefficients: Coefficients, columns: Mapping[str, Ints]) -> Floats:
    """GPU ticks of the same steps without their chunks; none where nothing decodes."""
    steps, n = columns["steps"], columns["decodes"]
    first = _base(coefficients, n) - coefficients.host0 + (coefficients.seq - coefficients.host1) * n
    first = first + coefficients.ctx * columns["context"]
    return np.asarray(np.where(n > 0, steps * first + coefficients.ctx * n * _rises(steps), 0.0))


def _whole(coefficients: Coefficients, columns: Mapping[str, Ints]) -> Floats:
    """Ticks of the steps with all they hold. A run of several steps with a chunk repeats full chunks of one prompt."""
    steps, n, chunks = columns["steps"], columns["decodes"], columns["chunks"]
    new = columns["tokens"] - n
    first = (
        _base(coefficients, columns["tokens"])
        + coefficients.pair * columns["pairs"]
        + coefficients.seq * n
        + coefficients.ctx * columns["context"]
        + coefficients.chunk * chunks
    )
    # Each step reads n more context tokens, and its chunk stands on ``new`` more cached ones.
    growth = coefficients.ctx * n + coefficients.pair * new * new
    return np.asarray(steps * first + growth * _rises(steps))


def _base(coefficients: Coefficients, tokens: Ints) -> Floats:
    return coefficients.array(int(tokens.max(initial=0)))[tokens]


def _rises(steps: Ints) -> Ints:
    """0 + 1 + ... + (steps - 1)."""
    return steps * (steps - 1) // 2
