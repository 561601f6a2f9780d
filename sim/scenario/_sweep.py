"""Variants of a scenario: which fields a sweep varies, and the scenario of each combination.

A field is named by its path, as ``--set`` names it. Random streams are named by purpose, so variants share whatever the
varied field leaves alone, as arms do.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from sim import registry
from sim.errors import ScenarioError
from sim.scenario import _merge
from sim.scenario._load import BLOCKS, Scenario, assemble, open_document
from sim.scenario._model import RangeModel, SweepModel, validate_scenario
from sim.scenario._yaml import Document, Place, parse_value

MOST_VARIANTS: Final = 10_000
_VARIABLE: Final = (*BLOCKS, "arms")


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of the varied fields."""

    name: str
    settings: Mapping[str, Any]
    """Value by path."""
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Sweep:
    """A scenario and its variants, in the order of the file."""

    scenario: Scenario
    """The scenario itself, no field varied."""
    paths: tuple[str, ...]
    """Every field that some variant sets."""
    variants: tuple[Variant, ...]

    def select(self, *, pairs: int | None = None, seed: int | None = None) -> "Sweep":
        """The sweep with other pairs or another seed, in every variant."""

        def changed(variant: Variant) -> Variant:
            return Variant(variant.name, variant.settings, variant.scenario.select(pairs=pairs, seed=seed))

        base = self.scenario.select(pairs=pairs, seed=seed)
        return Sweep(base, self.paths, tuple(changed(variant) for variant in self.variants))


def load_sweep(path_or_name: str | Path, overrides: Sequence[str] = (), vary: Sequence[str] = ()) -> Sweep:
    """The sweep of a file; ``vary`` names fields as ``path=a,b,c``, in place of those of its ``sweep`` block.

    ScenarioError, one line, for whatever a user did wrong.
    """
    document, path = open_document(path_or_name, overrides)
    base = assemble(document, path)
    block = _of_words(vary) if vary else validate_scenario(document).sweep
    if block is None:
        raise ScenarioError(f"{path.name} has no sweep block: name what varies, as in --vary fleet.engines=2,4,8")
    found = list(_settings(block, document))
    if not found:
        raise ScenarioError(f"{_at(document, 'sweep')}: no variant is left")
    if len(found) > MOST_VARIANTS:
        raise ScenarioError(f"{_at(document, 'sweep')}: {len(found):,} variants are more than {MOST_VARIANTS:,}")
    variants = tuple(Variant(name, settings, _variant(document, path, name, settings)) for name, settings in found)
    _refuse_inert(variants, document)
    return Sweep(base, tuple(dict.fromkeys(path for _, settings in found for path in settings)), variants)


def _at(document: Document, *place: str | int) -> str:
    return str(document.origin(place)) if place[0] in document.data else "--vary"


def _of_words(words: Sequence[str]) -> SweepModel:
    """The grid that the command line names."""
    vary: dict[str, Any] = {}
    for word in words:
        dotted, equals, text = word.partition("=")
        name = dotted.strip()
        if not equals or not name or not text.strip():
            raise ScenarioError(f"--vary {word}: must be path=a,b,c, as in fleet.engines=2,4,8")
        if name in vary:
            raise ScenarioError(f"--vary {name}: named twice")
        value = parse_value(text if text.strip().startswith("{") else f"[{text}]")
        vary[name] = value
    try:
        return SweepModel.model_validate({"vary": vary})
    except ValidationError as error:
        first = error.errors()[0]
        raise ScenarioError(f"--vary {'.'.join(str(part) for part in first['loc'][1:2])}: {first['msg']}") from None


