"""The charts of a tuning: the response to each parameter."""

from pathlib import Path

import polars as pl

from sim.files import writing
from sim.sweep.tuning import TuneResult


def save_tune_charts(found: TuneResult, folder: Path, *, stem: str) -> list[Path]:
    """Write them as PNG and HTML."""
    from sim import charts  # brings altair

    search = found.found
    title = f"{found.tuning.scenario.name}, arm {found.tuning.arm}: {found.metric}"
    written: list[Path] = []
    with writing(f"charts in {folder}"):
        for index, each in enumerate(search.space):
            points = found.table.rename({each.name: "value"}).with_columns(pl.col("lo", "hi").fill_nan(None))
            chart = charts.response(
                points,
                title,
                x=each.name,
                optimum=search.optimum[index],
                lo=search.lo[index],
                hi=search.hi[index],
                log_x=each.is_log,
            )
            tail = f"_{each.name.rpartition('.')[2]}" if len(search.space) > 1 else ""
            written += charts.save(chart, folder / f"{stem}{tail}")
    return written
