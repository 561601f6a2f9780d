"""From a file to cells: read, lay overrides and arms over the base, validate, resolve."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from sim import registry
from sim.errors import ScenarioError
from sim.scenario import _merge
from sim.scenario._ablates import KEY, Ablates, ablations
from sim.scenario._assumed import Assumption, check_field, check_place, lay, place_in, value_at
from sim.scenario._cell import Cell, make
from sim.scenario._errors import PlacedError
from sim.scenario._find import locate
from sim.scenario._model import (
    MOST_PAIRS,
    CellModel,
    ScenarioModel,
    StopModel,
    SweepModel,
    validate_cell,
    validate_scenario,
)
from sim.scenario._presets import expand
from sim.scenario._rules import check_cell
from sim.scenario._yaml import Document, Origin, read

BLOCKS: Final = tuple(CellModel.model_fields)
"""What a cell is made of, and what an arm may override."""

DEFAULT_METRICS: Final = ("samples_per_s", "group_completion_p95_s", "load_tokens_max_over_mean", "prefill_tokens")


NOWHERE: Final = Origin("--set", 0, ())

_WORDS: Final = {type(None): "empty", str: "a text", int: "a number", float: "a number", list: "a list"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A question: the arms that are compared, how often, and by what."""

    name: str
    path: Path
    arms: dict[str, Cell]
    """Cells by name, the file's order."""
    baseline: str
    pairs: int
    seed: int
    metrics: tuple[str, ...]
    real_run_noise: float
    """Relative standard deviation of one real run of one arm."""
    null_controls: frozenset[str]
    """Arms that may equal another one, to show that equal worlds give equal numbers."""
    documents: dict[str, Document]
    """What each arm says, with the place of every key in the file."""
    warm_up_s: float | None = None
    """Start of each replication that is not measured."""
    stop: StopModel | None = None
    """When there are enough pairs; None: after ``pairs``."""
    sweep: SweepModel | None = None
    """The variants that the file names, for ``load_sweep``."""
    assumptions: tuple[Assumption, ...] = ()
    """What the file takes for given, in its words."""
    ablations: Mapping[str, Ablates] = field(default_factory=dict)
    """Arms that take a mechanism away from another one, by name."""

    def select(
        self, *, pairs: int | None = None, seed: int | None = None, arms: Sequence[str] | None = None
    ) -> "Scenario":
        """The same question with other replications, or fewer arms; the baseline always stays.

        A number of pairs that is asked for is what is run: it takes the place of a rule that says when to stop.
        """
        kept = self.arms
        for name in arms or ():
            if name not in kept:
                raise ScenarioError(f"unknown arm {name!r}; {registry.suggest(name, kept)}")
        if arms:
            kept = {name: cell for name, cell in kept.items() if name in arms or name == self.baseline}
        known = {name: each for name, each in self.ablations.items() if name in kept and each.arm in kept}
        if pairs is not None and pairs < 1:
            raise ScenarioError(f"pairs must be 1 or more, not {pairs}")
        if pairs is not None and pairs > MOST_PAIRS:
            raise ScenarioError(f"pairs must be {MOST_PAIRS:,} or fewer, not {pairs}")
        if seed is not None and not 0 <= seed < 2**63:
            raise ScenarioError(f"seed must be 0 or more, below 2^63, not {seed}")
        if seed is not None and seed != self.seed:
            kept = {name: cell.reseeded(seed) for name, cell in kept.items()}
        seed = self.seed if seed is None else seed
        if pairs is not None:
            return replace(self, arms=kept, ablations=known, pairs=pairs, seed=seed, stop=None)
        return replace(self, arms=kept, ablations=known, seed=seed)

    def varied(self, settings: Mapping[str, Any], at: Origin = NOWHERE) -> "Scenario":
        """The same question with fields set otherwise in every arm; ``arms.NAME.path`` is a field of one arm alone.

        ScenarioError as for an arm's override; ``at`` is where it says that the values are written.
        """
        base = self.path.resolve().parent
        documents, arms = dict(self.documents), {}
        for name, cell in self.arms.items():
            for path, value in settings.items():
                if place := place_in(path, name):
                    documents[name] = lay(documents[name], cell.resolved, place, value, at)
            arms[name] = _cell(documents[name], name, self.seed, base)
        return replace(self, arms=arms, documents=documents)


