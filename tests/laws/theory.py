"""The table of theory: what each cell simulates, the closed form it must meet, and the interval of the estimate.

Estimates are batch means with control variates whose means are known: gaps, services and their squares, and products of
these with the wait before them. A customer's wait is settled before his own service and the next gap are seen, so such
a product averages to zero in any world where nothing knows the future; no part of the theory under test is used.
Coefficients are fitted, and Student's interval counts them. Intervals hold together at 99 % for the whole table
(Bonferroni). Seeds follow from the names of the cells; nobody chose them.

    python -m tests.laws.theory             the cells of the quick tests, as rows of docs/theory.md
    python -m tests.laws.theory --write     all cells, some minutes, into docs/theory.md
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial, log, sqrt
from pathlib import Path
from zlib import crc32

import numpy as np
from scipy import stats

from tests.laws import theory_forms as forms
from tests.laws.theory_worlds import CONSTANT, EXPONENTIAL, FINE, Customers, Groups, Law, Queue, run

BATCHES = 60
MANY = 1000
"""Engines that stand for infinitely many."""
BATCH = 500
"""Members of groups on one engine: none delays another, however many, but large batches take long to simulate."""
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


def controlled(values, controls, cuts=None, batches=BATCHES):
    """Mean of ``values`` corrected by ``controls`` of mean zero: estimate, standard error, degrees of freedom.

    ``cuts`` are where a batch may begin, ascending. Where these are customers who find the system empty, no queue
    reaches from one batch into the next. Sums of batches are regressed on their sizes and on sums of the controls.
    """
    cuts = np.arange(len(values)) if cuts is None else np.asarray(cuts)
    wanted = np.searchsorted(cuts, np.linspace(cuts[0], cuts[-1], batches + 1))
    edges = np.unique(cuts[wanted])
    sums = [np.add.reduceat(np.asarray(each, dtype=float), edges)[:-1] for each in (np.ones(len(values)), *controls)]
    weight = 1 / np.sqrt(np.diff(edges))
    design = np.column_stack(sums) * weight[:, None]
    wished = np.add.reduceat(values, edges)[:-1] * weight
    fit, _, rank, _ = np.linalg.lstsq(design, wished, rcond=None)
    assert rank == design.shape[1]
    rest = wished - design @ fit
    freedom = len(rest) - rank
    error = sqrt(np.linalg.inv(design.T @ design)[0, 0] * (rest @ rest) / freedom)
    return fit[0], error, freedom


def together(parts):
    """Columns of several stretches as one: each from its first to its last customer who finds an empty system.

    A part is (whether each finds it empty, columns); returns the values, the controls and where batches may begin.
    """
    joined, cuts, size = [], [0], 0
    for is_empty, columns in parts:
        found = np.flatnonzero(is_empty)
        joined.append([column[found[0] : found[-1]] for column in columns])
        cuts += (size + found[1:] - found[0]).tolist()
        size = cuts[-1]
    values, *controls = map(np.concatenate, zip(*joined, strict=True))
    return values, controls, cuts[:-1]


def innovations(state, service, gap, *, second_moment, stages, rate, servers=1):
    """Controls of mean zero: ``state`` is known before ``service`` and ``gap``; gaps are Erlang(stages, rate).

    The last is what is left of the gap after state and service, less its mean given these. (With its square besides,
    single servers would leave nothing to chance: the estimate would be the closed form itself.)
    """
    drift = 1 / servers - stages / rate
    square = second_moment / servers**2 - 2 / servers * stages / rate + stages * (stages + 1) / rate**2
    change = service / servers - gap
    work = state + service / servers
    idle = np.maximum(gap - work, 0)
    passed = [np.exp(-rate * work) * (rate * work) ** i / factorial(i) for i in range(stages)]
    idle_mean = sum(chance * (stages - i) / rate for i, chance in enumerate(passed))
    yield state * (change - drift)
    yield change - drift
    yield change**2 - square
    yield idle - idle_mean


def waits(name, law, load, customers, *, stages=1, **world):
    """Mean wait at the engines, each a single server that sees Erlang gaps."""
    engines = world.get("engines", 1)
    seen = Customers.of(run(Queue(law, load * engines, customers), seed_of(name), **world), law)
    moments = {"second_moment": law.second_moment, "stages": stages, "rate": load * stages}
    parts = []
    for engine in range(engines):
        mine = np.flatnonzero(seen.engine == engine)
        mine = mine[len(mine) // 10 :]
        gap, mine = np.diff(seen.arrived[mine]), mine[:-1]
        state, service = seen.wait[mine], seen.service[mine]
        parts.append((state == 0, [state, *innovations(state, service, gap, **moments)]))
    return controlled(*together(parts))


def central_waits(name, servers, load, customers, pairs):
    """Mean wait where customers stay at the client until an engine is free; the state is the work found, a server."""
    world = {"engines": servers, "policy": "least_load", "cap": servers}
    moments = {"second_moment": EXPONENTIAL.second_moment, "stages": 1, "rate": load * servers, "servers": servers}
    workload = Queue(EXPONENTIAL, load * servers, customers // pairs)
    parts = []
    for pair in range(pairs):
        seen = Customers.of(run(workload, seed_of(name), pair=pair, **world), EXPONENTIAL)
        kept = slice(len(seen.wait) // 10, -1)
        gap = np.diff(seen.arrived)[kept.start :]
        controls = innovations(seen.work()[kept] / servers, seen.service[kept], gap, **moments)
        parts.append((seen.present()[kept] == 0, [seen.wait[kept], *controls]))
    return controlled(*together(parts))


def stays(name, law, load, customers):
    """Mean stay under processor sharing; the state is the work that an arrival finds, computed from the inputs."""
    world = {"seqs": 100_000, "sharing": True}
    seen = Customers.of(run(Queue(law, load, customers), seed_of(name), **world), law)
    gaps = np.diff(seen.arrived)
    steps = np.concatenate([[0.0], np.cumsum(seen.service[:-1] - gaps)])
    work, present = steps - np.minimum.accumulate(steps), seen.present()
    kept = slice(customers // 10, -1)
    state, number, service, gap = work[kept], present[kept], seen.service[kept], gaps[kept.start :]
    controls = [
        *innovations(state, service, gap, second_moment=law.second_moment, stages=1, rate=load),
        service - 1,
        number * (service - 1),
        number * (gap - 1 / load),
    ]
    return controlled(*together([(number == 0, [seen.sojourn[kept], *controls])]))


def stays_of_two_choices(name, load, customers, pairs):
    """Mean stay over very many engines, over several replications; the state is how many are present, an engine."""
    parts = []
    workload = Queue(EXPONENTIAL, load * MANY, customers // pairs)
    for pair in range(pairs):
        seen = Customers.of(run(workload, seed_of(name), engines=MANY, policy="power_of_two", pair=pair), EXPONENTIAL)
        kept = slice(len(seen.wait) // 10, -1)
        gap = MANY * np.diff(seen.arrived)[kept.start :] - 1 / load
        service, present = seen.service[kept] - 1, seen.present()[kept] / MANY
        parts.append([seen.sojourn[kept], service, gap, present * service, present * gap])
    values, *controls = map(np.concatenate, zip(*parts, strict=True))
    return controlled(values, controls, batches=20)


def longest_lengths(name, level, groups, siblings):
    """The 95th percentile of groups that nothing but their longest member delays; interval by order statistics."""
    steps, size = 1000, groups * siblings
    world = {"engines": 1 + size // BATCH, "seqs": size, "step_s": 1 / steps}
    log = run(Groups(groups, siblings, SIGMA, steps), seed_of(name), **world)
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


def _in_turn(load, is_quick, customers, *, is_close=True):
    yield _row(
        "E4/M/1", load, is_quick, customers, forms.in_turn(4, load),
        lambda name: waits(name, EXPONENTIAL, load, customers, stages=4, engines=4),
        bias=_around(forms.in_turn, load), is_close=is_close,
    )  # fmt: skip


def _central(load, is_quick, customers, *, pairs=1, is_close=True):
    yield _row(
        "M/M/4", load, is_quick, customers, forms.central_queue(4, load),
        lambda name: central_waits(name, 4, load, customers, pairs),
        bias=_around(forms.central_queue, load), is_close=is_close,
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


def _two_choices(load, customers, pairs):
    # With N engines the stay is longer by about 0.14 / (1 - load) / N, as N = 20 shows: 0.020, 0.070, 0.14 at loads of
    # 0.7, 0.9 and 0.95.
    form = forms.power_of_two(load)
    yield _row(
        "power of two", load, False, customers, form,
        lambda name: stays_of_two_choices(name, load, customers, pairs), bias=0.2 / (1 - load) / MANY * form,
    )  # fmt: skip


TWO_CHOICES = ((0.5, 150_000, 1), (0.7, 300_000, 1), (0.9, 700_000, 2), (0.95, 1_800_000, 4))
ROWS = [
    *_single(0.3, True, 12_000, 100_000),
    *_single(0.5, True, 15_000, 60_000),
    *_single(0.7, True, 40_000, 45_000),
    *_single(0.85, True, 30_000, 40_000),
    *_single(0.9, False, 60_000, 80_000),
    *_single(0.95, False, 120_000, 150_000),
    *_in_turn(0.3, True, 20_000, is_close=False),
    *_in_turn(0.5, True, 50_000),
    *_in_turn(0.7, True, 20_000),
    *_in_turn(0.85, True, 15_000),
    *_in_turn(0.3, False, 800_000),
    *_in_turn(0.9, False, 50_000),
    *_in_turn(0.95, False, 100_000),
    *_central(0.3, True, 8_000, is_close=False),
    *_central(0.5, True, 12_000, is_close=False),
    *_central(0.7, True, 150_000),
    *_central(0.85, True, 40_000),
    *_central(0.3, False, 2_500_000, pairs=5),
    *_central(0.5, False, 700_000, pairs=2),
    *_central(0.9, False, 100_000),
    *_central(0.95, False, 250_000),
    *_sharing(0.3, True, 20_000),
    *_sharing(0.5, True, 30_000),
    *_sharing(0.7, True, 30_000),
    *_sharing(0.85, True, 50_000),
    *_sharing(0.9, False, 120_000),
    *_sharing(0.95, False, 300_000),
    *(row for load in (0.3, 0.5, 0.7, 0.85) for row in _random(load, 120_000)),
    *(row for each in TWO_CHOICES for row in _two_choices(*each)),
    _tail(8, 1_500, True, is_close=False),
    *(_tail(siblings, groups, False) for siblings, groups in ((4, 46_000), (8, 40_000), (16, 34_000), (32, 30_000))),
]
"""Half-widths reach 3 % but for quick cells that say otherwise, mostly where few customers wait: slow ones follow."""


PAGE = Path(__file__).parents[2] / "docs" / "theory.md"
HEAD = "| cell | customers | form | steps | simulated | half-width | verdict |"


def main() -> None:
    """Print the rows, or put them into the page in place of those that it has."""
    is_whole = "--write" in sys.argv
    found = []
    for row in ROWS:
        if row.is_quick or is_whole:
            found.append(line(row, row.estimate()))
            print(found[-1], flush=True)
    if is_whole:
        before, after = PAGE.read_text(encoding="utf-8").split(HEAD)
        rest = after.partition("\n\n")[2]
        PAGE.write_text("\n".join([before + HEAD, "| --- " * 7 + "|", *found, "", rest]), encoding="utf-8")


def line(row: Row, found: Estimate) -> str:
    """A row of the table in docs/theory.md."""
    verdict = "agrees" if row.agrees(found) else "DISAGREES"
    if row.agrees(found) and not row.is_close:
        verdict = "agrees, from afar"
    steps = f"< {100 * row.bias / row.theory:.2f} %" if row.bias else f"{100 * (row.target / row.theory - 1):+.3f} %"
    interval, share = f"{found.mean:.4f} ± {found.half:.4f}", f"{100 * found.half / row.theory:.1f} %"
    return f"| {row.name} | {row.customers:,} | {row.theory:.4f} | {steps} | {interval} | {share} | {verdict} |"


if __name__ == "__main__":
    main()
