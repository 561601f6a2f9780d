"""A tuning as a table: the response with its intervals, the optimum, and what keeps it from being sure."""

import hashlib

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.metrics import METRICS
from sim.report.table import ARROWS
from sim.stats.paired import Ratio
from sim.sweep.tuning import TuneResult


def print_tuning(result: TuneResult, console: Console) -> None:
    """Print the measured points, the optimum, and warnings."""
    tuning, found = result.tuning, result.found
    arrow = ARROWS[METRICS[result.metric].better]
    title = (
        f"{tuning.scenario.name}, arm {tuning.arm}: {result.metric}{arrow}, ratios to {tuning.scenario.baseline} [95 %]"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for parameter in found.space:
        table.add_column(parameter.name.rpartition(".")[2], justify="right")
    for column in ("pairs", "measured", "fitted"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in result.table.iter_rows(named=True):
        values = [f"{row[parameter.name]:g}" for parameter in found.space]
        table.add_row(*values, str(row["pairs"]), _span(row, "ratio", ""), _span(row, "fitted", "fitted_"))
    console.print(table)
    ends = zip(found.space, found.optimum, found.lo, found.hi, strict=True)
    where = ", ".join(f"{each.name}={at:g} [{lo:g}, {hi:g}]" for each, at, lo, hi in ends)
    said = [f"optimum: {where}", f"on {result.pairs} fresh pairs: {_words(result.to_baseline)} to the baseline"]
    if result.to_start is not None:
        said.append(f"  {_words(result.to_start)} to the present values, {tuning.name(tuning.start)}")
    if result.to_worst is not None:
        said.append(f"  {_words(result.to_worst)} to the worst point, {tuning.name(found.worst)}")
    said.append(f"{result.runs} replications")
    for line in said:
        console.print(line, highlight=False, soft_wrap=True)
    for warning in result.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def _span(row: dict[str, float], name: str, ends: str) -> str:
    return f"{row[name]:.3f} [{row[f'{ends}lo']:.3f}, {row[f'{ends}hi']:.3f}]"


def _words(ratio: Ratio) -> str:
    if ratio.ratio is None:
        return ratio.reason
    if ratio.lo is None or ratio.hi is None:
        return f"{ratio.ratio:.4f}" + (f" ({ratio.reason})" if ratio.reason else "")
    return f"{ratio.ratio:.4f} [{ratio.lo:.4f}, {ratio.hi:.4f}]"


def digest(result: TuneResult) -> str:
    """Eight digits that tell what was tuned."""
    tuning = result.tuning
    cells = [cell.hash for cell in tuning.scenario.arms.values()]
    return hashlib.sha256(repr((cells, tuning.arm, tuning.space, result.metric)).encode()).hexdigest()[:8]
