"""``windtunnel timeline``: a stored replication as a trace and as a chart."""

from pathlib import Path

import click

from sim.cli import _options
from sim.errors import ScenarioError

MOST_ENGINES = 8
"""Engines that a chart has room for; a trace holds all of them."""


@click.command(short_help="Write what each engine of a stored result did when.")
@_options.stored
@click.option("--pair", type=click.IntRange(0, 999_999), default=0, show_default=True, help="Which replication.")
@click.option(
    "-o",
    "trace_file",
    type=click.Path(path_type=Path),
    default=Path("trace.json"),
    show_default=True,
    help="The trace to write.",
)
@click.option("--chart", type=click.Path(path_type=Path), metavar="STEM", help="Write STEM.png and STEM.html too.")
@_options.results
def timeline(hash: str, pair: int, trace_file: Path, chart: Path | None, out: Path) -> None:
    """Write one replication of a stored result as a trace for https://ui.perfetto.dev or chrome://tracing.

    ID is a hash, or its first digits. Each engine is a process: runs of equal steps and idle stretches, what their time
    went to, counters of requests and KV blocks, marks where it fails, comes, goes, is flushed or gets other weights.
    """
    from sim.files import write_whole, writing
    from sim.log import store
    from sim.report import timeline as drawn
    from sim.results import find

    found = find(hash, out)
    if not store.has_tables(found.folder):
        raise ScenarioError(f"{found.folder} keeps no tables, only what was measured: run it again with windtunnel run")
    tables = store.read(found.folder)
    write_whole(trace_file, drawn.to_json(drawn.trace(tables, pair)))
    click.echo(f"wrote {trace_file}", err=True)
    if chart is None:
        return
    from sim import charts

    bins = drawn.binned(tables, pair)
    changes = drawn.marks(tables, pair)
    names = drawn.telling(bins, MOST_ENGINES, changes)
    shown = bins.filter(bins["engine"].is_in([*names]))
    count = bins["engine"].n_unique()
    more = f", {len(names)} of {count} engines" if count > len(names) else ""
    title = f"{found.manifest['scenario']}: arm {found.arm}, pair {pair}{more}"
    with writing(f"charts at {chart}"):
        for path in charts.save(charts.timeline(shown, changes, title, names=names), chart):
            click.echo(f"wrote {path}", err=True)