def load_scenario(path_or_name: str | Path, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario of a file, with ``path=value`` overrides laid over it.

    ScenarioError, one line, for whatever a user did wrong.
    """
    return assemble(*open_document(path_or_name, overrides))


def open_document(path_or_name: str | Path, overrides: Sequence[str] = ()) -> tuple[Document, Path]:
    """A scenario's document, overrides laid over it, and its file."""
    path = locate(path_or_name)
    document = read(path, str(path_or_name) if path == Path(path_or_name) else path.name)
    if not isinstance(document.data, dict):
        what = _WORDS.get(type(document.data), "a plain value")
        raise ScenarioError(
            f"{document.origin(())}: a scenario is made of keys (name: ..., fleet: ...), this is {what}"
        )
    if {"question", "rows"} <= document.data.keys():
        where = document.origin(("question",))
        raise ScenarioError(f"{where}: this is a case of published values: windtunnel validate {path_or_name}")
    for assignment in overrides:
        document = _merge.set_path(document, assignment)
    return document, path


def load_workload(name: str, workload: dict[str, Any], overrides: Sequence[str] = (), engines: int = 1) -> Scenario:
    """A scenario of one plain arm around a workload that is not in a file; files are found from the current folder."""
    plain = {"preset": "vllm", "kv_tokens": 1_000_000_000, "cost": {"kind": "constant", "step_ms": 1.0}}
    data = {
        "name": "workload",
        "fleet": {"engines": engines, "engine": plain},
        "workload": workload,
        "router": {"policy": {"kind": "round_robin"}},
    }
    document = Document(data, {(): Origin(f"{name}:", 0, ())})
    for assignment in overrides:
        document = _merge.set_path(document, assignment)
    return assemble(document, Path.cwd() / "workload.yaml")


def assemble(document: Document, path: Path) -> Scenario:
    """The scenario that a document says."""
    model = validate_scenario(document)
    baseline = _baseline(model, document)
    metrics = _metrics(model, document)
    base = path.resolve().parent
    documents = {name: _arm(document, name) for name in model.arms}
    # The base is whole even where every arm overrides it, so that nothing in the file goes unchecked.
    validate_cell(expand(_merge.pick(document, BLOCKS)), base)
    arms = {name: _cell(each, name, model.replications.seed, base) for name, each in documents.items()}
    controls = frozenset(name for name, over in model.arms.items() if over.get("null_control"))
    _refuse_equal(arms, baseline, controls, document)
    scenario = Scenario(
        name=model.name,
        path=path,
        arms=arms,
        baseline=baseline,
        pairs=model.replications.pairs,
        seed=model.replications.seed,
        metrics=metrics,
        real_run_noise=model.real_run_noise,
        null_controls=controls,
        documents=documents,
        warm_up_s=model.replications.warm_up_s,
        stop=model.replications.stop,
        sweep=model.sweep,
        assumptions=tuple(_assumptions(model, document)),
        ablations=ablations(document, arms),
    )
    _check_assumptions(scenario)
    return scenario


def _assumptions(model: ScenarioModel, document: Document) -> Iterator[Assumption]:
    for index, each in enumerate(model.assumptions):
        at = document.origin(("assumptions", index, "field"))
        check_field(each.field, list(model.arms), BLOCKS, at)
        range_ = None if each.range is None else (each.range[0], each.range[1])
        yield Assumption(
            each.field, range_, tuple(each.values or ()), each.basis, each.who, each.gpu_hours, each.says, at
        )


def _check_assumptions(scenario: Scenario) -> None:
    """Every value must be one that an arm could set, and a range hold the value that the scenario has."""
    seen: set[str] = set()
    for each in scenario.assumptions:
        if each.field in seen:
            raise ScenarioError(f"{each.origin}: {each.field} stands here twice")
        seen.add(each.field)
        for end in each.ends:
            scenario.varied({each.field: end}, each.origin)
        _refuse_same(scenario, each)
        for name, cell in scenario.arms.items():
            place = place_in(each.field, name)
            if place and not each.ends:
                check_place(cell.resolved, place, each.origin)
            present = None if place is None else value_at(cell.resolved, place)
            if not isinstance(present, int | float) or isinstance(present, bool) or not each.range:
                continue
            low, high = each.range
            if not low <= present <= high:
                raise ScenarioError(f"{each.origin}: {each.field} is {present:g}, which {low:g} to {high:g} leaves out")


def _refuse_same(scenario: Scenario, each: Assumption) -> None:
    """Other values must be other ones in some arm."""
    places = {name: place_in(each.field, name) for name in scenario.arms}
    present = [value_at(scenario.arms[name].resolved, place) for name, place in places.items() if place]
    if each.values and present and all(value == own for value in each.values for own in present):
        raise ScenarioError(f"{each.origin}: {each.field} has this value already: name others, or leave values out")


def _baseline(model: ScenarioModel, document: Document) -> str:
    baseline = model.baseline or next(iter(model.arms))
    if baseline not in model.arms:
        raise ScenarioError(
            f"{document.origin(('baseline',))}: no arm is named {baseline!r}; {registry.suggest(baseline, model.arms)}"
        )
    return baseline


def _metrics(model: ScenarioModel, document: Document) -> tuple[str, ...]:
    from sim.metrics import METRICS  # brings polars, which a process that only rebuilds cells can do without

    names = DEFAULT_METRICS if model.metrics is None else tuple(model.metrics)
    for index, name in enumerate(names):
        at = document.origin(("metrics", index)) if model.metrics else ""
        if name not in METRICS:
            raise ScenarioError(f"{at}: unknown metric {name!r}; {registry.suggest(name, METRICS)}")
        if name in names[:index]:
            raise ScenarioError(f"{at}: the metric {name!r} is named twice")
    return names


def _arm(document: Document, name: str) -> Document:
    """The base with one arm's overrides, and what a preset lays under both."""
    blocks = _merge.pick(document, BLOCKS)
    if "arms" not in document.data:
        return expand(blocks)
    over = _merge.cut(document, ("arms", name))
    data = dict(over.data or {})
    control = data.pop("null_control", False)
    if not isinstance(control, bool):
        raise ScenarioError(f"{over.origin(('null_control',))}: must be true or false, not {control!r}")
    data.pop(KEY, None)
    for key in data:
        if key not in BLOCKS:
            known = registry.suggest(key, (*BLOCKS, "null_control", KEY))
            raise ScenarioError(f"{over.origin((key,))}: not a key of an arm; {known}")
    return expand(_merge.merge(blocks, Document(data, over.origins)))


def _cell(document: Document, arm: str, seed: int, base: Path) -> Cell:
    model = validate_cell(document, base)
    try:
        cell = make(model, arm, seed, base)
        check_cell(cell)
    except PlacedError as error:
        raise error.at(document) from None
    return cell


def _refuse_equal(arms: dict[str, Cell], baseline: str, controls: frozenset[str], document: Document) -> None:
    """An arm that equals another one compares nothing, unless it says that this is its purpose; then it must."""
    seen: dict[str, str] = {}
    order: list[Any] = sorted(arms, key=lambda name: name != baseline)
    for name in order:
        other = seen.setdefault(arms[name].hash, name)
        if other != name and name not in controls:
            raise ScenarioError(
                f"{document.origin(('arms', name))}: resolves to the same cell as arm {other!r}; "
                "drop it, change it, or mark it null_control: true"
            )
    hashes = [cell.hash for cell in arms.values()]
    for name in sorted(controls):
        if hashes.count(arms[name].hash) == 1:
            raise ScenarioError(
                f"{document.origin(('arms', name, 'null_control'))}: this arm equals no other one, "
                "so it is no control; take the mark away"
            )
