"""The result as tables in a terminal, 80 columns wide whatever the number of arms.

One block a metric, one row an arm: its mean with half of the 95 % interval, then, against the baseline, the paired
ratio with its interval, the share of pairs that are worse, and the bootstrap probability that the mean is. An interval
that stays on one side of 1 is green or red by the metric's direction. A terminal too narrow for the row gets a line for
each of these: names fold, numbers are never cut.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sim.metrics import METRICS, Metric
from sim.report.numbers import counted, mean_text
from sim.report.result import Placement, Result
from sim.stats import Ratio

ARROWS = {"higher": " ↑", "lower": " ↓", "none": ""}
CLASSES = 6
"""Placement classes side by side."""


def print_result(result: Result, console: Console) -> None:
    """Print means and paired ratios, placement classes where there are some, and warnings."""
    table = _comparison_table(result)
    if _fits(table, console):
        console.print(table)
    else:
        _print_lines(_comparison_lines(result), console)
    for candidate, placements in groupby(result.placements, key=lambda each: each.candidate):
        console.print()
        _print_placements(candidate, list(placements), result, console)
    for note in result.notes:
        console.print(note, highlight=False, soft_wrap=True)
    for warning in result.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def _fits(table: Table, console: Console) -> bool:
    """Whether every number has its room; the names in the first column may fold."""
    wide = console.options.update(max_width=10_000)
    first, *others = table.columns
    widths = [
        max(Measurement.get(console, wide, cell).maximum for cell in (column.header, *column.cells))
        for column in others
    ]
    return (first.min_width or 0) + sum(widths) + len(widths) <= console.width


def _print_lines(lines: Iterator[Text], console: Console) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _title(result: Result) -> str:
    pairs = max(arm.values.height for arm in result.arms.values())
    return f"{result.scenario}: ratios to {result.baseline}, {counted(pairs, 'pair')}"


def _comparison_table(result: Result) -> Table:
    table = _table(_title(result))
    widest = max(len(name) + len(ARROWS[METRICS[name].better]) for name in result.metrics)
    table.add_column("metric / arm", overflow="fold", min_width=widest)
    for head in ("mean ± 95 %", "ratio [95 %]", "pairs\nworse", "P mean\nworse"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, metric, unit in _metrics(result):
        table.add_row(Text(name + ARROWS[metric.better], style="bold"), Text(unit, style="dim"))
        for arm, mean, ratio in _rows(result, name):
            table.add_row(f"  {arm}", mean, *_ratio(ratio, metric))
    return table


def _comparison_lines(result: Result) -> Iterator[Text]:
    yield Text(_title(result), style="bold")
    for name, metric, unit in _metrics(result):
        yield Text(f"{name}{ARROWS[metric.better]}{f' ({unit})' if unit else ''}", style="bold")
        for arm, mean, ratio in _rows(result, name):
            yield Text(f"  {arm}")
            yield Text(f"    mean {mean}")
            text, *shares = _ratio(ratio, metric)
            yield Text("    ratio ").append_text(text) if shares else Text("    ").append_text(text)
            for label, share in zip(("pairs worse", "P mean worse"), shares, strict=False):
                yield Text(f"    {label} ").append_text(share)


def _metrics(result: Result) -> Iterator[tuple[str, Metric, str]]:
    for name in result.metrics:
        metric = METRICS[name]
        yield name, metric, "" if metric.unit == "1" else metric.unit


def _rows(result: Result, metric: str) -> Iterator[tuple[str, str, Ratio | None]]:
    for arm, means in result.means.items():
        ratio = None if arm == result.baseline else result.comparison(arm, metric).paired
        yield arm, mean_text(means[metric]), ratio


def _print_placements(candidate: str, placements: list[Placement], result: Result, console: Console) -> None:
    """As many classes side by side as the terminal has room for, and one is always printed."""
    while placements:
        for beside in range(CLASSES, 0, -1):
            table = _placement_table(candidate, placements[:beside], result)
            if _fits(table, console):
                console.print(table)
                break
        else:
            _print_lines(_placement_lines(candidate, placements[0], result), console)
        placements = placements[beside:]


def _placement_table(candidate: str, placements: list[Placement], result: Result) -> Table:
    table = _table(f"{candidate}: keys per engine")
    table.add_column("class", overflow="fold", min_width=min(12, max(map(len, result.metrics))))
    for each in placements:
        table.add_column(each.name, justify="right", no_wrap=True)
    for label, *cells in _placement_rows(placements, result):
        table.add_row(label, *cells)
    return table


def _placement_lines(candidate: str, placement: Placement, result: Result) -> Iterator[Text]:
    yield Text(f"{candidate}: keys per engine {placement.name}", style="bold")
    for label, cell in _placement_rows([placement], result):
        yield Text(f"  {label} {cell}")


def _placement_rows(placements: list[Placement], result: Result) -> Iterator[list[str]]:
    exact = [each.p_exact for each in placements]
    if result.arms[placements[0].candidate].is_hashed:
        yield ["uniform hash", *(f"{p:.1%}" for p in exact)]
    yield [
        "planned" if result.arms[placements[0].candidate].is_blocked else "simulated",
        *(f"{each.p_simulated:.1%}" for each in placements),
    ]
    yield ["pairs", *(str(each.pairs) for each in placements)]
    for name in result.metrics:
        ratios = [each.ratio[name] for each in placements]
        yield [name, *("–" if ratio is None else f"{ratio:.3f}" for ratio in ratios)]


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0), pad_edge=False)


def _ratio(paired: Ratio | None, metric: Metric) -> Sequence[Text]:
    if paired is None:
        return [Text("baseline", style="dim")]
    if paired.is_tie:
        pairs = "pair" if paired.pairs == 1 else f"all {paired.pairs} pairs"
        return [Text(f"= ({pairs} equal)"), _share(paired.p_worse), Text("–")]
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
