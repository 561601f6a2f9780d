"""``windtunnel sweep``: run with the best so far on stderr, show where the winner changes."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim import registry
from sim.cli._progress import progress_line
from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.report.comparison import Comparison
from sim.report.result import Result
from sim.report.table import ARROWS
from sim.scenario import Sweep, Variant, load_sweep
from sim.sweep import SweepResult, sweep, winner
from sim.sweep._pools import Pool
from sim.sweep.charts import save_sweep_charts


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    vary: Sequence[str]
    metric: str | None
    pairs: int | None
    seed: int | None
    overrides: Sequence[str]
    jobs: int | None
    executor: str
    address: str | None
    out: Path
    keep_tables: bool
    fresh: bool


def run_sweep(name: str, options: Options) -> int:
    """Run a sweep and print its table. 1: something failed."""
    made = _selected(load_sweep(name, options.overrides, options.vary), options)
    metric = options.metric or made.scenario.metrics[0]
    if metric not in made.scenario.metrics:
        raise ScenarioError(f"--metric {metric}: not among the scenario's metrics; {_known(metric, made)}")
    if options.address is not None and options.executor != "ray":
        raise ScenarioError("--address has no effect without --executor ray")
    notes = Console(stderr=True)
    with ExitStack() as stack:
        pool = _pool(options, stack)
        progress = stack.enter_context(progress_line(notes))
        task = progress.add_task(made.scenario.name, total=None)

        def decided(variant: str, result: Result) -> None:
            progress.console.print(f"{variant}: {_verdict(result, metric)}", highlight=False, soft_wrap=True)

        result = sweep(
            made,
            jobs=options.jobs,
            out=options.out,
            keep_tables=options.keep_tables,
            fresh=options.fresh,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
            decided=decided if notes.is_terminal else None,
            pool=pool,
        )
    print_sweep(result, metric, Console())
    path = save_table(result, options.out, is_variant=bool(options.vary or options.overrides))
    notes.print(f"wrote {path}", highlight=False, soft_wrap=True)
    for chart in save_sweep_charts(result, metric, path.parent, stem=path.stem):
        notes.print(f"wrote {chart}", highlight=False, soft_wrap=True)
    return int(result.failures > 0)


def _selected(made: Sweep, options: Options) -> Sweep:
    """The sweep with other pairs or another seed."""

    def changed(variant: Variant) -> Variant:
        return Variant(variant.name, variant.settings, variant.scenario.select(pairs=options.pairs, seed=options.seed))

    base = made.scenario.select(pairs=options.pairs, seed=options.seed)
    return Sweep(base, made.paths, tuple(changed(variant) for variant in made.variants))


def _known(metric: str, made: Sweep) -> str:
    return registry.suggest(metric, made.scenario.metrics)


def _pool(options: Options, stack: ExitStack) -> Pool | None:
    if options.executor != "ray":
        return None
    from sim.sweep._ray import ray_pool

    return stack.enter_context(ray_pool(options.address, options.jobs))


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
        table.add_row(name, str(pairs), *(_ratio(here.get(each)) for each in candidates), _verdict(found, metric))
    return table


def _rows(result: SweepResult, metric: str, baseline: str, candidates: Sequence[str]) -> Table:
    """One row a variant and candidate, for terminals too narrow for a column each."""
    table = _title(result, metric, baseline)
    table.add_column("variant / candidate", overflow="fold")
    table.add_column("ratio", justify="right", no_wrap=True)
    for name, found in result.results.items():
        table.add_row(Text(name, style="bold"), Text(_verdict(found, metric), style="dim"))
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


def _verdict(result: Result, metric: str) -> str:
    if METRICS[metric].better == "none":
        return "–"
    best = winner(result, metric)
    return best.arm if best.is_separable else f"{best.arm} (not separable)"


def save_table(result: SweepResult, out: Path, *, is_variant: bool) -> Path:
    """Write the whole table, every metric; a sweep that the command line changed has a name of its own."""
    folder = out / result.sweep.scenario.name
    name = f"sweep-{result.digest()}" if is_variant else "sweep"
    path = folder / f"{name}.csv"
    try:
        result.table.write_csv(path)
    except OSError as error:
        raise ScenarioError(f"cannot write {path}: {error.strerror or error}") from error
    return path
