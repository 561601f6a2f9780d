"""Where few keys fall on few engines: the classes of a placement and their exact probabilities.

With K keys on N engines a placement is described by the number of keys per engine, largest first: four keys on two
engines fall 2:2, 3:1 or 4:0. A hash that places each key uniformly and alone gives the class with counts c_1 .. c_N

    K! / (c_1! .. c_N!)  *  N! / (m_0! m_1! ..)  /  N**K          m_j: engines that hold j keys

and the fullest engine holds at most m keys with probability K!/N**K [x**K] (sum_{j<=m} x**j/j!)**N.

Blocking gives each class a planned number of pairs. Pair i of a campaign gets the class that lags most behind its
share of i + 1 pairs, so every prefix of a campaign is as balanced as whole pairs allow, and the plan of a pair does not
depend on how many follow. Classes rarer than ``LEAST_SHARE`` are lumped with the less even ones next to them: a class
that comes once in ten thousand pairs is drawn as often as its lump says, by its own chance.

Left out: a ring whose arcs differ, which places keys less evenly.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import comb, factorial, prod
from typing import Final

MOST_KEYS: Final = 8
MOST_ENGINES: Final = 4
LEAST_SHARE: Final = 0.05
"""Smallest probability of a stratum of its own."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Placement classes that are planned together."""

    name: str
    """The classes, as in ``2:2`` or ``4:0`` or ``5:3 6:2``."""
    classes: frozenset[str]
    share: float
    """Exact probability under a uniform hash."""


def class_name(counts: Sequence[int]) -> str:
    """The class of keys per engine, in any order of the engines."""
    return ":".join(str(count) for count in sorted(counts, reverse=True))


def has_classes(keys: int, engines: int) -> bool:
    """Whether there are few enough keys and engines for classes to say anything."""
    return 2 <= keys <= MOST_KEYS and 2 <= engines <= MOST_ENGINES


@lru_cache(maxsize=64)
def exact(keys: int, engines: int) -> dict[str, float]:
    """Probability of each class under a uniform hash, most even class first."""
    classes = {}
    for held in _partitions(keys, engines, keys):
        orders = factorial(keys) // prod(factorial(count) for count in held)
        owners = factorial(engines) // prod(factorial(alike) for alike in Counter(held).values())
        classes[class_name(held)] = float(Fraction(orders * owners, engines**keys))
    return dict(reversed(classes.items()))


@lru_cache(maxsize=64)
def strata(keys: int, engines: int) -> tuple[Stratum, ...]:
    """The classes, rare ones lumped, most even first; their shares add up to 1."""
    lumps: list[tuple[list[str], float]] = []
    for name, share in reversed(exact(keys, engines).items()):
        if lumps and lumps[-1][1] < LEAST_SHARE:
            lumps[-1] = ([name, *lumps[-1][0]], lumps[-1][1] + share)
        else:
            lumps.append(([name], share))
    if len(lumps) > 1 and lumps[-1][1] < LEAST_SHARE:  # the most even class may be rare too
        (even, more), (names, share) = lumps.pop(), lumps.pop()
        lumps.append((even + names, more + share))
    return tuple(Stratum(" ".join(names), frozenset(names), share) for names, share in reversed(lumps))


def plan(shares: Sequence[float], pairs: int) -> list[int]:
    """Which stratum each of the first pairs belongs to; a longer plan starts with the shorter one."""
    counts = [0] * len(shares)
    chosen = []
    for pair in range(pairs):
        lag = [share * (pair + 1) - count for share, count in zip(shares, counts, strict=True)]
        index = max(range(len(shares)), key=lambda each: lag[each])
        counts[index] += 1
        chosen.append(index)
    return chosen


def planned(keys: int, engines: int, pair: int) -> Stratum:
    """The stratum of one pair of a blocked campaign."""
    known = strata(keys, engines)
    return known[_plan(keys, engines, -(-(pair + 1) // 256) * 256)[pair]]


@lru_cache(maxsize=64)
def _plan(keys: int, engines: int, pairs: int) -> list[int]:
    return plan([stratum.share for stratum in strata(keys, engines)], pairs)


def fullest(keys: int, engines: int) -> list[float]:
    """Probability that the fullest engine holds exactly m keys, m = 0 .. keys."""
    below = [float(Fraction(_at_most(keys, engines, m), engines**keys)) for m in range(keys + 1)]
    return [below[0], *(high - low for low, high in pairwise(below))]


def max_over_mean(keys: int, engines: int) -> float:
    """Expected number of keys of the fullest engine over the mean."""
    return sum(m * p for m, p in enumerate(fullest(keys, engines))) * engines / keys


def p_fullest(keys: int, engines: int, share: float) -> float:
    """Probability that one engine holds at least this share of the keys."""
    return sum(p for m, p in enumerate(fullest(keys, engines)) if m >= share * keys - 1e-9)


def _at_most(keys: int, engines: int, most: int) -> int:
    """Ways to place distinct keys so that no engine holds more than ``most``."""
    ways = [1] + [0] * keys  # ways to place k keys on the engines so far
    rows = [[comb(k, j) for j in range(k + 1)] for k in range(keys + 1)]
    for _ in range(engines):
        ways = [sum(rows[k][j] * ways[k - j] for j in range(min(k, most) + 1)) for k in range(keys + 1)]
    return ways[keys]


def _partitions(total: int, parts: int, largest: int) -> Iterator[list[int]]:
    """Ways to write ``total`` as ``parts`` counts that do not grow, none above ``largest``."""
    if parts == 0:
        if total == 0:
            yield []
        return
    for first in range(min(total, largest), -1, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield [first, *rest]
