"""What a row may measure: values by pair from an arm's metrics and tables, and numbers made of these.

By pair, from an arm: ``metric``, ``total``, ``largest``, ``average``, ``quantile_between``, ``throughput_between``,
``group_latency``, ``sessions_ended``, ``drained``, ``hits``, ``keys_per_engine``, ``keys_in_lots``,
``requests_per_engine``, ``sum_per_engine``, ``in_class``, ``agreement``, ``over_bound``.
Elementwise: ``absolute``, ``where``. One number: ``mean`` and ``gmean`` with Student's 95 % interval over pairs,
``rms``, ``median``, ``lowest``, ``highest``, ``spearman``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from sim import registry
from sim.errors import ScenarioError
from sim.log.frames import Tables
from sim.metrics import METRICS
from sim.report.result import Arm as Ran
from sim.stats.paired import t_interval

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval over pairs, where it has one."""

    value: float
    lo: float | None = None
    hi: float | None = None


class Arm:
    """An arm that ran, its tables read at most once."""

    def __init__(self, ran: Ran) -> None:
        self.ran = ran

    @cached_property
    def tables(self) -> Tables:
        """Its stored tables."""
        return self.ran.tables()

    @cached_property
    def requests(self) -> pl.DataFrame:
        """The table of requests, with the waits."""
        due = self.tables.groups.select("pair", "group", due_s="arrived_s")
        began = pl.col("scheduled_s")
        known = self.tables.requests.join(due, on=["pair", "group"], how="left", maintain_order="left")
        return known.with_columns(wait_s=began - pl.col("arrived_s"), delay_s=began - pl.col("due_s")).drop("due_s")

    @cached_property
    def engines(self) -> int:
        """Engines of the fleet."""
        return int(self.tables.replications["engines"][0])


def metric(arm: Arm, name: str) -> Floats:
    """A metric of ``windtunnel run``, by pair."""
    if name not in METRICS:
        raise ScenarioError(f"unknown metric {name!r}; {registry.suggest(name, METRICS)}")
    return arm.ran.column(name)


def total(arm: Arm, column: str) -> Floats:
    """Sum of a column of the requests table."""
    return _by_pair(arm.requests, _column(arm, column).sum())


def largest(arm: Arm, column: str) -> Floats:
    """Largest value of a column of the requests table."""
    return _by_pair(arm.requests, _column(arm, column).max())


def average(arm: Arm, column: str) -> Floats:
    """Mean of a column of the requests table.

    Also of ``wait_s`` and ``delay_s``: from a request's arrival at its engine, and from that of its group at the
    client, to its first batch.
    """
    return _by_pair(arm.requests, _column(arm, column).mean())


def quantile_between(arm: Arm, column: str, q: float, start_s: float, end_s: float) -> Floats:
    """A quantile over requests submitted from ``start_s`` to before ``end_s``."""
    inside = pl.col("submitted_s").is_between(start_s, end_s, closed="left")
    return _by_pair(arm.requests, _column(arm, column).filter(inside).quantile(q, interpolation="linear"))


def throughput_between(arm: Arm, start_s: float, end_s: float) -> Floats:
    """Tokens generated for requests submitted in that time, a second from the first submission to the last end."""
    inside = arm.requests.filter(pl.col("submitted_s").is_between(start_s, end_s, closed="left"))
    lasted = pl.col("ended_s").max() - pl.col("submitted_s").min()
    return _by_pair(inside, pl.col("output_tokens").sum() / lasted)


def group_latency(arm: Arm, q: float) -> Floats:
    """Quantile over groups of the time from a group's first submission to its last end; waits for a place are out."""
    lasted = (pl.col("ended_s").max() - pl.col("submitted_s").min()).alias("lasted_s")
    groups = arm.requests.group_by("pair", "group").agg(lasted)
    return _by_pair(groups, pl.col("lasted_s").quantile(q, interpolation="linear"))


