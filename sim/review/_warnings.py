"""Warnings that stand beside a recommendation: of the run, of the scenario, and of what one session decides."""

from collections.abc import Iterator

import polars as pl

from sim.log.frames import Tables
from sim.review._ablations import undone
from sim.review._gather import Evidence
from sim.scenario import check

ONE_SESSION = 0.5
"""Share of the makespan in which one session alone is left, above which it decides the wall time."""


def warnings(ev: Evidence) -> Iterator[str]:
    """What the run and the scenario say, and wall time that one session decides."""
    # What a contrast says of few or skewed pairs, the result has said of every arm.
    notes = [each for each in ev.found.notes if "bootstrap" not in each]
    notes = [each for each in notes if not any(each in said for said in ev.result.warnings)]
    found = [*ev.result.warnings, *notes, *check(ev.scenario).warnings]
    yield from dict.fromkeys(found)
    lost = {name: undone(tables) for name, tables in ev.tables.items()}
    if len(set(lost.values())) > 1:
        said = ", ".join(f"{count:,} of {name}" for name, count in lost.items())
        yield f"requests that failed, were rejected or never ended: {said}; the arms did not do the same work"
    for name, tables in ev.tables.items():
        if (alone := left_alone(tables)) > ONE_SESSION:
            yield f"arm {name}: one session alone is left for {alone:.0%} of the makespan: it decides the wall time"


def left_alone(tables: Tables) -> float:
    """Share of the makespan between the end of the last session but one and that of the last; mean over pairs."""
    ends = tables.requests.group_by("pair", "session").agg(end=pl.col("ended_s").max()).sort("pair", "end")
    last = ends.group_by("pair", maintain_order=True).tail(2).group_by("pair", maintain_order=True)
    gaps = last.agg(gap=pl.col("end").max() - pl.col("end").min()).join(tables.replications, on="pair")
    lasting = gaps.filter(pl.col("makespan_s") > 0)
    return float((lasting["gap"] / lasting["makespan_s"]).to_numpy().mean()) if lasting.height else 0.0
