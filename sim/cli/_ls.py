"""``windtunnel ls``: what is stored."""

from pathlib import Path

import click

from sim.cli import _options
from sim.errors import ScenarioError


@click.command(short_help="List stored results.")
@_options.results
def ls(out: Path) -> None:
    """List stored results: hash, scenario, arms, pairs."""
    from rich.console import Console
    from rich.table import Table

    from sim.log import store
    from sim.results import stored

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for head in ("hash", "scenario", "arms"):
        table.add_column(head, overflow="fold")
    for head in ("pairs", "failed", "MB"):
        table.add_column(head, justify="right")
    table.add_column("kept")
    for each in stored(out):
        size = sum(path.stat().st_size for path in each.folder.iterdir())
        failed = len(each.manifest.get("failures", {}))
        kept = "tables" if store.has_tables(each.folder) else "values"
        cells = (str(each.manifest["pairs"]), str(failed), f"{size / 1e6:.1f}", kept)
        table.add_row(each.hash, str(each.manifest["scenario"]), each.arm, *cells)
    if not table.row_count:
        raise ScenarioError(f"no results below {out}")
    Console().print(table)
