"""Sessions that change engines, what that costs, and how long the fleet takes to get over a change of its members."""

import polars as pl

from sim.log.frames import Tables

WINDOW = 50
"""Requests whose common hit rate is watched around a change."""
RECOVERED = 0.9
"""Share of the hit rate from before at which the fleet has recovered."""


def with_moves(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests with ``is_later``, ``is_moved`` and ``reprefilled_tokens``.

    A later turn is one whose session ran a turn before; it has moved where that ran on another engine. Reprefilled are
    the tokens of a moved turn's prompt that the turn before had too, and that its own engine does not have cached.
    """
    order = ["pair", "session", "turn", "attempt"]
    before = requests.select(*order, "engine", "prompt_tokens").sort(order)
    known = pl.col("engine") >= 0
    last = before.with_columns(
        pl.when(known).then(pl.col("engine")).shift(1).over("pair", "session").alias("engine_before"),
        pl.col("prompt_tokens").shift(1).over("pair", "session").alias("prompt_before"),
    ).select(*order, "engine_before", "prompt_before")
    is_later = pl.col("engine_before").is_not_null() & known & pl.col("scheduled_s").is_not_null()
    is_moved = is_later & (pl.col("engine") != pl.col("engine_before"))
    repeated = pl.min_horizontal("prompt_before", "prompt_tokens") - pl.col("cached_tokens")
    return requests.join(last, on=order, how="left", maintain_order="left").with_columns(
        is_later=is_later,
        is_moved=is_moved,
        reprefilled_tokens=pl.when(is_moved).then(pl.max_horizontal(repeated, 0)).otherwise(0),
    )


def recoveries(tables: Tables) -> pl.DataFrame:
    """``pair``, ``at_s`` and ``recovery_s`` of each change of the fleet's members, in order of time.

    The time until the hit rate over the last 50 admitted requests is again 90 % of what it was over the 50 before the
    change; null where it is not before the end, or where nothing was cached before.
    """
    rows = []
    of_members = tables.changes.filter(pl.col("change").cast(pl.String) != "flush")
    for pair, at_s in of_members.select("pair", "at_s").iter_rows():
        seen = tables.requests.filter(pl.col("pair") == pair, pl.col("scheduled_s").is_not_null()).sort("scheduled_s")
        rows.append({"pair": pair, "at_s": at_s, "recovery_s": _recovery(seen, at_s)})
    return pl.DataFrame(rows, schema={"pair": pl.Int64, "at_s": pl.Float64, "recovery_s": pl.Float64})


def _recovery(seen: pl.DataFrame, at_s: float) -> float | None:
    before = seen.filter(pl.col("scheduled_s") <= at_s).tail(WINDOW)
    asked = int(before["prompt_tokens"].sum())
    wanted = RECOVERED * int(before["cached_tokens"].sum()) / asked if asked else 0.0
    after = seen.filter(pl.col("scheduled_s") > at_s)
    if not wanted or after.height < WINDOW:
        return None
    rolled = after.select(
        "scheduled_s",
        rate=pl.col("cached_tokens").rolling_sum(WINDOW) / pl.col("prompt_tokens").rolling_sum(WINDOW),
    )
    found = rolled.filter(pl.col("rate") >= wanted)["scheduled_s"]
    return None if found.is_empty() else float(found[0]) - at_s
