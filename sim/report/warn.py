"""What a reader must know before trusting a number: warnings found in the results themselves."""

from collections.abc import Iterator, Sequence

from sim.metrics import METRICS
from sim.report.result import Arm

ENOUGH_GROUPS = 60
"""Groups of a replication below which its 95 % quantile over groups is little else than the slowest one."""
LOST = ("rejected", "failed", "unfinished")


def warnings_of(arms: Sequence[Arm], metrics: Sequence[str]) -> list[str]:
    """One line each, in a fixed order."""
    return [
        *_lost(arms, metrics),
        *_equal(arms),
        *_few_groups(arms, metrics),
        *_no_value(arms, metrics),
        *(f"arm {arm.name}: deterministic, n = 1 (all replications are equal)" for arm in arms if arm.is_deterministic),
    ]


def _lost(arms: Sequence[Arm], metrics: Sequence[str]) -> Iterator[str]:
    latencies = [name for name in metrics if METRICS[name].is_latency]
    for arm in arms:
        counts = {name: int(arm.column(name).sum()) for name in LOST}
        if not any(counts.values()):
            continue
        lost = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        flagged = f"; {', '.join(latencies)} cover the others only" if latencies else ""
        yield f"arm {arm.name} did not finish every request ({lost} in {arm.values.height} replications){flagged}"


def _equal(arms: Sequence[Arm]) -> Iterator[str]:
    for i, first in enumerate(arms):
        for second in arms[i + 1 :]:
            if first.decisions == second.decisions and not (first.null_control or second.null_control):
                yield f"arms {first.name} and {second.name} sent every request to the same engine: no decision differs"


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
