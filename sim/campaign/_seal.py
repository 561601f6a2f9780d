"""One folder that fixes a campaign before its first real run, and the check that nothing in it was changed since.

    seal.json         digest of every other file, and one digest over them all
    rule.json, .txt   what decides
    prediction.json   what is predicted of each cell
    runs.json         every run in its order, with what the header of its results has to say
    cells/<cell>/     the export: traces, how arms are started, the manifest

The digest covers names and bytes of the files and the version: the same scenario and seed give it again. A date stands
beside it. ``verify`` names the first file that is not what was sealed. What the folder cannot prove is that the whole
of it was not made anew: publish the digest, and ``score`` compares it with what was published.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sim
from sim.campaign._forecast import DRAWS, ensemble, forecast
from sim.campaign._measured import NOT_MEASURED
from sim.errors import ScenarioError
from sim.export import Plan, check_export, export
from sim.report.rule import Rule, from_document
from sim.review import Evidence, rule_of
from sim.scenario import RESULTS_VERSION

SCHEMA: Final = "windtunnel.seal/1"
SEAL: Final = "seal.json"
DIGITS: Final = 10
"""Significant digits of a predicted number: what lies beyond may differ between processors."""
SHORTEST: Final = 16
"""Digits of a digest that tell it from all others; pages show so many."""
MOST_PAIRS: Final = 200
"""Pairs that are sealed without being asked for by number."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a campaign is planned as."""

    pairs: int | None = None
    """Real pairs of a cell; None: as many as the review plans."""
    extension: bool = True
    """Whether one extension by as many pairs is allowed; its traces are sealed with the others."""
    draws: int = DRAWS
    """Draws of the inputs."""
    formats: tuple[str, ...] = ("windtunnel",)
    block_tokens: int = 512
    date: str | None = None
    """Written beside the digest."""


@dataclass(frozen=True, slots=True)
class Seal:
    """A sealed folder that was found to be as it was sealed."""

    folder: Path
    digest: str
    files: Mapping[str, str]
    rule: Rule
    prediction: dict[str, Any]
    runs: list[dict[str, Any]]
    date: str | None


def make(
    cells: Mapping[str, Evidence],
    folder: Path,
    choice: Choice,
    told: Callable[[int, int], None] | None = None,
) -> Seal:
    """Seal the two arms of each cell into a folder; all of it or nothing.

    ScenarioError where the folder holds another seal, or where the arms cannot be compared by real runs.
    """
    rule = _rule(cells, choice)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        predicted: dict[str, Any] = {}
        runs: list[dict[str, Any]] = []
        for number, (cell, ev) in enumerate(cells.items()):
            place = f"cells/{slug(cell)}"
            manifest = _export(ev, draft / place, rule, choice)
            traces = [draft / place / name for name in _traces(manifest)]

            def tell(done: int, total: int, before: int = number) -> None:
                if told is not None:
                    told(before * total + done, len(cells) * total)

            found = ensemble(ev, traces, choice.draws, tell)
            predicted[cell] = {"folder": place, **forecast(ev, rule, found)}
            runs += _runs(cell, place, manifest, rule)
        prediction = {
            "schema": "windtunnel.prediction/1",
            "windtunnel": sim.__version__,
            "results_version": RESULTS_VERSION,
            "baseline": _same(cells, "baseline"),
            "candidate": _same(cells, "candidate"),
            "not_measured": NOT_MEASURED,
            "cells": predicted,
        }
        _write(draft / "prediction.json", _rounded(prediction))
        _write(draft / "rule.json", rule.document())
        (draft / "rule.txt").write_text(rule.text() + "\n", encoding="utf-8")
        _write(draft / "runs.json", runs)
        _write(draft / SEAL, _document(draft, choice.date))
        _place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return verify(folder)


def verify(folder: Path, expected: str | None = None) -> Seal:
    """The seal of a folder; ScenarioError, one line that names the file, where anything is not as it was sealed.

    ``expected`` is its published digest, or 16 digits or more that it begins with.
    """
    path = folder / SEAL
    try:
        text = path.read_bytes()
        document = json.loads(text)
        files, digest, date = document["files"], document["digest"], document["date"]
        is_whole = text == _text(document) and isinstance(files, dict)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}: no seal is here; name its folder with --seal") from None
    except (ValueError, KeyError, TypeError):
        raise ScenarioError(f"{path}: broken seal: it cannot be read") from None
    if not is_whole or _digest(document) != digest:
        raise ScenarioError(f"{path}: broken seal: its digest is not that of the files it lists")
    if (schema := document.get("schema")) != SCHEMA:
        raise ScenarioError(f"{path}: sealed as {schema}, this is {SCHEMA}: score it with the version that sealed it")
    for name, wanted in files.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise ScenarioError(f"{folder / name}: broken seal: {error.strerror}") from None
        if found != wanted:
            raise ScenarioError(f"{folder / name}: broken seal: it was changed after it was sealed")
    if expected is not None:
        _refuse_another(path, digest, expected)
    if document["results_version"] != RESULTS_VERSION:
        raise ScenarioError(
            f"{path}: sealed with results version {document['results_version']}, this is {RESULTS_VERSION}: "
            "score it with the version that sealed it"
        )
    return Seal(
        folder,
        digest,
        files,
        from_document(json.loads((folder / "rule.json").read_bytes())),
        json.loads((folder / "prediction.json").read_bytes()),
        json.loads((folder / "runs.json").read_bytes()),
        date,
    )


