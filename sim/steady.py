"""What of a replication is measured: all of it, or what is left when a given time at its start is cut off.

Stored tables always cover the whole. The time is the same for every arm, so arms lose what was submitted, decided or
begun in the same stretch.
"""

from dataclasses import replace

import polars as pl

from sim.log.frames import Tables


def without_start(tables: Tables, warm_up_s: float | None) -> Tables:
    """The tables without what was submitted, decided or begun before the cut; the makespan begins there."""
    if not warm_up_s:
        return tables
    ends = tables.replications.select("pair", from_s=pl.col("start_s") + warm_up_s)

    def later(frame: pl.DataFrame, column: str) -> pl.DataFrame:
        joined = frame.join(ends, on="pair", maintain_order="left")
        return joined.filter(pl.col(column) >= pl.col("from_s")).drop("from_s")

    left = pl.max_horizontal(pl.col("makespan_s") - warm_up_s, 0.0)
    return replace(
        tables,
        requests=later(tables.requests, "submitted_s"),
        decisions=later(tables.decisions, "at_s"),
        groups=later(tables.groups, "arrived_s"),
        engines=later(tables.engines, "start_s"),
        replications=tables.replications.with_columns(makespan_s=left, start_s=pl.col("start_s") + warm_up_s),
    )
