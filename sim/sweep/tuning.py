"""Tuning an arm of a scenario: the search of ``sim.stats.tuning`` over replications, stored as those of a sweep are.

Every point is compared with the scenario's baseline on the same pairs. What the search finds is measured anew under the
next seed, where neither the search nor the choice of the best has looked.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from sim import registry
from sim.errors import ScenarioError
from sim.log import store
from sim.metrics import METRICS
from sim.scenario import Cell, check
from sim.scenario.tuning import Tuning
from sim.stats.paired import Floats, Ratio, compare, t_interval
from sim.stats.tuning import CONFIRMED, Found, Point, fewest_runs, search
from sim.sweep._collect import Collector, Run, give_up
from sim.sweep._pools import Pool
from sim.sweep._run import Progress
from sim.sweep._stored import manifest

FEWEST_CONFIRMED: Final = 3
SURE: Final = 0.05


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What a tuning found, and how sure."""

    tuning: Tuning
    metric: str
    found: Found
    pairs: int
    """Fresh pairs on which the optimum was measured anew."""
    to_baseline: Ratio
    """The optimum over the baseline, on fresh pairs."""
    to_start: Ratio | None
    """The optimum over the arm's present values; None where these are the baseline, or the optimum."""
    to_worst: Ratio | None
    """The optimum over the worst of the measured points; None where this is the optimum."""
    runs: int
    warnings: list[str] = field(default_factory=list)
    failures: int = 0

    @property
    def table(self) -> pl.DataFrame:
        """One row a measured point: parameters, ``pairs``, ``ratio`` to the baseline and ``fitted``, with intervals."""
        sign = _sign(self.metric)
        rows = []
        for each in sorted(self.found.tried, key=lambda tried: tried.point):
            logs = sign * each.values[~np.isnan(each.values)]
            lo, hi = t_interval(logs) if logs.size > 1 else (np.nan, np.nan)
            fitted = sorted(np.exp([sign * each.fitted_lo, sign * each.fitted_hi]))
            rows.append(
                {
                    **{p.name: value for p, value in zip(self.found.space, each.point, strict=True)},
                    "pairs": logs.size,
                    "ratio": float(np.exp(logs.mean())),
                    "lo": float(np.exp(lo)),
                    "hi": float(np.exp(hi)),
                    "fitted": float(np.exp(sign * each.fitted)),
                    "fitted_lo": float(fitted[0]),
                    "fitted_hi": float(fitted[1]),
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)


def tune(
    tuning: Tuning,
    *,
    metric: str | None = None,
    budget: int = 200,
    jobs: int | None = 1,
    out: str | Path = "results",
    fresh: bool = False,
    progress: Progress | None = None,
    pool: Pool | None = None,
) -> TuneResult:
    """Find good values with at most ``budget`` replications, those of the baseline included.

    ``metric``: what is to be best, by default the scenario's first one. ScenarioError for what a user can put right.
    """
    name = metric or tuning.scenario.metrics[0]
    if name not in METRICS:
        raise ScenarioError(f"unknown metric {name!r}; {registry.suggest(name, METRICS)}")
    if METRICS[name].better == "none":
        raise ScenarioError(f"the metric {name} has no better side: tune by another one, with --metric")
    confirmed = int(budget * CONFIRMED)
    least = int(np.ceil(max(fewest_runs(len(tuning.space)) / (1 - CONFIRMED), 4 * FEWEST_CONFIRMED / CONFIRMED)))
    if budget < least:
        raise ScenarioError(f"a budget of {budget} replications is too small: this takes {least} or more")
    with ExitStack() as stack:
        bench = _Bench(tuning, name, jobs=jobs, out=out, fresh=fresh, progress=progress, pool=pool, stack=stack)
        try:
            found = search(tuning.space, bench.measure, budget - confirmed)
        except ValueError as error:
            raise bench.error() or ScenarioError(f"{name}: {error}") from None
        result = bench.confirm(found, budget - found.runs)
        bench.collector.settle_all()
    return result


def _sign(metric: str) -> float:
    return -1.0 if METRICS[metric].better == "lower" else 1.0


class _Bench:
    """Runs points and the baseline."""

    def __init__(
        self, tuning: Tuning, metric: str, *, jobs: int | None, stack: ExitStack, out: str | Path, **options: Any
    ) -> None:
        self.tuning = tuning
        self.metric = metric
        self.names: dict[str, str] = {}
        scenario = tuning.scenario
        self.folder = Path(out) / scenario.name
        self.collector = stack.enter_context(
            Collector(
                [self.folder],
                jobs=jobs,
                keep_tables=False,
                manifest=lambda run: manifest(scenario, [self.names[run.cell.hash]], run.cell),
                told=options["progress"],
                fresh=options["fresh"],
                pool=options["pool"],
            )
        )

    def measure(self, points: Sequence[Point], pairs: Sequence[int]) -> list[Floats]:
        """Logarithms of the ratio to the baseline on pairs 0 to n of each point, larger is better."""
        return [_logs(base, own, self.metric) for base, own in self._columns(self.tuning, points, pairs)]

    def _columns(self, tuning: Tuning, points: Sequence[Point], pairs: Sequence[int]) -> list[tuple[Floats, Floats]]:
        """The metric of the baseline and of each point, on the point's pairs."""
        scenario = tuning.scenario
        base = self._want(scenario.arms[scenario.baseline], max(pairs), scenario.baseline)
        seed = scenario.seed
        runs = [
            self._want(tuning.cell(point, seed), count, f"{tuning.arm}, {tuning.name(point)}")
            for point, count in zip(points, pairs, strict=True)
        ]
        self.collector.collect(lambda _: [])
        if base.is_lost:
            raise give_up(base)
        every = self._column(base, max(pairs))
        return [(every[:count], self._column(run, count)) for run, count in zip(runs, pairs, strict=True)]

    def _want(self, cell: Cell, pairs: int, name: str) -> Run:
        self.names.setdefault(cell.hash, name)
        return self.collector.want(cell, pairs, self.folder)

    def _column(self, run: Run, pairs: int) -> Floats:
        """A pair that failed, or has no value, is NaN."""
        every = pl.DataFrame({"pair": pl.Series(range(pairs), dtype=pl.Int64)})
        if run.is_lost:
            return np.full(pairs, np.nan)
        values = every.join(store.read_values(run.folder), on="pair", how="left").sort("pair")[self.metric]
        return values.cast(pl.Float64).fill_null(np.nan).to_numpy()

    def error(self) -> ScenarioError | None:
        """What kept points from running."""
        lost = [run for run in self.collector.runs.values() if run.is_lost]
        return give_up(lost[0]) if lost else None

    def confirm(self, found: Found, left: int) -> TuneResult:
        """Measure what was found on pairs of the next seed."""
        tuning = self.tuning.reseeded((self.tuning.scenario.seed + 1) % 2**63)
        points = list(dict.fromkeys([found.optimum, found.worst, tuning.start]))
        cells = {tuning.cell(point).hash for point in points}
        cells.add(tuning.scenario.arms[tuning.scenario.baseline].hash)
        pairs = left // len(cells)
        columns = self._columns(tuning, points, [pairs] * len(points))
        base = columns[0][0]
        by_point = dict(zip(points, (own for _, own in columns), strict=True))
        best = by_point[found.optimum]
        better = METRICS[self.metric].better
        is_base = tuning.cell(tuning.start).hash == tuning.scenario.arms[tuning.scenario.baseline].hash
        start = None if is_base or tuning.start == found.optimum else by_point[tuning.start]
        worst = None if found.worst == found.optimum else by_point[found.worst]
        result = TuneResult(
            tuning=self.tuning,
            metric=self.metric,
            found=found,
            pairs=pairs,
            to_baseline=compare(base, best, better),
            to_start=None if start is None else compare(start, best, better),
            to_worst=None if worst is None else compare(worst, best, better),
            runs=found.runs + pairs * len(cells),
            failures=sum(len(run.failures) for run in self.collector.runs.values()),
        )
        known = check(self.tuning.scenario).warnings
        result.warnings.extend([*_warnings(result, is_base=is_base), *self._failed(), *known])
        return result

    def _failed(self) -> list[str]:
        runs = [run for run in self.collector.runs.values() if run.failures]
        return [
            f"{self.names[run.cell.hash]}: {len(run.failures)} replications failed; pair {pair}, seed {run.cell.seed}: "
            f"{text.strip().splitlines()[-1]}"
            for run in runs
            for pair, text in [min(run.failures.items())]
        ]


def _logs(base: Floats, own: Floats, metric: str) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = _sign(metric) * np.log(own / base)
    return np.where(np.isfinite(logs), logs, np.nan)


def _is_better(ratio: Ratio, metric: str) -> bool:
    """The optimum is better for sure."""
    if ratio.ratio is None or ratio.is_tie:
        return False
    if ratio.lo is None or ratio.hi is None:
        return False
    return ratio.hi < 1 if METRICS[metric].better == "lower" else ratio.lo > 1


def _warnings(result: TuneResult, *, is_base: bool) -> list[str]:
    found, metric = result.found, result.metric
    said = []
    is_flat = result.to_worst is None or not _is_better(result.to_worst, metric)
    if is_flat:
        said.append(
            f"the response is flat within the noise: on {result.pairs} fresh pairs the optimum is not told apart "
            "from the worst point"
        )
    start = result.to_baseline if is_base else result.to_start
    if start is not None and not _is_better(start, metric):
        said.append(f"the optimum is not told apart from the present values on {result.pairs} fresh pairs: keep them")
    if is_flat:
        return said  # then its place means nothing
    for parameter, value in found.at_edge:
        said.append(f"the optimum lies at an end of the range of {parameter.name}, {value:g}: widen it")
    for parameter, lo, hi in found.loose:
        said.append(f"the optimum of {parameter.name} may lie anywhere from {lo:g} to {hi:g}: spend a larger budget")
    return said
