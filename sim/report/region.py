"""How much of the simulated time lies inside the region that the cost model was fitted in.

A busy row is inside where every quantity of its steps lies between the least and the most that was measured; a quantity
that a step does not have (no chunk, no decode) says nothing. An engine without a stated region is outside all the time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

Region = Mapping[str, tuple[float, float]]

_CONTEXT: Final = pl.col("context") + pl.col("decodes") * (pl.col("steps") - 1) / 2
QUANTITIES: Final = {
    "tokens": pl.col("tokens"),
    "chunks": pl.col("chunks"),
    "decodes": pl.col("decodes"),
    "mean_context": pl.when(pl.col("decodes") > 0).then(_CONTEXT / pl.col("decodes")).otherwise(0),
}
"""Of a step; the context is that in the middle of its run of equal steps."""
UNSTATED: Final = "no region stated"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Busy time against the region, as shares of busy time."""

    inside_share: float
    outside: dict[str, float]
    """By quantity; a step may be outside in several."""
    reached: dict[str, tuple[float, float]]
    """Least and most of each quantity that the run reached."""


def coverage(engines: pl.DataFrame, regions: Sequence[Region | None]) -> Coverage:
    """Busy rows of one arm against the region of each engine, by its number; the last region stands for the rest."""
    busy = engines.filter(pl.col("kind") == "busy").with_columns(length=pl.col("end_s") - pl.col("start_s"))
    total = _seconds(busy)
    if not total:
        return Coverage(1.0, {}, {})
    marked = pl.concat([busy.select("length"), _flags(busy, regions)], how="horizontal")
    outside = {name: _seconds(marked.filter(name)) / total for name in marked.columns[1:]}
    any_out = _seconds(marked.filter(pl.any_horizontal(pl.exclude("length")))) / total
    return Coverage(
        1 - any_out,
        {name: share for name, share in outside.items() if share > 0},
        {name: _reached(busy.select(each).to_series()) for name, each in QUANTITIES.items()},
    )


def outside(engines: pl.DataFrame, regions: Sequence[Region | None]) -> pl.Series:
    """By row of the engines table: whether it is busy outside the region of its engine."""
    far = _flags(engines, regions).select(pl.any_horizontal(pl.all())).to_series()
    return far & (engines["kind"] == "busy")


def outside_by_pair(engines: pl.DataFrame, regions: Sequence[Region | None]) -> pl.DataFrame:
    """``pair`` and ``outside``, the share of its busy time outside the region."""
    length = pl.col("end_s") - pl.col("start_s")
    busy = engines.with_columns(far=outside(engines, regions)).filter(pl.col("kind") == "busy")
    return busy.group_by("pair").agg(outside=length.filter("far").sum() / length.sum()).sort("pair")


def _flags(engines: pl.DataFrame, regions: Sequence[Region | None]) -> pl.DataFrame:
    """By row, a column a quantity: whether it lies outside; and one that says that no region is stated."""
    limits = pl.DataFrame(
        [
            {"engine": index, UNSTATED: region is None}
            | {f"{name}_{end}": _end(region, name, at) for name in QUANTITIES for at, end in enumerate(("lo", "hi"))}
            for index, region in enumerate(regions)
        ]
    )
    rows = engines.select(pl.col("engine").clip(upper_bound=len(regions) - 1), **QUANTITIES)
    known = rows.join(limits, on="engine", how="left", maintain_order="left")
    flags = {name: ~_within(name) for name in QUANTITIES} | {UNSTATED: pl.col(UNSTATED)}
    return known.select(**{name: flag.fill_null(value=False) for name, flag in flags.items()})


def _seconds(rows: pl.DataFrame) -> float:
    return float(rows["length"].to_numpy().sum())


def _within(name: str) -> pl.Expr:
    value = pl.col(name)
    return (value <= 0) | value.is_between(pl.col(f"{name}_lo"), pl.col(f"{name}_hi"))


def _end(region: Region | None, name: str, at: int) -> float | None:
    return None if region is None or name not in region else float(region[name][at])


def _reached(values: pl.Series) -> tuple[float, float]:
    used = values.filter(values > 0).to_list()
    return (float(min(used)), float(max(used))) if used else (0.0, 0.0)
