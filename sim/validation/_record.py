"""The record of a validation: what every row gave, as data that ships with the program and that a review shows.

``windtunnel validate --full --record sim/validation/record.json`` writes it, and the page is written from it; with
names of cases it puts these in the place of what it holds of them. A record of another results version is stale: the
numbers of the program have changed since.

    ratio error       ours over published of each measured ratio of two arms, the published winner over the loser:
                      below 1 the simulation makes an effect too small
    order agreement   Kendall's tau over the published pairs of arms: as ours orders them, less otherwise, over all

Rows whose value is another row's under other assumptions, and rows that a scenario was tuned to, count in neither.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.errors import ScenarioError
from sim.scenario import RESULTS_VERSION
from sim.validation._case import Case, Kind, Repeats, Verdict
from sim.validation._measures import Estimate
from sim.validation._run import Ordered, Outcome, Verdicts
from sim.validation._traits import Traits, traits_of

FILE: Final = "record.json"
DIGITS: Final = 6
"""Significant digits that are kept."""


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """One row as it came out."""

    name: str
    kind: Kind
    value: float
    """Published, predicted or known."""
    band: tuple[float, float]
    ours: float
    lo: float | None
    hi: float | None
    verdict: Verdict
    is_ratio: bool
    """A measured ratio of arms that counts in the errors."""

    @property
    def error(self) -> float:
        """Ours over the published value, the published winner over the loser."""
        return self.ours / self.value if self.value >= 1 else self.value / self.ours

    @property
    def is_ordered(self) -> bool:
        """The same arm wins in both."""
        return (self.ours > 1) == (self.value > 1)

    @property
    def is_separable(self) -> bool:
        """Our interval leaves out 1; a value without an interval does."""
        return self.lo is None or self.hi is None or not self.lo <= 1 <= self.hi


@dataclass(frozen=True, slots=True)
class RecordedOrder:
    """One quantity of the arms of an order."""

    name: str
    found: dict[str, float]


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """One case as it came out."""

    name: str
    question: str
    pairs: int
    traits: Traits
    repeats: Repeats | None
    """How far apart the real system's own runs are."""
    rows: tuple[RecordedRow, ...]
    orders: tuple[RecordedOrder, ...] = ()

    @property
    def ratios(self) -> tuple[RecordedRow, ...]:
        """Rows that count in the errors."""
        return tuple(row for row in self.rows if row.is_ratio)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well some measured ratios of arms came out."""

    ratios: int
    median: float
    """Of the factor between ours and published, less 1: 0.1 is a tenth off, either way."""
    p90: float
    bias: float
    """Geometric mean of ours over published, less 1: negative where ours makes effects too small."""
    tau: float
    """Kendall's, over the published pairs of arms."""
    ordered: int
    separable: int
    """Pairs of arms that our intervals tell apart."""


@dataclass(frozen=True, slots=True)
class Record:
    """All cases of one version of the program."""

    results_version: int
    cases: tuple[RecordedCase, ...]

    @property
    def is_stale(self) -> bool:
        """Numbers of the program have changed since."""
        return self.results_version != RESULTS_VERSION

    @property
    def ratios(self) -> tuple[RecordedRow, ...]:
        """Every measured ratio of arms that counts."""
        return tuple(row for case in self.cases for row in case.ratios)

    @property
    def held_out(self) -> tuple[int, int]:
        """Ratios within the factor that holds nine in ten of the other cases' ratios, each case tried; and of how many.

        A width is read off the same ratios that it is said to hold; this one is not.
        """
        held = 0
        for case in self.cases:
            others = agreement([row for other in self.cases if other is not case for row in other.ratios])
            if others is not None:
                most = (1 + others.p90) * (1 + 1e-9)
                held += sum(1 / most <= row.error <= most for row in case.ratios)
        return held, len(self.ratios)

    @property
    def truths(self) -> list[tuple[RecordedCase, RecordedRow]]:
        """Analytic truths and null controls."""
        return [(case, row) for case in self.cases for row in case.rows if row.kind in ("truth", "null")]

    def resembling(self, traits: Traits) -> list[tuple[RecordedCase, list[str]]]:
        """Cases that hold a measurement, by how many traits they share with a scenario, most first."""
        found = [(case, case.traits.shared(traits)) for case in self.cases if _is_measured(case)]
        return sorted(((case, shared) for case, shared in found if shared), key=lambda each: -len(each[1]))


@dataclass(frozen=True, slots=True)
class RatioError:
    """A measured ratio of two arms and ours."""

    case: str
    row: str
    published: float
    ours: float


def ratio_errors() -> list[RatioError]:
    """Every measured ratio of the shipped record that counts."""
    cases = read_record().cases
    return [RatioError(case.name, row.name, row.value, row.ours) for case in cases for row in case.ratios]


