"""Times of single operators on one GPU, between the points at which they were measured.

Tables of ai-dynamo/aiconfigurator (vLLM 0.14.0, bf16), one CSV an operator. Lookups take arrays and give milliseconds.
Beyond a table's end its last slope goes on.

    gemm(m, n, k)            log-log in m, straight in n and k
    prefill(q, heads, kv)    causal attention of one prompt; log-log in q, straight in heads
    decode(n, c, heads, kv)  attention of n sequences of c tokens; log-log in c, straight in n and heads
    allreduce(elements)      the custom kernel as a CUDA graph replays it; log-log
    experts(tokens)          all routed experts of a layer, their tokens skewed as in power_law_1.01; log-log
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from sim.calibration.steps import Floats
from sim.calibration.tables import Column, choose, read_table
from sim.errors import ScenarioError

SKEW: Final = "power_law_1.01"
ALLREDUCE: Final = "vllm_graph"
MOST_KV_HEADS: Final = 8
"""Most KV heads of the decode table; more of them take longer in proportion."""


def loglog(x: Floats, xs: Floats, ys: Floats) -> Floats:
    """Interpolate straight between logarithms, and go on with the end slopes."""
    order = np.argsort(xs)
    return np.asarray(np.exp(straight(np.log(x), np.log(xs[order]), np.log(ys[order]))))


def straight(x: Floats, xs: Floats, ys: Floats) -> Floats:
    """Interpolate between points in ascending order, and go on with the end slopes."""
    right = np.clip(np.searchsorted(xs, x), 1, len(xs) - 1)
    left = right - 1
    return np.asarray(ys[left] + (ys[right] - ys[left]) * (x - xs[left]) / (xs[right] - xs[left]))


class Operators:
    """The operator tables of one device, in a folder of ``op_*.csv`` files, plain or gzip."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        self.device = device

    def _table(self, name: str) -> dict[str, Column]:
        found = sorted(self.folder.glob(f"{name}.csv*"))
        if not found:
            raise ScenarioError(f"{self.folder} holds no {name}.csv")
        rows = choose(read_table(found[0]), device=self.device)
        if not len(rows["ms"]):
            raise ScenarioError(f"{found[0]} holds no rows of {self.device}")
        return rows

    @cached_property
    def _gemm(self) -> tuple[Floats, Floats, Floats]:
        """Sizes of m; sizes of n and k; times by m, n, k, a hole where nothing was measured."""
        table = self._table("op_gemm_bf16")
        m, n = np.unique(table["m"]), np.unique(table["n"])
        times = np.full((len(m), len(n), len(n)), np.nan)
        places = (np.searchsorted(axis, table[name]) for axis, name in ((m, "m"), (n, "n"), (n, "k")))
        times[tuple(places)] = table["ms"]
        return m, n, times

    def gemm(self, m: Floats, n: float, k: float) -> Floats:
        """(m, k) times (k, n)."""
        sizes, sides, times = self._gemm
        (a, b), (c, d) = _around(sides, n), _around(sides, k)
        corners = times[:, [a, b]][:, :, [c, d]]
        across = corners[:, 0] + (corners[:, 1] - corners[:, 0]) * (n - sides[a]) / (sides[b] - sides[a])
        curve = across[:, 0] + (across[:, 1] - across[:, 0]) * (k - sides[c]) / (sides[d] - sides[c])
        return loglog(np.maximum(m, 1), sizes, curve)

    @cached_property
    def _prefill(self) -> dict[str, Column]:
        return choose(self._table("op_attention_prefill"), batch_size=1.0)

    def prefill(self, q: Floats, heads: float, kv_heads: float) -> Floats:
        """One prompt of q tokens without a prefix."""

        def curve(count: float) -> Floats:
            rows = choose(self._prefill, num_heads=count, num_key_value_heads=kv_heads)
            return loglog(np.maximum(q, 1), rows["q_len"], rows["ms"])

        known = np.unique(choose(self._prefill, num_key_value_heads=kv_heads)["num_heads"])
        return _between(heads, known, curve)

    @cached_property
    def _decode(self) -> dict[str, Column]:
        return self._table("op_attention_decode")

    def decode(self, n: Floats, context: Floats, heads: float, kv_heads: float) -> Floats:
        """Attention of n sequences of the same context."""
        kv = min(kv_heads, MOST_KV_HEADS)
        tokens = np.maximum(context, 1)

        def surface(count: float) -> Floats:
            rows = choose(self._decode, num_heads=count, num_key_value_heads=kv)
            batches = np.unique(rows["batch_size"])
            each = [choose(rows, batch_size=batch) for batch in batches]
            times = np.stack([_context(tokens, one["kv_len"], one["ms"]) for one in each])
            right = np.clip(np.searchsorted(batches, n), 1, len(batches) - 1)
            low, high = (np.take_along_axis(times, at[None, :], axis=0)[0] for at in (right - 1, right))
            share = (n - batches[right - 1]) / (batches[right] - batches[right - 1])
            return np.asarray(low + (high - low) * share)

        known = np.unique(choose(self._decode, num_key_value_heads=kv)["num_heads"])
        return _between(heads, known, surface) * kv_heads / kv

    def allreduce(self, elements: Floats, gpus: int) -> Floats:
        """Sum of a 2-byte array over the GPUs of a group."""
        rows = choose(self._table("op_allreduce"), impl=ALLREDUCE, num_gpus=float(gpus))
        return loglog(np.maximum(elements, 1), rows["elements_bf16"], rows["ms"])

    def experts(self, tokens: Floats, hidden: float, width: float, chosen: float, count: float, tp: int) -> Floats:
        """The routed experts of one layer, each cut over the GPUs of a group."""
        rows = choose(
            self._table("op_moe_bf16"),
            hidden_size=hidden,
            inter_size=width,
            topk=chosen,
            num_experts=count,
            moe_tp_size=float(tp),
            moe_ep_size=1.0,
            distribution=SKEW,
        )
        if not len(rows["ms"]):
            raise ScenarioError(f"no experts of hidden {hidden:g}, width {width:g}, {chosen:g} of {count:g}, tp {tp}")
        return loglog(np.maximum(tokens, 1), rows["num_tokens"], rows["ms"])


def _around(sides: Floats, size: float) -> tuple[int, int]:
    right = int(np.clip(np.searchsorted(sides, size), 1, len(sides) - 1))
    return right - 1, right


def _between(heads: float, known: Floats, curve: Callable[[float], Floats]) -> Floats:
    """A curve at a number of heads: measured, or straight between its neighbours."""
    left, right = _around(known, heads)
    for at in (left, right):
        if known[at] == heads:
            return curve(heads)
    low, high = (curve(float(known[at])) for at in (left, right))
    return np.asarray(low + (high - low) * (heads - known[left]) / (known[right] - known[left]))


def _context(tokens: Floats, lengths: Floats, ms: Floats) -> Floats:
    """Log-log within the table; beyond it straight, since a longer context reads in proportion more."""
    order = np.argsort(lengths)
    x, y = lengths[order], ms[order]
    slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
    return np.where(tokens <= x[-1], loglog(tokens, x, y), y[-1] + slope * (tokens - x[-1]))
