"""The result as tables in a terminal, 80 columns wide whatever the number of arms.

One block a metric, one row an arm: its mean with half of the 95 % interval, then, against the baseline, the paired
ratio with its interval, the share of pairs that are worse, and the bootstrap probability that the mean is. An interval
that stays on one side of 1 is green or red by the metric's direction.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.metrics import METRICS, Metric
from sim.report.result import Placement, Result
from sim.stats import Mean, Ratio

ARROWS = {"higher": " ↑", "lower": " ↓", "none": ""}
CLASSES = 6
"""Placement classes side by side."""


def print_result(result: Result, console: Console) -> None:
    """Print means and paired ratios, placement classes where there are some, and warnings."""
    console.print(_comparison_table(result))
    for candidate, placements in groupby(result.placements, key=lambda each: each.candidate):
        console.print()
        for table in _placement_tables(candidate, list(placements), result):
            console.print(table)
    for warning in result.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def _comparison_table(result: Result) -> Table:
    pairs = max(arm.values.height for arm in result.arms.values())
    title = f"{result.scenario}: ratios to {result.baseline}, {pairs} {'pair' if pairs == 1 else 'pairs'}"
    table = _table(title)
    widest = max(len(name) + len(ARROWS[METRICS[name].better]) for name in result.metrics)
    table.add_column("metric / arm", overflow="fold", min_width=widest)
    table.add_column("mean ± 95 %", justify="right")
    table.add_column("ratio [95 %]", justify="right")
    table.add_column("pairs\nworse", justify="right")
    table.add_column("P mean\nworse", justify="right")
    for name in result.metrics:
        metric = METRICS[name]
        unit = "" if metric.unit == "1" else metric.unit
        table.add_row(Text(name + ARROWS[metric.better], style="bold"), Text(unit, style="dim"))
        for arm, means in result.means.items():
            ratio = None if arm == result.baseline else result.comparison(arm, name).paired
            table.add_row(f"  {arm}", _mean(means[name]), *_ratio(ratio, metric))
    return table


def _placement_tables(candidate: str, placements: list[Placement], result: Result) -> Iterator[Table]:
    for start in range(0, len(placements), CLASSES):
        some = placements[start : start + CLASSES]
        table = _table(f"{candidate}: keys per engine")
        table.add_column("class")
        for each in some:
            table.add_column(each.name, justify="right")
        table.add_row("uniform hash", *(f"{each.p_exact:.1%}" for each in some))
        table.add_row("simulated", *(f"{each.p_simulated:.1%}" for each in some))
        table.add_row("pairs", *(str(each.pairs) for each in some))
        for name in result.metrics:
            ratios = [each.ratio[name] for each in some]
            table.add_row(name, *("–" if ratio is None else f"{ratio:.3f}" for ratio in ratios))
        yield table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0), pad_edge=False)


def _mean(mean: Mean) -> str:
    if mean.mean is None:
        return "–"
    half = 0.0 if mean.hi is None else mean.hi - mean.mean
    if half <= 1e-9 * abs(mean.mean):  # no interval, or one that rounding alone made
        return number(mean.mean)
    decimals = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean.mean:,.{decimals}f} ± {half:,.{decimals}f}"


def _ratio(paired: Ratio | None, metric: Metric) -> Sequence[Text]:
    if paired is None:
        return [Text("baseline", style="dim")]
    if paired.ratio is None:
        text = Text(paired.reason, style="dim")
    elif paired.lo is None or paired.hi is None:
        text = Text(f"{paired.ratio:.3f} (n = 1)")
    else:
        text = Text(
            f"{paired.ratio:.3f} [{paired.lo:.3f}, {paired.hi:.3f}]", style=_colour(paired.lo, paired.hi, metric)
        )
    return [text, _share(paired.p_worse), _share(paired.p_mean_worse)]


def _colour(lo: float, hi: float, metric: Metric) -> str:
    if metric.better == "none" or lo <= 1 <= hi:
        return ""
    return "green" if (lo > 1) == (metric.better == "higher") else "red"


def _share(value: float | None) -> Text:
    if value is None:
        return Text("–")
    return Text("<0.1%" if 0 < value < 0.0005 else f"{value:.1%}")


def number(value: float) -> str:
    """A number for reading: thousands whole, smaller ones with four significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
