"""The table of theory: what each cell simulates, the closed form it must meet, and the interval of the estimate.

Estimates are batch means with control variates whose means are known: gaps, services and their squares, and products of
these with the wait before them. A customer's wait is settled before his own service and the next gap are seen, so such
a product averages to zero in any world where nothing knows the future; no part of the theory under test is used.
Coefficients are fitted, and Student's interval counts them. Intervals hold together at 99 % for the whole table
(Bonferroni). Seeds follow from the names of the cells; nobody chose them.

    python -m tests.laws.theory             the cells of the quick tests, as rows for docs/theory.md
    python -m tests.laws.theory --all       all cells: minutes
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial, log, sqrt
from zlib import crc32

import numpy as np
from scipy import stats

from tests.laws import theory_forms as forms
from tests.laws.theory_worlds import CONSTANT, EXPONENTIAL, FINE, Customers, Groups, Law, Queue, run

BATCHES = 24
MEAN, TWO_POINT = Law(500), Law(500, ((0.8, 125), (0.2, 2000)))
"""Services under processor sharing: geometric, and short or long with a squared variation of 2.25; steps of S/500."""
SIGMA = sqrt(log(2))
"""Of lognormal lengths whose deviation equals their mean."""


@dataclass(frozen=True)
class Estimate:
    """A mean and half the width of its interval."""

    mean: float
    half: float


@dataclass(frozen=True)
class Row:
    """One cell of the table."""

    name: str
    theory: float
    """The closed form."""
    target: float
    """The same for steps of finite length, where that is known exactly."""
    bias: float
    """Bound on what steps of finite length do to it, where it is not."""
    customers: int
    measure: Callable[[float], Estimate]
    """Simulates; takes the chance that the interval may miss."""
    is_quick: bool
    is_close: bool = True
    """Whether the half-width must be below 3 % of the value."""

    def estimate(self) -> Estimate:
        """Simulate."""
        return self.measure(0.01 / len(ROWS))

    def agrees(self, found: Estimate) -> bool:
        """Whether the form lies in the interval, but for what finite steps may do."""
        return abs(found.mean - self.target) < found.half + self.bias


def seed_of(name: str) -> int:
    """A number that the name alone decides."""
    return crc32(name.encode())


def controlled(values, controls, batches=BATCHES):
    """Mean of ``values`` corrected by ``controls`` of mean zero: estimate, standard error, degrees of freedom."""
    size = len(values) // batches
    means = [np.asarray(each)[: size * batches].reshape(batches, size).mean(1) for each in (values, *controls)]
    design = np.column_stack([np.ones(batches), *means[1:]])
    fit, _, rank, _ = np.linalg.lstsq(design, means[0], rcond=None)
    assert rank == design.shape[1]
    rest = means[0] - design @ fit
    freedom = batches - rank
    error = sqrt(np.linalg.inv(design.T @ design)[0, 0] * (rest @ rest) / freedom)
    return fit[0], error, freedom


def innovations(state, service, gap, *, second_moment, stages, rate, servers=1):
    """Controls of mean zero: ``state`` is known before ``service`` and ``gap``; gaps are Erlang(stages, rate).

    The last two are what is left of the gap after state and service, less its mean given these.
    """
    drift = 1 / servers - stages / rate
    square = second_moment / servers**2 - 2 / servers * stages / rate + stages * (stages + 1) / rate**2
    change = service / servers - gap
    work = state + service / servers
    idle = np.maximum(gap - work, 0)
    passed = [np.exp(-rate * work) * (rate * work) ** i / factorial(i) for i in range(stages)]
    idle_mean = sum(chance * (stages - i) / rate for i, chance in enumerate(passed))
    idle_square = sum(chance * (stages - i) * (stages - i + 1) / rate**2 for i, chance in enumerate(passed))
    yield state * (change - drift)
    yield change - drift
    yield change**2 - square
    yield idle - idle_mean
    yield idle**2 - idle_square


def waits(name, law, load, customers, *, stages=1, **world):
    """Mean wait at the engines, each a single server that sees Erlang gaps."""
    engines = world.get("engines", 1)
    seen = Customers.of(run(Queue(law, load * engines, customers), seed_of(name), **world), law)
    # Engine after engine, so that a batch is one long stretch of one engine.
    order = np.lexsort((seen.arrived, seen.engine))
    engine, arrived = seen.engine[order], seen.arrived[order]
    kept = (np.diff(engine) == 0) & (order[:-1] >= customers // 10)
    gap = np.diff(arrived)[kept]
    state, service = seen.wait[order[:-1][kept]], seen.service[order[:-1][kept]]
    moments = {"second_moment": law.second_moment, "stages": stages, "rate": load * stages}
    return controlled(state, list(innovations(state, service, gap, **moments)))


def central_waits(name, servers, load, customers, pairs):
    """Mean wait where customers stay at the client until one of the engines is free, over several replications."""
    world = {"engines": servers, "policy": "least_load", "cap": servers}
    moments = {"second_moment": EXPONENTIAL.second_moment, "stages": 1, "rate": load * servers, "servers": servers}
    workload = Queue(EXPONENTIAL, load * servers, customers // pairs)
    parts = []
    for pair in range(pairs):
        seen = Customers.of(run(workload, seed_of(name), pair=pair, **world), EXPONENTIAL)
        kept = slice(len(seen.wait) // 10, -1)
        state, service, gap = seen.wait[kept], seen.service[kept], np.diff(seen.arrived)[kept.start :]
        parts.append([state, *innovations(state, service, gap, **moments)])
    values, *controls = map(np.concatenate, zip(*parts, strict=True))
    return controlled(values, controls)


def stays(name, law, load, customers):
    """Mean stay under processor sharing; the state is the work that an arrival finds, computed from the inputs."""
    world = {"seqs": 100_000, "sharing": True}
    seen = Customers.of(run(Queue(law, load, customers), seed_of(name), **world), law)
    gap = np.diff(seen.arrived)
    steps = np.concatenate([[0.0], np.cumsum(seen.service[:-1] - gap)])
    work = steps - np.minimum.accumulate(steps)
    kept = slice(customers // 10, customers - 1)
    moments = {"second_moment": law.second_moment, "stages": 1, "rate": load}
    service = seen.service[kept]
    controls = list(innovations(work[kept], service, gap[customers // 10 :], **moments))
    return controlled(seen.sojourn[kept], [*controls, service - 1])


def stays_of_two_choices(name, load, customers):
    """Mean stay in the limit of many engines: N = 100 and 400, the term in 1/N removed; that in 1/N^2 is left."""
    found = []
    for engines, count in ((100, customers // 3), (400, customers - customers // 3)):
        world = {"engines": engines, "policy": "power_of_two"}
        seen = Customers.of(run(Queue(EXPONENTIAL, load * engines, count), seed_of(name), **world), EXPONENTIAL)
        kept = slice(count // 5, None)
        found.append(controlled(seen.sojourn[kept], [seen.service[kept] - 1]))
    (few, few_error, freedom), (many, many_error, _) = found
    return (4 * many - few) / 3, sqrt(16 * many_error**2 + few_error**2) / 3, freedom


def longest_lengths(name, level, groups, siblings):
    """The 95th percentile of groups that nothing but their longest member delays; interval by order statistics."""
    steps, size = 1000, groups * siblings
    log = run(Groups(groups, siblings, SIGMA, steps), seed_of(name), seqs=size, step_s=1 / steps)
    ended = np.sort(log.numpy("groups")["ended"] * 1e-9)
    low, middle, high = stats.binom.ppf([level / 2, 0.5, 1 - level / 2], groups, 0.95).astype(int)
    return Estimate(ended[middle], float(max(ended[high] - ended[middle], ended[middle] - ended[low - 1])))


def student(mean, error, freedom, level):
    """Student's interval, which misses with chance ``level``."""
    return Estimate(mean, float(stats.t.ppf(1 - level / 2, freedom)) * error)


