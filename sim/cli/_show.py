"""``windtunnel show``: the cell of a stored result as YAML, then every metric that has a value."""

from pathlib import Path

import click

from sim.cli import _options


@click.command(short_help="Show a stored result.")
@_options.stored
@_options.results
def show(hash: str, out: Path) -> None:
    """Show a stored result: what it is, and every metric with its interval. ID is a hash, or its first digits."""
    from rich.console import Console
    from rich.table import Table

    from sim import stats
    from sim.log import store
    from sim.metrics import METRICS
    from sim.report.numbers import counted, mean_text
    from sim.results import find
    from sim.scenario import dump

    found = find(hash, out)
    console = Console()
    manifest = found.manifest
    pairs = counted(manifest["pairs"], "pair")
    console.print(f"{found.folder}: arm {found.arm} of {manifest['scenario']}, {pairs}", style="bold")
    console.print(dump(manifest["cell"]), highlight=False, soft_wrap=True)
    values = store.read_values(found.folder)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("metric")
    table.add_column("mean ± 95 %", justify="right", no_wrap=True)
    table.add_column("unit")
    for name, metric in METRICS.items():
        column = values[name].fill_null(float("nan")).to_numpy() if name in values.columns else None
        if column is not None:
            table.add_row(name, mean_text(stats.mean(column)), "" if metric.unit == "1" else metric.unit)
    console.print(table)
    for pair, text in manifest.get("failures", {}).items():
        console.print(f"failed: pair {pair}: {text.strip().splitlines()[-1]}", style="red")
