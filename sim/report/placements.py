"""Where few keys fall: the classes of a placement, how likely each is, and what the arm gains within each.

With K keys on N engines a placement is described by the number of keys per engine, largest first: four keys on two
engines fall 2:2, 3:1 or 4:0. A hash that places each key uniformly and alone gives the class with counts c_1 .. c_N

    K! / (c_1! .. c_N!)  *  N! / (m_0! m_1! ..)  /  N**K          m_j: engines that hold j keys

A key's engine is that of its first request. Left out: a ring whose arcs differ, which places keys less evenly.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import factorial, prod
from typing import Literal

import polars as pl

MOST_KEYS = 8
MOST_ENGINES = 4

Key = Literal["session", "group"]


@dataclass(frozen=True, slots=True)
class Placed:
    """The placement class of each pair of one arm."""

    keys: int
    engines: int
    classes: pl.DataFrame
    """``pair`` and ``class``."""


def place(requests: pl.DataFrame, key: Key, engines: int) -> Placed | None:
    """The class of each pair; None where there are too many keys or engines for classes to say anything."""
    if not 2 <= engines <= MOST_ENGINES:
        return None
    first = (
        requests.filter(pl.col("engine") >= 0)
        .sort("pair", key, "turn", "request")
        .group_by("pair", key, maintain_order=True)
        .agg(pl.col("engine").first())
    )
    counts = first.group_by("pair", "engine").len().sort("pair", "len", descending=[False, True])
    by_pair = counts.group_by("pair", maintain_order=True).agg("len")
    held = [[*counts, *[0] * (engines - len(counts))] for counts in by_pair["len"].to_list()]
    keys = {sum(counts) for counts in held}
    if len(keys) != 1 or not 2 <= max(keys) <= MOST_KEYS:
        return None
    names = pl.Series("class", [_name(counts) for counts in held], dtype=pl.String)
    return Placed(max(keys), engines, by_pair.select("pair", names))


def exact(keys: int, engines: int) -> dict[str, float]:
    """Probability of each class under a uniform hash, most even class first."""
    classes = {}
    for held in _partitions(keys, engines, keys):
        orders = factorial(keys) // prod(factorial(count) for count in held)
        owners = factorial(engines) // prod(factorial(alike) for alike in Counter(held).values())
        classes[_name(held)] = float(Fraction(orders * owners, engines**keys))
    return dict(reversed(classes.items()))


def _partitions(total: int, parts: int, largest: int) -> Iterator[list[int]]:
    """Ways to write ``total`` as ``parts`` counts that do not grow, none above ``largest``."""
    if parts == 0:
        if total == 0:
            yield []
        return
    for first in range(min(total, largest), -1, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield [first, *rest]


def _name(counts: list[int]) -> str:
    return ":".join(str(count) for count in counts)