def _settings(block: SweepModel, document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    grid = {path: _values(path, each, document) for path, each in block.vary.items()}
    rows = _rows(block, document)
    for path in {*grid, *block.zip}:
        _check_path(path, document)
    if twice := grid.keys() & block.zip.keys():
        raise ScenarioError(f"{_at(document, 'sweep', 'zip', min(twice))}: stands in vary too")
    used = [False] * len(block.exclude)
    if grid or block.zip:
        for values in itertools.product(*grid.values()):
            for row in rows:
                settings = dict(zip(grid, values, strict=True)) | row
                outs = [i for i, out in enumerate(block.exclude) if out.items() <= settings.items()]
                for i in outs:
                    used[i] = True
                if not outs:
                    yield _name(settings), settings
    if False in used:
        at = _at(document, "sweep", "exclude", used.index(False))
        raise ScenarioError(f"{at}: no combination agrees with this, so it leaves nothing out")
    for name, settings in block.cells.items():
        for path in settings:
            _check_path(path, document)
        yield name, dict(settings)


def _values(path: str, given: RangeModel | list[Any], document: Document) -> list[Any]:
    at = _at(document, "sweep", "vary", path)
    if isinstance(given, RangeModel):
        given = _range(given, at)
    for index, value in enumerate(given):
        if value in given[:index]:
            raise ScenarioError(f"{at}: the value {value!r} is named twice")
    return given


def _range(given: RangeModel, at: str) -> list[Any]:
    """Evenly spaced values; whole numbers where both ends are."""
    low, high = given.first, given.last
    if given.scale == "log" and min(low, high) <= 0:
        raise ScenarioError(f"{at}: a range of scale log needs ends above 0")
    space = np.geomspace if given.scale == "log" else np.linspace
    values = space(low, high, given.steps)
    if low.is_integer() and high.is_integer():
        return list(dict.fromkeys(int(value) for value in np.rint(values)))
    return [float(f"{value:.6g}") for value in values]


def _rows(block: SweepModel, document: Document) -> list[dict[str, Any]]:
    lengths = {path: len(values) for path, values in block.zip.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{path} has {length}" for path, length in lengths.items())
        raise ScenarioError(
            f"{_at(document, 'sweep', 'zip')}: lists that are read side by side must be as long: {shown}"
        )
    columns = zip(*block.zip.values(), strict=True)
    return [dict(zip(block.zip, row, strict=True)) for row in columns] or [{}]


def _check_path(path: str, document: Document) -> None:
    first = path.partition(".")[0]
    if first not in _VARIABLE or "." not in path:
        raise ScenarioError(
            f"{_at(document, 'sweep')}: {path!r} cannot be varied; paths begin with a block, as fleet.engines does: "
            f"{registry.suggest(first, _VARIABLE)}"
        )


def _name(settings: Mapping[str, Any]) -> str:
    """The varied fields by the shortest tails of their paths that tell them apart."""
    parts = {path: path.split(".") for path in settings}
    for length in itertools.count(1):
        tails = {path: ".".join(each[-length:]) for path, each in parts.items()}
        if len(set(tails.values())) == len(tails):
            return ", ".join(f"{tails[path]}={_shown(value)}" for path, value in settings.items())
    raise AssertionError


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("kind", "{" + ", ".join(f"{key}: {each}" for key, each in value.items()) + "}"))
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _variant(document: Document, path: Path, name: str, settings: Mapping[str, Any]) -> Scenario:
    for dotted, value in settings.items():
        place = _merge.place_of(dotted)
        _refuse_overridden(document, place, dotted)
        source, line = "--vary", 0
        for said in (("vary", dotted), ("zip", dotted), ("cells", name, dotted)):
            if ("sweep", *said) in document.origins:
                origin = document.origins["sweep", *said]
                source, line = origin.file, origin.line
        document = _merge.lay(document, place, value, source, line)
    return assemble(document, path)


def _refuse_overridden(document: Document, place: Place, dotted: str) -> None:
    """An arm that sets a varied field itself would not be varied."""
    for name, over in (document.data.get("arms") or {}).items():
        part: Any = over
        for key in place:
            if not isinstance(part, dict) or key not in part:
                break
            part = part[key]
        else:
            at = document.origin(("arms", name, *place))
            raise ScenarioError(
                f"{at}: this arm sets {dotted} itself, so varying that does not reach it; "
                f"vary arms.{name}.{dotted}, or take it out of the arm"
            )


def _refuse_inert(variants: Sequence[Variant], document: Document) -> None:
    """Two variants that are the same world compare nothing."""
    seen: dict[tuple[str, ...], str] = {}
    for variant in variants:
        world = tuple(cell.hash for cell in variant.scenario.arms.values())
        other = seen.setdefault(world, variant.name)
        if other != variant.name:
            raise ScenarioError(
                f"{_at(document, 'sweep')}: {variant.name!r} is the same world as {other!r}: what differs has no effect"
            )