def _refuse_another(path: Path, digest: str, expected: str) -> None:
    """A published digest may be cut, as a page shows it, and be written in capitals."""
    wanted = expected.strip().lower()
    if not re.fullmatch(r"[0-9a-f]*", wanted) or not SHORTEST <= len(wanted) <= len(digest):
        raise ScenarioError(
            f"{expected!r} is no digest: it is the {len(digest)} hexadecimal digits of a seal, or its "
            f"first {SHORTEST} or more"
        )
    if not digest.startswith(wanted):
        raise ScenarioError(f"{path}: another seal than the one published: its digest is {digest}")


def find_seal(results: Path) -> Path:
    """The sealed folder that results lie in; ScenarioError where there is none."""
    place = results.resolve()
    for folder in (place, *place.parents):
        if (folder / SEAL).is_file():
            return folder
    raise ScenarioError(f"no {SEAL} in {results} or above it: name the sealed folder with --seal")


def refuse_sealed(folder: Path, but: Path | None = None) -> None:
    """ScenarioError where a folder to write to is a sealed one or lies in one, other than ``but``."""
    try:
        found = find_seal(folder)
    except ScenarioError:
        return
    if but is None or found != but.resolve():
        raise ScenarioError(f"{folder} lies in a sealed folder, {found}: what is sealed is not written to")


def slug(cell: str) -> str:
    """A cell's name as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "-", cell).strip("-.") or "cell"


def _rule(cells: Mapping[str, Evidence], choice: Choice) -> Rule:
    if len({slug(each) for each in cells}) < len(cells):
        raise ScenarioError("names of cells must differ in more than punctuation")
    rules = {name: rule_of(ev, list(cells), choice.pairs, extension=choice.extension) for name, ev in cells.items()}
    largest = max(rules.values(), key=lambda each: each.pairs)
    if choice.pairs is None and largest.pairs > MOST_PAIRS:
        raise ScenarioError(f"the review plans {largest.pairs} pairs: say with --real-pairs how many are to be run")
    if choice.draws < 2:
        raise ScenarioError(f"draws must be 2 or more, not {choice.draws}: one draw has no spread")
    return largest


def _same(cells: Mapping[str, Evidence], role: str) -> str:
    names = {getattr(ev, role) for ev in cells.values()}
    if len(names) > 1:
        raise ScenarioError(f"cells have different arms as {role}: {', '.join(sorted(names))}")
    return str(names.pop())


def _export(ev: Evidence, folder: Path, rule: Rule, choice: Choice) -> dict[str, Any]:
    """Traces of every pair of the last look, and what both arms are started with."""
    formats = tuple(dict.fromkeys(("windtunnel", *choice.formats)))
    pairs = rule.pairs_at(len(rule.looks) - 1)
    export(ev.scenario.select(arms=[ev.candidate]), folder, Plan(formats, pairs, choice.block_tokens))
    return check_export(folder)


def _traces(manifest: dict[str, Any]) -> list[str]:
    found = [each for each in manifest["files"] if each.get("format") == "windtunnel"]
    return [each["name"] for each in sorted(found, key=lambda each: int(each["pair"]))]


def _runs(cell: str, place: str, manifest: dict[str, Any], rule: Rule) -> list[dict[str, Any]]:
    """Every run with what its results have to say of it, in the order of running."""
    configs = {each["name"]: config_digest(each["name"], manifest) for each in manifest["arms"]}
    traces: dict[int, dict[str, str]] = {}
    for each in manifest["files"]:
        if "pair" in each:
            traces.setdefault(each["pair"], {})[f"{place}/{each['name']}"] = each["sha256"]
    return [
        {
            "cell": cell,
            "pair": pair,
            "position": position,
            "arm": arm,
            "look": pair // rule.pairs,
            "traces": traces[pair],
            "config_sha256": configs[arm],
        }
        for pair, arms in enumerate(manifest["order"])
        for position, arm in enumerate(arms)
    ]


def config_digest(arm: str, manifest: Mapping[str, Any]) -> str:
    """Digest of the files that an arm is started with: that of what ``sha256sum *`` prints in ``arms/<arm>``."""
    held = sorted(
        (each["name"].rsplit("/", 1)[-1], each["sha256"]) for each in manifest["files"] if each.get("arm") == arm
    )
    text = "".join(f"{digest}  {name}\n" for name, digest in held)
    return hashlib.sha256(text.encode()).hexdigest()


def _document(folder: Path, date: str | None) -> dict[str, Any]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SEAL)
    files = {str(path.relative_to(folder).as_posix()): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    document = {
        "schema": SCHEMA,
        "windtunnel": sim.__version__,
        "results_version": RESULTS_VERSION,
        "files": files,
    }
    return document | {"digest": _digest(document), "date": date}


def _digest(document: Mapping[str, Any]) -> str:
    """Over everything but the date and the digest itself."""
    sealed = {key: value for key, value in document.items() if key not in ("digest", "date")}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _place(draft: Path, folder: Path) -> None:
    """Put a finished draft in place; a seal that stands there stays, and must be the same."""
    if (folder / SEAL).exists():
        there, new = verify(folder), json.loads((draft / SEAL).read_bytes())["digest"]
        if there.digest != new:
            raise ScenarioError(
                f"{folder} holds another seal, {there.digest[:16]}; this one would be {new[:16]}: a sealed prediction "
                "is not replaced, choose another folder"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise ScenarioError(f"{folder} is not empty and holds no seal: choose another folder")
    if folder.exists():
        folder.rmdir()
    draft.chmod(0o755)
    draft.replace(folder)


def _write(path: Path, document: Any) -> None:
    path.write_bytes(_text(document))


def _text(document: Any) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