def _row(kind, load, is_quick, customers, theory, measure, **more):
    name = f"{kind} {load}"
    more = {"target": theory, "bias": 0.0} | more
    measured = lambda level: student(*measure(name), level)  # noqa: E731
    return Row(name, theory, customers=customers, measure=measured, is_quick=is_quick, **more)


def _tail(siblings, groups, is_quick, *, is_close=True):
    name, theory = f"longest of {siblings}", forms.group_quantile(siblings, SIGMA)
    return Row(
        name, theory, theory, bias=1 / 1000, customers=groups * siblings, is_quick=is_quick, is_close=is_close,
        measure=lambda level: longest_lengths(name, level, groups, siblings),
    )  # fmt: skip


def _single(load, is_quick, constant, exponential):
    yield _row(
        "M/D/1", load, is_quick, constant, forms.single_server(load, 1),
        lambda name: waits(name, CONSTANT, load, constant),
    )  # fmt: skip
    yield _row(
        "M/M/1", load, is_quick, exponential, forms.single_server(load, 2),
        lambda name: waits(name, EXPONENTIAL, load, exponential),
        target=forms.single_server(load, EXPONENTIAL.second_moment),
    )  # fmt: skip


def _around(form, load):
    """How far apart a form is for services half a step shorter and half a step longer, which enclose the drawn ones."""
    low, high = (form(4, load * (1 + half / FINE)) for half in (-0.5, 0.5))
    return high - low


