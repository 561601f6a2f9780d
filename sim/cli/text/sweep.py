"""A sweep as a table: the ratios of every variant, and who wins there."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.metrics import METRICS
from sim.report.comparison import Comparison
from sim.report.numbers import number
from sim.report.result import Result
from sim.report.table import ARROWS
from sim.sweep import SweepResult, winner


def print_sweep(result: SweepResult, metric: str, console: Console) -> None:
    """Print the ratios of every variant, who wins there, and warnings with how many variants they concern."""
    baseline = result.sweep.scenario.baseline
    candidates = list(dict.fromkeys(each.candidate for found in result.results.values() for each in found.comparisons))
    wide = _matrix(result, metric, baseline, candidates)
    measured = console.measure(wide, options=console.options.update(max_width=10_000)).maximum
    console.print(wide if measured <= console.width else _rows(result, metric, baseline, candidates))
    for name, found in result.results.items():
        for note in found.notes:
            console.print(f"{name}: {note}", highlight=False, soft_wrap=True)
    warnings: dict[str, list[str]] = {}
    for name, found in result.results.items():
        for warning in found.warnings:
            warnings.setdefault(warning, []).append(name)
    for warning, names in warnings.items():
        where = "every variant" if len(names) == len(result.results) else ", ".join(names[:3])
        more = f" and {len(names) - 3} more" if 3 < len(names) < len(result.results) else ""
        console.print(Text(f"warning: {where}{more}: {warning}", style="yellow"), soft_wrap=True)
    for name, error in result.errors.items():
        console.print(Text(f"failed: {name}: {error}", style="red"), soft_wrap=True)


def _title(result: SweepResult, metric: str, baseline: str) -> Table:
    arrow = ARROWS[METRICS[metric].better]
    title = f"{result.sweep.scenario.name}: {metric}{arrow}, ratios to {baseline} [95 %]"
    return Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0), pad_edge=False)


def _matrix(result: SweepResult, metric: str, baseline: str, candidates: Sequence[str]) -> Table:
    """One row a variant, one column a candidate."""
    table = _title(result, metric, baseline)
    table.add_column("variant", overflow="fold")
    table.add_column("pairs", justify="right")
    for candidate in candidates:
        table.add_column(candidate, justify="right", no_wrap=True)
    table.add_column("best")
    for name, found in result.results.items():
        here = {each.candidate: each for each in found.comparisons if each.metric == metric}
        pairs = min(arm.values.height for arm in found.arms.values())
        table.add_row(name, str(pairs), *(_ratio(here.get(each)) for each in candidates), verdict(found, metric))
    return table


def _rows(result: SweepResult, metric: str, baseline: str, candidates: Sequence[str]) -> Table:
    """One row a variant and candidate, for terminals too narrow for a column each."""
    table = _title(result, metric, baseline)
    table.add_column("variant / candidate", overflow="fold")
    table.add_column("ratio", justify="right", no_wrap=True)
    for name, found in result.results.items():
        table.add_row(Text(name, style="bold"), Text(verdict(found, metric), style="dim"))
        for each in found.comparisons:
            if each.metric == metric and each.candidate in candidates:
                table.add_row(f"  {each.candidate}", _ratio(each))
    return table


def _ratio(comparison: Comparison | None) -> str:
    if comparison is None:
        return "–"
    paired = comparison.paired
    if paired.ratio is None:
        return paired.reason
    if paired.lo is None or paired.hi is None:
        return f"{paired.ratio:.3f}"
    return f"{paired.ratio:.3f} [{paired.lo:.3f}, {paired.hi:.3f}]"


def verdict(result: Result, metric: str) -> str:
    """The best arm of a variant, and whether the pairs tell it from the next."""
    if METRICS[metric].better == "none":
        return "–"
    best = winner(result, metric)
    return best.arm if best.is_separable else f"{best.arm} (not separable)"


class BestSoFar:
    """The best mean of any arm in any variant that has been decided."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self._held: tuple[float, str, str] | None = None

    def hear(self, variant: str, result: Result) -> str:
        """Take a variant in, and say who leads now; nothing where neither more nor less of the metric is better."""
        metric = METRICS[self.metric]
        if metric.better == "none":
            return ""
        sign = 1 if metric.better == "lower" else -1
        for arm, means in result.means.items():
            mean = means[self.metric].mean
            if mean is not None and (self._held is None or sign * mean < sign * self._held[0]):
                self._held = (mean, arm, variant)
        if self._held is None:
            return ""
        value, arm, where = self._held
        unit = "" if metric.unit == "1" else f" {metric.unit}"
        return f"best so far: {arm} in {where}, {number(value)}{unit}"
