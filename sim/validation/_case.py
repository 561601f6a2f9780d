"""A case: one world, and rows that each hold a measured or known value beside what the simulation gives.

    question: what the case asks
    source: where the values come from
    of: [R1, T4]                        ids of ``_sources.py``: laws for truths and controls, others for the rest
    scenario: file, or the scenario itself
    over: laid over the scenario, as an arm is over its base (may add arms)
    pairs: {quick: 20, full: 200}       without quick the case runs under --full alone
    unknown: what was not published and decides the misses
    repeats: {spread: 0.018, of: wall}   relative standard deviation of the real system's own repeated runs
    rows:
      - name: ratio where the keys fall 2:2
        published: 1.357                 or predicted: (by others or by arithmetic, never measured), truth: (analytic),
                                         null: (a control)
        band: [1.25, 1.45]               absent: equal to nine digits
        neutral: 1                       the value of no effect, which tells an order from a miss
        measure: gmean(where(in_class(group, "2:2"), metric(group, "samples_per_s") / metric(sample, "samples_per_s")))
        verdict: reproduced              of the last run that was accepted
        of: T6                           where it is of another id than that
        counted: false                   not in the ratio errors: the same value assumed otherwise, or tuned to it

    orders:                              arms against each other, in one quantity
      - name: tokens/s
        calibrated: random               the arm on which the speed of engines was set, if any; ratios are to it,
                                         else to the first one below
        published: {precise: 8730, estimated: 6944, random: 4429}
        measure: mean(metric(arm, "output_tokens_per_s"))      of each arm

A file without ``rows`` in that folder is a plain scenario. What a measure may say: ``_measures.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from sim import registry
from sim.errors import ScenarioError
from sim.scenario import Scenario
from sim.scenario._find import SHIPPED
from sim.scenario._load import assemble, open_document
from sim.scenario._merge import cut, merge
from sim.scenario._yaml import Document, Place, read
from sim.validation._expression import Expression, parse
from sim.validation._sources import SOURCES

FOLDER: Final = SHIPPED / "validation"
Kind = Literal["published", "predicted", "truth", "null"]
Verdict = Literal["reproduced", "order only", "not separable", "missed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
_KEYS: Final = ("question", "source", "of", "scenario", "over", "pairs", "unknown", "repeats", "rows", "orders")
_ORDER_KEYS: Final = ("name", "calibrated", "published", "measure")
_FLAGS: Final = ("only_full", "counted")
_ROW_KEYS: Final = ("name", "of", *KINDS, "band", "neutral", "measure", "assumed", "unknown", "verdict", *_FLAGS)


@dataclass(frozen=True, slots=True)
class Row:
    """One value, measured elsewhere or known, and how to measure it here."""

    name: str
    kind: Kind
    """``published``; ``predicted``: not measured by anybody; ``truth``: analytic; ``null``: a control."""
    value: float
    band: tuple[float, float]
    """What counts as reproduced."""
    neutral: float | None
    """The value of no effect; None: order has no meaning here."""
    measure: Expression
    assumed: str
    unknown: str
    """What decides a miss."""
    verdict: Verdict
    """As stored."""
    only_full: bool
    of: str = ""
    """Id of the published result or law, as in ``_sources.py``."""
    counted: bool = True
    """False: the published value of another row under other assumptions, or one that the scenario was tuned to."""

    @property
    def is_ratio(self) -> bool:
        """A measured ratio of arms, whose error says how far off ours are."""
        return self.kind == "published" and self.neutral == 1 and self.counted and len(self.measure.names) > 1

    @property
    def must_hold(self) -> bool:
        """A truth or a control."""
        return self.kind in ("truth", "null")


@dataclass(frozen=True, slots=True)
class Repeats:
    """How far apart the real system's own runs of one arm are."""

    spread: float
    """Relative standard deviation."""
    of: str
    """Of what, and who measured it."""


@dataclass(frozen=True, slots=True)
class Order:
    """One quantity of several arms, as it was measured elsewhere."""

    name: str
    published: dict[str, float]
    """By arm; of these the order is compared, and the ratios to ``reference``."""
    reference: str
    is_calibrated: bool
    """Whether the speed of engines was set so that the reference comes out."""
    measure: Expression
    """Of an arm called ``arm``."""


