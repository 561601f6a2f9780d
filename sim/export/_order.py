"""The order of runs: ABBA or BAAB in each block of two pairs, drawn from the scenario's seed.

In a block each arm runs once in its first pair and once, the other way round, in its second, so a drift of the machine
that is straight within the block falls on all arms alike. Which arm opens a block is drawn, so that nobody can arrange
it and a drift with the period of a block does not favour one. With more arms than two a block is a permutation and its
reverse. The draws of a block depend on its number alone: a longer campaign begins as the shorter one does. A last pair
without a partner is half of a block.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from sim.rng import Streams

BLOCK: Final = 2
"""Pairs of a block."""
HEAD: Final = ("run", "block", "pair", "position", "arm", "trace", "placement", "cache")
COLD: Final = "cold: flush every engine; the hit rate over the first requests is below 1 %"
"""State of the caches before each run, as the simulator begins every replication."""


def order_of_runs(arms: Sequence[str], pairs: int, seed: int, first: int = 0) -> list[list[str]]:
    """For each pair from the first on the arms in the order in which they run."""
    return list(islice(_orders(arms, seed), first, first + pairs))


def _orders(arms: Sequence[str], seed: int) -> Iterator[list[str]]:
    block = 0
    while True:
        first = list(arms)
        Streams(seed, block).single("order-of-runs").shuffle(first)
        yield first
        yield first[::-1]
        block += 1


def trace_name(form: str, pair: int) -> str:
    """Name of the trace of a pair."""
    return f"{form}-{pair}.jsonl"


def run_order(
    order: Sequence[Sequence[str]], placements: Sequence[Mapping[str, str]], form: str, first: int = 0
) -> Iterator[str]:
    """The rows of the order of runs, which an operator ticks off; ``first`` is the number of the first pair."""
    yield _row(*HEAD)
    run = 0
    for pair, (arms, placed) in enumerate(zip(order, placements, strict=True), first):
        for position, arm in enumerate(arms):
            yield _row(run, pair // BLOCK, pair, position, arm, trace_name(form, pair), placed[arm], COLD)
            run += 1


def _row(*values: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
