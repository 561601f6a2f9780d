"""Where few keys fall: the classes of a placement, how likely each is, and what the arm gains within each.

Classes and their exact probabilities: ``sim.placement``. A key's engine is that of its first request.
"""

from dataclasses import dataclass
from typing import Literal

import polars as pl

from sim.placement import MOST_ENGINES, MOST_KEYS, class_name, strata
from sim.stats.strata import Booleans

Key = Literal["session", "group"]


@dataclass(frozen=True, slots=True)
class Placed:
    """The placement class of each pair of one arm."""

    keys: int
    engines: int
    classes: pl.DataFrame
    """``pair`` and ``class``."""

    def strata(self, pairs: pl.Series) -> tuple[list[Booleans], list[float]]:
        """For each stratum of ``sim.placement`` which of these pairs are in it, and the exact shares."""
        known = pl.DataFrame({"pair": pairs}).join(self.classes, on="pair", how="left", maintain_order="left")["class"]
        found = strata(self.keys, self.engines)
        return [known.is_in(list(each.classes)).fill_null(False).to_numpy() for each in found], [
            each.share for each in found
        ]


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
    names = pl.Series("class", [class_name(counts) for counts in held], dtype=pl.String)
    return Placed(max(keys), engines, by_pair.select("pair", names))
