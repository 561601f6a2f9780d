"""The numbers: what each measures, and what it should reach.

Rates are slopes: a run with n items and one with n/5, (n - n/5) over the difference of their times, so that start-up
is left out. Everything else is the time of the whole.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import workloads
from benchmarks.measure import Run, Span, best, run, span, take_turns, typical
from sim import sweep
from sim.scenario import Cell, Scenario, load_scenario

Pair = tuple[Span, Span]
"""By the medians of the repetitions, and by the best."""
KEYED = "vllm.consistent_hash"
FLEETS = (4, 256)
FLEET_REQUESTS = 102_400
"""Requests of each fleet, whatever its size."""
MAIN = "slime_group_affinity"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured quantity: the median of its repetitions and the best, by CPU and by wall clock."""

    number: str
    what: str
    unit: str
    median: Span
    best: Span
    at_least: float | None = None
    aim: float | None = None
    clock: str = "cpu"
    """Which clock is held against the targets."""
    more_is_better: bool = False

    def share(self, target: float) -> float:
        """Median over target, or target over median where less is better: 1 or more is reached."""
        value: float = getattr(self.median, self.clock)
        return value / target if self.more_is_better else target / value


@dataclass(frozen=True, slots=True)
class Options:
    """How much to measure."""

    repeat: int = 5
    long: bool = False
    """Also a million requests in the growth."""
    scale: float = 1.0
    """Share of the full sizes: below 1 to see that everything runs."""
    preset: str = "vllm"
    """Of the engines of A to D."""

    def name(self, number: str) -> str:
        """The number, with the preset where it is not the usual one."""
        return number if self.preset == "vllm" else f"{number}, {self.preset}"

    def size(self, count: int) -> int:
        """A number of items at this scale."""
        return max(round(count * self.scale), 5)


def rate_a(options: Options) -> list[Row]:
    """Independent requests a second, and the cost of one in bare timeouts."""
    groups = options.size(workloads.FULL["A"])
    preset = options.preset
    rate = workloads.saturated_rate(groups, preset)
    return _rates(
        "A", lambda n: workloads.requests(n, rate, preset=preset), groups, options, (18_000, 30_000), (70, 42)
    )


def rate_b(options: Options) -> list[Row]:
    """Requests of growing sessions a second."""
    groups = options.size(workloads.FULL["B"])
    return _rates("B", lambda n: workloads.cell("B", n, preset=options.preset), groups, options, (12_000, 20_000))


def seconds_c(options: Options) -> list[Row]:
    """Seconds of one rollout step."""
    return _seconds(
        "C", workloads.cell("C", options.size(workloads.FULL["C"]), preset=options.preset), options, (1.0, 0.4)
    )


def seconds_d(options: Options) -> list[Row]:
    """Seconds of one replay."""
    cell = workloads.replay(f"workload.limit={options.size(610)}", preset=options.preset)
    return _seconds("D", cell, options, (1.5, 0.7))


def seconds_e(options: Options) -> list[Row]:
    """Seconds and memory of a million requests. Memory is the peak of this process: run E alone."""
    cell = workloads.cell("E", options.size(workloads.FULL["E"]))
    rows = _seconds("E", cell, Options(repeat=1), (90, 40))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [*rows, Row("E", "peak memory of the process", "GiB", Span(peak, peak), Span(peak, peak), 2, 1)]


def seconds_f(options: Options) -> list[Row]:
    """Seconds of a fleet of a thousand engines."""
    return _seconds("F", workloads.cell("F", options.size(workloads.FULL["F"])), Options(repeat=1), (60, 20))


def growth(options: Options) -> list[Row]:
    """Time of a request when there are more of them, and when as many go to more engines."""
    rate = workloads.saturated_rate(options.size(workloads.FULL["A"]))
    counts = [10_000, 100_000, *([1_000_000] if options.long else [])]
    sizes = {f"{count:,} requests": (options.size(count), 4, "round_robin") for count in counts}
    fleets = {f"{engines} engines": (options.size(FLEET_REQUESTS), engines, KEYED) for engines in FLEETS}
    rows = []
    for cases in (sizes, fleets):
        costs = _costs(rate, cases, options)
        first, *others = costs
        rows += [
            Row(
                "growth",
                f"time a request, {other} against {first}",
                "ratio",
                *_over(costs[other], costs[first]),
                1.3,
                1,
            )
            for other in others
        ]
    return rows


def cold(options: Options) -> list[Row]:
    """Seconds of the main scenario from a cold process, charts included."""
    pairs = options.size(20)
    spans = [span(lambda: _command(MAIN, "--pairs", str(pairs))) for _ in range(options.repeat)]
    what = f"`windtunnel run {MAIN} --pairs {pairs}`"
    return [Row("cold", what, "s", typical(spans), best(spans), 20, 5, "wall")]