def sessions_ended(arm: Arm, number: int) -> Floats:
    """Seconds from the first submission to the end of the ``number``-th session; none where fewer end."""
    ended = arm.requests.filter((pl.col("is_last") == 1) & (pl.col("status") == "finished"))
    first = arm.requests.group_by("pair").agg(first=pl.col("submitted_s").min())
    at = pl.when(pl.len() >= number).then(pl.col("ended_s").sort().get(number - 1, null_on_oob=True))
    joined = first.join(ended.group_by("pair").agg(at=at), on="pair", how="left").sort("pair")
    return joined.select(value=pl.col("at") - pl.col("first"))["value"].fill_null(math.nan).to_numpy()


def drained(arm: Arm, step_s: float, sequence_s: float, token_s: float) -> Floats:
    """Over engines the largest ``step_s * longest output + sequence_s * sum(output - 1) + token_s * sum(prefill)``."""
    computed = pl.col("prompt_tokens") - pl.col("cached_tokens")
    lasts = step_s * pl.col("output_tokens").max() + sequence_s * (pl.col("output_tokens") - 1).sum()
    engines = arm.requests.group_by("pair", "engine").agg(lasts=lasts + token_s * computed.sum())
    return _by_pair(engines, pl.col("lasts").max())


def hits(arm: Arm) -> Floats:
    """Requests that found more than half of their prompt."""
    return _by_pair(arm.requests, (2 * pl.col("cached_tokens") > pl.col("prompt_tokens")).sum())


def keys_per_engine(arm: Arm, key: str, how: str) -> Floats:
    """How sessions or groups (``key``) are spread over engines by their first requests; ``how``: see ``requests``."""
    return _spread(arm, _first(arm, key), how)


def keys_in_lots(arm: Arm, key: str, lot: int, how: str, q: float | None = None) -> Floats:
    """As ``keys_per_engine``, of lots of so many keys, one lot after the other: their mean, or their ``q`` quantile."""
    found = []
    for _, held in _first(arm, key).group_by("pair", maintain_order=True):
        engines = held["engine"].to_numpy()
        lots = engines[: engines.size // lot * lot].reshape(-1, lot)
        values = np.array([_spread_of(how)(np.bincount(each, minlength=arm.engines).astype(float)) for each in lots])
        found.append(float(values.mean() if q is None else np.quantile(values, q)))
    return np.array(found)


def requests_per_engine(arm: Arm, how: str) -> Floats:
    """How requests are spread over engines: least, most, sd, cv, most_over_mean, most_over_least."""
    return _spread(arm, arm.requests, how)


def sum_per_engine(arm: Arm, column: str, how: str) -> Floats:
    """How the sum of a column of the requests table is spread over engines; ``how``: see ``requests_per_engine``."""
    placed = arm.requests.filter(pl.col("engine") >= 0)
    return _spread_sums(arm, placed.group_by("pair", "engine").agg(_column(arm, column).sum().alias("sum")), how)


def in_class(arm: Arm, name: str) -> Floats:
    """1 in the pairs whose keys fall so, as in ``2:2``; the classes are those of ``windtunnel run``."""
    if arm.ran.placed is None:
        raise ScenarioError(f"arm {arm.ran.name} has no placement classes")
    return np.array([each == name for each in arm.ran.placed.classes["class"]], dtype=float)


def agreement(arm: Arm, other: Arm) -> Floats:
    """Share of requests that went to the same engine in both arms, but for the names of engines."""
    # An engine is known by the first request that it was given: products list engines in orders of their own.
    known = pl.col("request").min().over("pair", "engine").alias("home")
    one, two = (each.requests.select("pair", "request", known) for each in (arm, other))
    both = one.join(two, on=["pair", "request"], suffix="_2")
    return _by_pair(both, (pl.col("home") == pl.col("home_2")).mean())


def over_bound(arm: Arm, c: float) -> Floats:
    """Most that an engine held above ceil(c (m + 1) / N), m in flight before; 0 or less where the bound holds."""
    bound = (c * (pl.col("total_in_flight") + 1) / arm.engines).round(9).ceil()
    return _by_pair(arm.tables.decisions, (pl.col("in_flight") + 1 - bound).max())


def where(condition: Floats, values: Floats) -> Floats:
    """The pairs in which the condition holds."""
    kept: Floats = values[np.asarray(condition, dtype=bool)]
    return kept


def mean(values: Floats) -> Estimate:
    """Mean over pairs."""
    known = _known(values)
    return Estimate(float(known.mean()), *_interval(known))


def gmean(values: Floats) -> Estimate:
    """Geometric mean over pairs."""
    logs = np.log(_known(values))
    lo, hi = _interval(logs)
    return Estimate(math.exp(logs.mean()), None if lo is None else math.exp(lo), None if hi is None else math.exp(hi))


def spearman(one: Floats, other: Floats) -> float:
    """Rank correlation over pairs, ties shared."""
    frame = pl.DataFrame({"one": np.asarray(one, dtype=float), "other": np.asarray(other, dtype=float)})
    return float(frame.select(pl.corr("one", "other", method="spearman")).item())


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (
        metric, total, largest, average, quantile_between, throughput_between, group_latency, sessions_ended, drained,
        hits, keys_per_engine, keys_in_lots, requests_per_engine, sum_per_engine, in_class, agreement, over_bound,
        where, mean, gmean, spearman,
    )
} | {
    "absolute": np.abs,
    "rms": lambda values: float(np.sqrt(np.mean(_known(values) ** 2))),
    "median": lambda values: float(np.median(_known(values))),
    "lowest": lambda values: float(np.min(_known(values))),
    "highest": lambda values: float(np.max(_known(values))),
}  # fmt: skip
_SPREADS: Final[dict[str, Callable[[Floats], float]]] = {
    "least": lambda counts: float(counts.min()),
    "most": lambda counts: float(counts.max()),
    "sd": lambda counts: float(counts.std(ddof=1)),
    "cv": lambda counts: float(counts.std() / counts.mean()),
    "most_over_mean": lambda counts: float(counts.max() / counts.mean()),
    "most_over_least": lambda counts: float(counts.max() / counts.min()) if counts.min() else math.nan,
}