def _in_turn(load, is_quick, customers):
    yield _row(
        "E4/M/1", load, is_quick, customers, forms.in_turn(4, load),
        lambda name: waits(name, EXPONENTIAL, load, customers, stages=4, engines=4),
        bias=_around(forms.in_turn, load),
    )  # fmt: skip


def _central(load, is_quick, customers, pairs=1):
    yield _row(
        "M/M/4", load, is_quick, customers, forms.central_queue(4, load),
        lambda name: central_waits(name, 4, load, customers, pairs),
        bias=_around(forms.central_queue, load), is_close=not is_quick,
    )  # fmt: skip


def _sharing(load, is_quick, customers, *, is_close=True):
    for kind, law in (("sharing, geometric", MEAN), ("sharing, two-point", TWO_POINT)):
        yield _row(
            kind, load, is_quick, customers, forms.shared(load),
            lambda name, law=law: stays(name, law, load, customers), target=forms.shared_in_steps(load, law),
            is_close=is_close,
        )  # fmt: skip


def _random(load, customers):
    yield _row(
        "random over 4", load, False, customers, forms.single_server(load, 2),
        lambda name: waits(name, EXPONENTIAL, load, customers, engines=4, policy="random"),
        target=forms.single_server(load, EXPONENTIAL.second_moment),
    )  # fmt: skip


def _two_choices(load, customers):
    yield _row(
        "power of two", load, False, customers, forms.power_of_two(load),
        lambda name: stays_of_two_choices(name, load, customers),
    )  # fmt: skip


ROWS = [
    *_single(0.3, True, 12_000, 12_000),
    *_single(0.5, True, 12_000, 20_000),
    *_single(0.7, True, 15_000, 25_000),
    *_single(0.85, True, 35_000, 80_000),
    *_single(0.9, False, 150_000, 350_000),
    *_single(0.95, False, 600_000, 900_000),
    *_in_turn(0.3, True, 30_000),
    *_in_turn(0.5, True, 12_000),
    *_in_turn(0.7, True, 20_000),
    *_in_turn(0.85, True, 50_000),
    *_in_turn(0.9, False, 120_000),
    *_in_turn(0.95, False, 450_000),
    *_central(0.3, True, 10_000),
    *_central(0.5, True, 15_000),
    *_central(0.7, True, 25_000),
    *_central(0.85, True, 40_000),
    *_central(0.3, False, 1_600_000, 4),
    *_central(0.5, False, 1_200_000, 3),
    *_central(0.7, False, 400_000),
    *_central(0.85, False, 500_000),
    *_central(0.9, False, 650_000),
    *_central(0.95, False, 700_000),
    *_sharing(0.3, True, 20_000),
    *_sharing(0.5, True, 30_000),
    *_sharing(0.7, True, 40_000),
    *_sharing(0.85, True, 60_000, is_close=False),
    *_sharing(0.85, False, 160_000),
    *_sharing(0.9, False, 250_000),
    *_sharing(0.95, False, 700_000),
    *(row for load in (0.3, 0.5, 0.7, 0.85, 0.9) for row in _random(load, 150_000)),
    *(row for load in (0.5, 0.7, 0.9, 0.95) for row in _two_choices(load, 210_000)),
    _tail(8, 2_500, True, is_close=False),
    *(_tail(siblings, groups, False) for siblings, groups in ((4, 40_000), (8, 32_000), (16, 26_000), (32, 22_000))),
]
"""Half-widths reach 3 % but for quick cells marked otherwise: M/M/4, where few customers wait, and the longest runs."""


def main() -> None:
    """Print the rows in the form of docs/theory.md."""
    for row in ROWS:
        if row.is_quick or "--all" in sys.argv:
            print(line(row), flush=True)


def line(row: Row) -> str:
    """A row of the table in docs/theory.md."""
    found = row.estimate()
    verdict = "agrees" if row.agrees(found) else "DISAGREES"
    steps = f"< {100 * row.bias / row.theory:.2f} %" if row.bias else f"{100 * (row.target / row.theory - 1):+.3f} %"
    interval, share = f"{found.mean:.4f} ± {found.half:.4f}", f"{100 * found.half / row.theory:.1f} %"
    return f"| {row.name} | {row.customers:,} | {row.theory:.4f} | {steps} | {interval} | {share} | {verdict} |"


if __name__ == "__main__":
    main()
