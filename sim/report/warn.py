"""What a reader must know before trusting a number: warnings found in the results themselves."""

import hashlib
from collections.abc import Iterator, Sequence

import polars as pl

from sim.metrics import METRICS
from sim.report.result import Arm

ENOUGH_GROUPS = 60
"""Groups of a replication below which its 95 % quantile over groups is little else than the slowest one."""
LOST = ("rejected", "failed", "unfinished")


def digests(decisions: pl.DataFrame) -> pl.DataFrame:
    """``pair`` and ``decisions``: equal for arms that put the same requests together, whatever the engines' names.

    Each engine is named after the first request that it was sent, so two policies that differ only in which of equal
    engines they call first are found to be alike.
    """
    label = pl.when(pl.col("engine") >= 0).then(pl.col("request").min().over("pair", "engine")).otherwise(-1)
    chosen = decisions.sort("pair", "request", "attempt", "retry").select(
        "pair", "request", "attempt", "retry", label.alias("engine")
    )
    pairs = chosen.partition_by("pair", maintain_order=True)
    words = [hashlib.blake2b(each.to_numpy().tobytes(), digest_size=16).hexdigest() for each in pairs]
    return pl.DataFrame({"pair": [each["pair"][0] for each in pairs], "decisions": words})


def warnings_of(arms: Sequence[Arm], metrics: Sequence[str]) -> list[str]:
    """One line each, in a fixed order."""
    return [
        *_lost(arms, metrics),
        *_equal(arms),
        *_routing(arms),
        *_few_groups(arms, metrics),
        *_no_value(arms, metrics),
        *(f"arm {arm.name}: deterministic, n = 1 (all replications are equal)" for arm in arms if arm.is_deterministic),
    ]


def _lost(arms: Sequence[Arm], metrics: Sequence[str]) -> Iterator[str]:
    latencies = [name for name in metrics if METRICS[name].is_latency]
    for arm in arms:
        counts = {name: int(arm.values[name].sum()) for name in LOST}
        if not any(counts.values()):
            continue
        lost = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        flagged = f"; {', '.join(latencies)} cover the others only" if latencies else ""
        yield f"arm {arm.name} did not finish every request ({lost} in {arm.values.height} replications){flagged}"


def _equal(arms: Sequence[Arm]) -> Iterator[str]:
    for i, first in enumerate(arms):
        for second in arms[i + 1 :]:
            if first.decisions == second.decisions:
                meant = " (a null control, as meant)" if first.null_control or second.null_control else ""
                yield f"arms {first.name} and {second.name}: no decision differs, but for the names of engines{meant}"


def _routing(arms: Sequence[Arm]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for arm in arms:
        for note in arm.notes:
            found.setdefault(note, []).append(arm.name)
    for note, names in found.items():
        yield f"{'arm' if len(names) == 1 else 'arms'} {', '.join(names)}: {note}"


def _few_groups(arms: Sequence[Arm], metrics: Sequence[str]) -> Iterator[str]:
    tails = [name for name in metrics if name in ("group_completion_p95_s", "group_completion_p99_s")]
    groups = min(arm.groups for arm in arms)
    if tails and groups < ENOUGH_GROUPS:
        yield f"{', '.join(tails)}: {groups} groups a replication, so this is close to the slowest one"


def _no_value(arms: Sequence[Arm], metrics: Sequence[str]) -> Iterator[str]:
    for arm in arms:
        for name in metrics:
            if missing := arm.values[name].null_count():
                yield f"{name} of arm {arm.name} has no value in {missing} of {arm.values.height} replications"