def two_jobs(options: Options) -> list[Row]:
    """Wall time of one process over that of two."""
    main = load_scenario(MAIN).select(pairs=options.size(200))
    long = load_scenario("nemo_gym_12_engines", [f"workload.limit={options.size(610)}"])
    long = long.select(pairs=options.size(4), arms=["sha256_mod"])
    return [row for scenario in (main, long) for row in _two_jobs(scenario, options)]


NUMBERS: dict[str, Callable[[Options], list[Row]]] = {
    "A": rate_a,
    "B": rate_b,
    "C": seconds_c,
    "D": seconds_d,
    "growth": growth,
    "cold": cold,
    "sweep": two_jobs,
    "E": seconds_e,
    "F": seconds_f,
}
USUAL = ("A", "B", "C", "D", "growth", "cold", "sweep")
"""What runs unless named: E and F take minutes."""
BY_PRESET = ("A", "B", "C", "D")
"""What depends on the preset; the others have the usual one."""


def _rates(
    number: str,
    cell: Callable[[int], Cell],
    groups: int,
    options: Options,
    rates: tuple[float, float],
    timeouts: tuple[float, float] | None = None,
) -> list[Row]:
    number = options.name(number)
    many, few = cell(groups), cell(groups // 5)
    runs, bare = take_turns({"many": lambda: run(many), "few": lambda: run(few)}, options.repeat)
    written, simulated = (_slope(runs["many"], runs["few"], pick) for pick in (_written, _simulated))
    rows = [
        Row(number, "requests/s, log written", "requests/s", *_inverse(written), *rates, more_is_better=True),
        Row(number, "requests/s, simulation alone", "requests/s", *_inverse(simulated), more_is_better=True),
    ]
    if timeouts:
        # Within each round, so that what else the machine does meanwhile falls on both.
        each = [_over(_slope([m], [f], _written), (b, b))[0] for m, f, b in zip(*runs.values(), bare, strict=True)]
        cost = typical(each), best(each)
        rows += [
            Row(number, "timeouts of bare SimPy a request", "timeouts", *cost, *timeouts),
            Row(number, "one timeout of bare SimPy", "us", typical(bare) / 1e-6, best(bare) / 1e-6),
        ]
    return rows


def _seconds(number: str, cell: Cell, options: Options, targets: tuple[float, float]) -> list[Row]:
    number = options.name(number)
    runs, _ = take_turns({"whole": lambda: run(cell)}, options.repeat)
    written, simulated = ([pick(each) for each in runs["whole"]] for pick in (_written, _simulated))
    requests = f"{runs['whole'][0].requests:,} requests"
    return [
        Row(number, f"{requests}, log written", "s", typical(written), best(written), *targets),
        Row(number, f"{requests}, simulation alone", "s", typical(simulated), best(simulated)),
    ]


def _costs(rate: float, cases: dict[str, tuple[int, int, str]], options: Options) -> dict[str, Pair]:
    """Time of a request in each case (requests, engines, policy); the cases take turns."""
    works = {}
    for name, (groups, engines, policy) in cases.items():
        works[name] = partial(run, workloads.requests(groups, rate, engines, policy))
        works[f"{name}, few"] = partial(run, workloads.requests(groups // 5, rate, engines, policy))
    runs, _ = take_turns(works, min(options.repeat, 3))
    return {name: _slope(runs[name], runs[f"{name}, few"], _written) for name in cases}


def _two_jobs(scenario: Scenario, options: Options) -> list[Row]:
    def by(jobs: int) -> Span:
        with tempfile.TemporaryDirectory() as folder:
            return span(lambda: sweep.run(scenario, jobs=jobs, out=folder))

    spans, _ = take_turns({"one": lambda: by(1), "two": lambda: by(2)}, min(options.repeat, 3))
    speed = _over((typical(spans["one"]), best(spans["one"])), (typical(spans["two"]), best(spans["two"])))
    what = f"speed-up of two jobs, {scenario.name}, {scenario.pairs} pairs"
    return [Row("sweep", what, "ratio", *speed, 1.7, 1.9, "wall", more_is_better=True)]


def _command(*arguments: str) -> None:
    program = Path(sys.executable).with_name("windtunnel")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "run", *arguments, "--out", folder], check=True, capture_output=True)


def _written(one: Run) -> Span:
    return one.written


def _simulated(one: Run) -> Span:
    return one.simulated


def _slope(many: list[Run], few: list[Run], pick: Callable[[Run], Span]) -> Pair:
    """Seconds of one more request: by medians, and by the best."""
    more = many[0].requests - few[0].requests
    medians, bests = (
        (of([pick(each) for each in many]) - of([pick(each) for each in few])) / more for of in (typical, best)
    )
    return medians, bests


def _inverse(pair: Pair) -> Pair:
    medians, bests = (Span(1 / each.cpu, 1 / each.wall) for each in pair)
    return medians, bests


def _over(pair: Pair, other: Pair) -> Pair:
    medians, bests = (Span(a.cpu / b.cpu, a.wall / b.wall) for a, b in zip(pair, other, strict=True))
    return medians, bests
