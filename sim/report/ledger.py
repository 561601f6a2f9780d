"""The mechanism ledger: where the engine-seconds of an arm go, and line by line where two arms differ.

    engines x makespan = prefill + reprefill + decode + host + idle_queue + idle_client + idle_tail + down + after_end

The lines are those of ``sim.log.account``, which divides every engine-second between the first submission and the end
of the last step. A last step may outlive the last answer, where a batch was formed for a request that had ended;
``after_end`` takes that time off again, as a negative number. Idle time while another engine has a queue is
``idle_queue``, also after an engine's last work; the metric ``tail_idle_share`` counts that in its tail. Nothing is
left over: sums are taken in whole nanoseconds and a sum that does not close is an error, not a residual line.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from sim import stats
from sim.errors import LawError
from sim.log.account import AFTER, MECHANISMS, SHARES
from sim.log.frames import Tables
from sim.stats import Mean

LINES: Final = (*SHARES, AFTER)
SAYS: Final = {
    "prefill": "prefill, first time",
    "reprefill": "prefill again, after a preemption",
    "decode": "decode",
    "host": "host, between steps",
    "idle_queue": "idle, another engine has a queue",
    "idle_client": "idle, waiting for clients",
    "idle_tail": "idle, after the last work, no queue elsewhere",
    "down": "down",
    AFTER: "steps after the last answer (taken off)",
}
"""What each line is, for a reader."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of two arms, in engine-seconds of a mean pair; ``line`` is ``total`` for engines x makespan."""

    line: str
    baseline_s: float
    candidate_s: float
    difference: Mean
    """Candidate less baseline, over the pairs."""


def ledger(tables: Tables) -> pl.DataFrame:
    """One row a pair: ``pair``, each line, and ``total``, engines x makespan; whole nanoseconds of an engine."""
    runs = tables.replications.select("pair", "engines", start=_ns("start_s"), makespan=_ns("makespan_s")).with_columns(
        total=pl.col("engines") * pl.col("makespan")
    )
    spent = tables.engines.group_by("pair").agg(
        *(_ns(f"{name}_s").sum().alias(name) for name in SHARES), last=_ns("end_s").max()
    )
    joined = runs.join(spent, on="pair", how="left", maintain_order="left").with_columns(
        pl.col(*SHARES).fill_null(0), pl.col("last").fill_null(pl.col("start") + pl.col("makespan"))
    )
    late = pl.col("last") - pl.col("start") - pl.col("makespan")
    found = joined.with_columns((-pl.col("engines") * late).alias(AFTER)).select("pair", *LINES, "total").sort("pair")
    wrong = found.filter(pl.sum_horizontal(LINES) != pl.col("total"))
    if not wrong.is_empty():
        row = wrong.row(0, named=True)
        lines = sum(row[name] for name in LINES)
        raise LawError(f"pair {row['pair']}: lines of the ledger make {lines} ns, engines x makespan is {row['total']}")
    return found


def differences(baseline: pl.DataFrame, candidate: pl.DataFrame) -> pl.DataFrame:
    """Two ledgers' pairs, candidate less baseline, line by line and in total; pairs of one side alone are left out."""
    both = baseline.join(candidate, on="pair", suffix="_b").sort("pair")
    return both.select("pair", *((pl.col(f"{name}_b") - pl.col(name)).alias(name) for name in (*LINES, "total")))


def entries(baseline: pl.DataFrame, candidate: pl.DataFrame) -> list[Entry]:
    """The ledgers of two arms over the pairs that both have, the lines that are zero throughout left out."""
    moved = differences(baseline, candidate)
    one, other = (side.join(moved, on="pair", how="semi") for side in (baseline, candidate))
    used = [name for name in LINES if (one[name] != 0).any() or (other[name] != 0).any()]
    return [
        Entry(name, _mean_s(one, name), _mean_s(other, name), stats.mean(moved[name].to_numpy() / 1e9))
        for name in (*used, "total")
    ]


def mechanisms(found: list[Entry], moved: pl.DataFrame) -> list[Entry]:
    """The entries of a ledger summed by mechanism, those without a line left out; ``moved`` is of ``differences``."""
    known = {each.line: each for each in found}
    summed = []
    for name, lines in MECHANISMS.items():
        own = [known[line] for line in lines if line in known]
        if own:
            difference = stats.mean(by_mechanism(moved, name).to_numpy())
            summed.append(
                Entry(name, sum(each.baseline_s for each in own), sum(each.candidate_s for each in own), difference)
            )
    return summed


def by_mechanism(moved: pl.DataFrame, name: str) -> pl.Series:
    """Seconds of a mechanism in each pair's difference; ``total`` is engines x makespan."""
    lines = ("total",) if name == "total" else MECHANISMS[name]
    return moved.select(pl.sum_horizontal(lines) / 1e9).to_series()


def _mean_s(ledger_of_one: pl.DataFrame, name: str) -> float:
    return float(ledger_of_one[name].to_numpy().mean()) / 1e9


def _ns(name: str) -> pl.Expr:
    """Seconds of a table are ticks times a tick of whole nanoseconds: rounding finds them again."""
    return (pl.col(name) * 1e9).round().cast(pl.Int64)