def agreement(rows: Sequence[RecordedRow]) -> Agreement | None:
    """Of some ratios; None of none."""
    if not rows:
        return None
    logs = np.log([row.error for row in rows])
    off = np.exp(np.abs(logs)) - 1
    ordered = sum(row.is_ordered for row in rows)
    return Agreement(
        ratios=len(rows),
        median=float(np.median(off)),
        p90=float(np.quantile(off, 0.9)),
        bias=float(np.exp(logs.mean()) - 1),
        tau=(2 * ordered - len(rows)) / len(rows),
        ordered=ordered,
        separable=sum(row.is_separable for row in rows),
    )


def record_of(every: Iterable[Verdicts]) -> Record:
    """What some cases gave."""
    return Record(RESULTS_VERSION, tuple(map(_case, every)))


def merged(old: Record, new: Record) -> Record:
    """The cases of the new one in the place of those of the same name, in order of names; of one version only."""
    if old.results_version != new.results_version:
        raise ScenarioError(
            f"the record is of results version {old.results_version}, this program of {new.results_version}: "
            "run all cases again"
        )
    cases = {case.name: case for case in (*old.cases, *new.cases)}
    return Record(new.results_version, tuple(cases[name] for name in sorted(cases)))


def recall(case: Case, recorded: RecordedCase) -> Verdicts:
    """What a case gave when it was recorded; ScenarioError if its rows are no longer those."""
    known = {row.name: row for row in recorded.rows}
    rows = [row for row in case.rows if row.name in known]
    if len(rows) < len(known) or any(
        (row.kind, row.value, row.band) != (known[row.name].kind, known[row.name].value, known[row.name].band)
        for row in rows
    ):
        raise ScenarioError(f"case {case.name}: its rows are not those of the record: run it again")
    outcomes = [
        Outcome(row, Estimate(each.ours, each.lo, each.hi), each.verdict) for row in rows for each in [known[row.name]]
    ]
    found = {order.name: order.found for order in recorded.orders}
    orders = [Ordered(order, found[order.name]) for order in case.orders if order.name in found]
    return Verdicts(case, recorded.pairs, tuple(outcomes), tuple(orders))


def dump(record: Record) -> str:
    """As JSON, a row a line, the same bytes for the same numbers; a value that is no number is null."""
    cases = []
    for case in asdict(record)["cases"]:
        rows = [{**row, "ours": None if math.isnan(row["ours"]) else row["ours"]} for row in case.pop("rows")]
        head = ",\n  ".join(f"{json.dumps(key)}: {_json(value)}" for key, value in case.items())
        cases.append(f'{{\n  {head},\n  "rows": [\n   {("," + chr(10) + "   ").join(map(_json, rows))}\n  ]\n }}')
    return f'{{"results_version": {record.results_version}, "cases": [\n {", ".join(cases)}\n]}}\n'


@cache
def read_record(path: Path | None = None) -> Record:
    """The record that ships with the program, or one of a file; ScenarioError for a file that is none."""
    source = resources.files("sim.validation") / FILE if path is None else path
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
        return Record(data["results_version"], tuple(map(_read_case, data["cases"])))
    except OSError as error:
        raise ScenarioError(f"cannot read {source.name}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise ScenarioError(f"{source.name} is no record of a validation (windtunnel validate --record)") from None


def _case(found: Verdicts) -> RecordedCase:
    case = found.case
    named = {arm for each in found.outcomes for arm in each.row.measure.names}
    rows = tuple(
        RecordedRow(
            name=each.row.name,
            kind=each.row.kind,
            value=each.row.value,
            band=each.row.band,
            ours=_short(each.found.value),
            lo=None if each.found.lo is None else _short(each.found.lo),
            hi=None if each.found.hi is None else _short(each.found.hi),
            verdict=each.verdict,
            is_ratio=each.row.is_ratio,
        )
        for each in found.outcomes
    )
    traits = traits_of(cell for name, cell in case.scenario.arms.items() if name in named)
    orders = tuple(
        RecordedOrder(each.order.name, {arm: _short(value) for arm, value in each.found.items()})
        for each in found.orders
    )
    return RecordedCase(case.name, case.question, found.pairs, traits, case.repeats, rows, orders)


def _read_case(data: dict[str, Any]) -> RecordedCase:
    traits = Traits(**{name: tuple(values) for name, values in data["traits"].items()})
    repeats = None if data["repeats"] is None else Repeats(**data["repeats"])
    orders = tuple(RecordedOrder(**each) for each in data["orders"])
    rows = tuple(map(_read_row, data["rows"]))
    return RecordedCase(**{**data, "traits": traits, "repeats": repeats, "rows": rows, "orders": orders})


def _read_row(data: dict[str, Any]) -> RecordedRow:
    ours = math.nan if data["ours"] is None else data["ours"]
    return RecordedRow(**{**data, "band": tuple(data["band"]), "ours": ours})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is_measured(case: RecordedCase) -> bool:
    return any(row.kind == "published" for row in case.rows)


def _short(value: float) -> float:
    """Enough digits to read, few enough to be the same on every machine."""
    return value if not math.isfinite(value) or value == 0 else float(f"{value:.{DIGITS}g}")
