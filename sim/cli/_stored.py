"""``windtunnel ls`` and ``windtunnel show``: what is stored."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from sim import stats
from sim.errors import ScenarioError
from sim.log import store
from sim.metrics import METRICS
from sim.report.table import mean_text
from sim.results import find, stored
from sim.scenario import dump


def print_list(out: Path) -> None:
    """One line a stored result."""
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


def print_result(hash: str, out: Path) -> None:
    """The cell as YAML, then every metric that has a value."""
    found = find(hash, out)
    console = Console()
    manifest = found.manifest
    console.print(f"{found.folder}: arm {found.arm} of {manifest['scenario']}, {manifest['pairs']} pairs", style="bold")
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
