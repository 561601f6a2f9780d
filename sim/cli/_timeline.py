"""``windtunnel timeline``: a stored replication as a trace and as a chart."""

import os
from pathlib import Path

import click

from sim.errors import ScenarioError
from sim.log import store
from sim.report import timeline
from sim.results import find

MOST_ENGINES = 8
"""Engines that a chart has room for; a trace holds all of them."""


def write_timeline(hash: str, pair: int, trace_file: Path, chart: Path | None, out: Path) -> None:
    """Write the trace, whole or not at all, and the chart if one is asked for."""
    found = find(hash, out)
    if not store.has_tables(found.folder):
        raise ScenarioError(f"{found.folder} keeps no tables, only what was measured: run it again with windtunnel run")
    tables = store.read(found.folder)
    _write(trace_file, timeline.to_json(timeline.trace(tables, pair)))
    click.echo(f"wrote {trace_file}", err=True)
    if chart is None:
        return
    from sim import charts

    bins = timeline.binned(tables, pair)
    engines = bins["engine"].unique().sort()
    shown = bins.filter(bins["engine"].is_in(engines.head(MOST_ENGINES).implode()))
    more = f", the first {MOST_ENGINES} of {len(engines)} engines" if len(engines) > MOST_ENGINES else ""
    title = f"{found.manifest['scenario']}: arm {found.arm}, pair {pair}{more}"
    try:
        for path in charts.save(charts.timeline(shown, timeline.marks(tables, pair), title), chart):
            click.echo(f"wrote {path}", err=True)
    except OSError as error:
        raise ScenarioError(f"cannot write charts at {chart}: {error.strerror or error}") from None


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise ScenarioError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