def _column(arm: Arm, name: str) -> pl.Expr:
    known = [column for column, kind in arm.requests.schema.items() if kind.is_numeric()]
    if name not in known:
        raise ScenarioError(f"unknown column {name!r}; {registry.suggest(name, known)}")
    return pl.col(name)


def _by_pair(frame: pl.DataFrame, value: pl.Expr) -> Floats:
    found = frame.group_by("pair").agg(value.cast(pl.Float64).alias("value")).sort("pair")
    return found["value"].fill_null(math.nan).to_numpy()


def _first(arm: Arm, key: str) -> pl.DataFrame:
    """The first request of every key, in order of keys."""
    if key not in ("session", "group"):
        raise ScenarioError(f"the key must be session or group, not {key!r}")
    return arm.requests.sort("pair", key, "turn", "request").unique(["pair", key], keep="first", maintain_order=True)


def _spread_of(how: str) -> Callable[[Floats], float]:
    if how not in _SPREADS:
        raise ScenarioError(f"unknown spread {how!r}; {registry.suggest(how, _SPREADS)}")
    return _SPREADS[how]


def _spread(arm: Arm, requests: pl.DataFrame, how: str) -> Floats:
    counts = requests.filter(pl.col("engine") >= 0).group_by("pair", "engine").agg(pl.len().alias("sum"))
    return _spread_sums(arm, counts, how)


def _spread_sums(arm: Arm, sums: pl.DataFrame, how: str) -> Floats:
    """``sums``: a ``sum`` for each pair and engine; an engine that is not in it has none."""
    found = []
    for _, held in sums.sort("pair").group_by("pair", maintain_order=True):
        every = np.zeros(arm.engines)
        every[held["engine"].to_numpy()] = held["sum"].to_numpy()
        found.append(_spread_of(how)(every))
    return np.array(found)


def _known(values: Floats) -> Floats:
    array = np.atleast_1d(np.asarray(values, dtype=float))
    known: Floats = array[~np.isnan(array)]
    if not known.size:
        raise ScenarioError("no pair has a value")
    return known


def _interval(values: Floats) -> tuple[float, float] | tuple[None, None]:
    return t_interval(values) if values.size > 1 else (None, None)