@dataclass(frozen=True, slots=True)
class Case:
    """A world and its rows."""

    name: str
    question: str
    source: str
    unknown: str
    scenario: Scenario
    """With the arms that the rows use, and nothing else."""
    quick_pairs: int | None
    full_pairs: int
    rows: tuple[Row, ...]
    repeats: Repeats | None = None
    orders: tuple[Order, ...] = ()

    def rows_of(self, *, full: bool) -> tuple[Row, ...]:
        """Rows of a short or a full run."""
        if not full and self.quick_pairs is None:
            return ()
        return tuple(row for row in self.rows if full or not row.only_full)

    def world(self, rows: tuple[Row, ...], *, full: bool) -> Scenario:
        """The scenario with the arms that these rows name."""
        named = {arm for row in rows for arm in row.measure.names}
        if full:
            named.update(arm for order in self.orders for arm in order.published)
        pairs = self.full_pairs if full else self.quick_pairs
        kept = replace(self.scenario, baseline=next(arm for arm in self.scenario.arms if arm in named))
        return kept.select(pairs=pairs, arms=sorted(named))


def case_names() -> dict[str, Path]:
    """Shipped cases by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml")) if "\nrows:" in path.read_text(encoding="utf-8")}


def load_case(path_or_name: str | Path) -> Case:
    """The case of a file or of a shipped name; ScenarioError, one line, for what is wrong with it."""
    known = case_names()
    path = known.get(str(path_or_name), Path(path_or_name))
    if not path.is_file():
        raise ScenarioError(f"no case {str(path_or_name)!r}; {registry.suggest(str(path_or_name), known)}")
    document = read(path, path.name)
    data = _mapping(document, (), _KEYS, needed=("question", "source", "scenario", "pairs", "rows"))
    scenario = _scenario(document, path)
    quick, full = _pairs(document)
    if not isinstance(data["rows"], list) or not data["rows"]:
        raise ScenarioError(f"{document.origin(('rows',))}: must be a list of rows")
    ids = _ids(document)
    rows = tuple(_row(document, index, scenario, ids) for index in range(len(data["rows"])))
    listed = data.get("orders", [])
    if not isinstance(listed, list):
        raise ScenarioError(f"{document.origin(('orders',))}: must be a list of orders")
    orders = tuple(_order(document, index, scenario) for index in range(len(listed)))
    question, source, unknown = (_text(document, (key,)) for key in ("question", "source", "unknown"))
    return Case(path.stem, question, source, unknown, scenario, quick, full, rows, _repeats(document), orders)


def _scenario(document: Document, path: Path) -> Scenario:
    data = document.data["scenario"]
    if isinstance(data, str):
        file = path.parent / data
        inner, file = open_document(file if file.is_file() else data)
    else:
        inner, file = cut(document, ("scenario",)), path
    if "over" in document.data:
        inner = merge(inner, cut(document, ("over",)))
    return assemble(inner, file)


def _pairs(document: Document) -> tuple[int | None, int]:
    data = _mapping(document, ("pairs",), ("quick", "full"))
    for key, value in data.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ScenarioError(f"{document.origin(('pairs', key))}: must be a number of pairs, not {value!r}")
    quick = data.get("quick")
    full = data.get("full", quick)
    if full is None:
        raise ScenarioError(f"{document.origin(('pairs',))}: quick or full is missing")
    return quick, full


def _ids(document: Document) -> list[str]:
    listed = document.data.get("of", [])
    if not isinstance(listed, list):
        raise ScenarioError(f"{document.origin(('of',))}: must be a list of ids")
    return [_id(document, ("of", index)) for index in range(len(listed))]


def _id(document: Document, place: Place) -> str:
    name = _at(document, place)
    if name not in SOURCES:
        raise ScenarioError(f"{document.origin(place)}: unknown id {name!r}; {registry.suggest(str(name), SOURCES)}")
    return str(name)


def _usual(ids: Sequence[str], kind: Kind) -> str:
    """The id of a row that names none: a law for a truth or a control, another one for the rest, where it can be."""
    fits = [each for each in ids if each.startswith("T") == (kind in ("truth", "null"))]
    return next(iter([*fits, *ids]), "")


def _repeats(document: Document) -> Repeats | None:
    if "repeats" not in document.data:
        return None
    place: Place = ("repeats",)
    _mapping(document, place, ("spread", "of"), needed=("spread", "of"))
    return Repeats(_value(document, (*place, "spread")), _text(document, (*place, "of")))


def _row(document: Document, index: int, scenario: Scenario, ids: Sequence[str]) -> Row:
    place: Place = ("rows", index)
    data = _mapping(document, place, _ROW_KEYS, needed=("name", "measure", "verdict"))
    kinds = [kind for kind in KINDS if kind in data]
    if len(kinds) != 1:
        raise ScenarioError(f"{document.origin(place)}: needs one of {', '.join(KINDS)}, not {len(kinds)}")
    (kind,) = kinds
    measure = parse(str(data["measure"]), scenario.arms, str(document.origin((*place, "measure"))))
    value = _value(document, (*place, kind))
    band = data.get("band")
    if band is None:
        near = 1e-9 * max(abs(value), 1.0)
        band = [value - near, value + near]
    if not isinstance(band, list) or len(band) != 2 or not all(map(_is_number, band)) or band[0] > band[1]:
        raise ScenarioError(f"{document.origin((*place, 'band'))}: must be two numbers, the lower one first")
    if data["verdict"] not in VERDICTS:
        known = registry.suggest(str(data["verdict"]), VERDICTS)
        raise ScenarioError(f"{document.origin((*place, 'verdict'))}: unknown verdict {data['verdict']!r}; {known}")
    neutral = _value(document, (*place, "neutral")) if "neutral" in data else None
    for flag in _FLAGS:
        if not isinstance(data.get(flag, False), bool):
            raise ScenarioError(f"{document.origin((*place, flag))}: must be true or false")
    return Row(
        name=_text(document, (*place, "name")),
        kind=kind,
        value=value,
        band=(float(band[0]), float(band[1])),
        neutral=neutral,
        measure=measure,
        assumed=_text(document, (*place, "assumed")),
        unknown=_text(document, (*place, "unknown")),
        verdict=data["verdict"],
        only_full=data.get("only_full", False),
        of=_id(document, (*place, "of")) if "of" in data else _usual(ids, kind),
        counted=data.get("counted", True),
    )


def _order(document: Document, index: int, scenario: Scenario) -> Order:
    place: Place = ("orders", index)
    data = _mapping(document, place, _ORDER_KEYS, needed=("name", "published", "measure"))
    published = _mapping(document, (*place, "published"), tuple(scenario.arms))
    if len(published) < 2:
        raise ScenarioError(f"{document.origin((*place, 'published'))}: an order is of two arms or more")
    reference = data.get("calibrated", next(iter(published)))
    if reference not in published:
        known = registry.suggest(str(reference), published)
        raise ScenarioError(f"{document.origin((*place, 'calibrated'))}: not among those published; {known}")
    return Order(
        name=_text(document, (*place, "name")),
        published={arm: _value(document, (*place, "published", arm)) for arm in published},
        reference=reference,
        is_calibrated="calibrated" in data,
        measure=parse(str(data["measure"]), ["arm"], str(document.origin((*place, "measure")))),
    )


def _mapping(document: Document, place: Place, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    data = _at(document, place)
    if not isinstance(data, dict):
        raise ScenarioError(f"{document.origin(place)}: must be a mapping of {', '.join(known)}")
    for key in data:
        if key not in known:
            raise ScenarioError(f"{document.origin((*place, key))}: unknown key; {registry.suggest(str(key), known)}")
    for key in needed:
        if key not in data:
            raise ScenarioError(f"{document.origin((*place, key))}: required key is missing")
    return data


def _at(document: Document, place: Place) -> Any:
    data = document.data
    for part in place:
        data = data[part]
    return data


def _text(document: Document, place: Place) -> str:
    data = _at(document, place[:-1]).get(place[-1], "")
    if not isinstance(data, str):
        raise ScenarioError(f"{document.origin(place)}: must be a text, not {data!r}")
    return " ".join(data.split())


def _value(document: Document, place: Place) -> float:
    data = _at(document, place)
    if not _is_number(data):
        raise ScenarioError(f"{document.origin(place)}: must be a number, not {data!r}")
    return float(data)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
