"""Holds an exported folder against its manifest: nothing is missing, changed or added, and arms differ as declared.

``check_export`` is what ``windtunnel export --check``, a seal and a score ask. It reads the folder alone, not the
scenario: all that the files of an arm depend on stands in the manifest, so they are made again and compared line by
line. That finds a flag that was changed by hand even where the digest in the manifest was changed with it, and since
the arms' facts may differ in the declared field alone, so may their files. The lines of a trace cannot be made again
without the scenario: their digest holds them, and a seal holds the digest.
"""

import difflib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sim
from sim.errors import ScenarioError
from sim.export._arms import Configuration, configure, facts_of
from sim.export._manifest import (
    MANIFEST,
    RUN_ORDER,
    SCHEMA,
    SIMULATED,
    derived,
    digest_of,
    files_of,
    in_header,
    is_inside,
    size_of,
)
from sim.export._order import order_of_runs, run_order, trace_name
from sim.scenario import differ

_FIELDS = ("client", "router", "fleet", "training")
"""What of an arm a scenario may declare to differ."""


def check_export(folder: Path) -> dict[str, Any]:
    """The manifest of a folder whose files are those that were exported; ScenarioError with one line if they are not.

    The line names the file, and the flag where it is one. Files beside the exported ones are left alone, but for the
    folders of the arms, where nothing else may stand.
    """
    manifest = read_manifest(folder)
    try:
        _check(folder, manifest)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        AssertionError,
        StopIteration,
    ) as error:
        raise ScenarioError(f"{MANIFEST}: not as it was exported: {type(error).__name__}: {error}") from None
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest as data."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}: no export is here") from None
    except ValueError:
        raise ScenarioError(f"{path}: not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise ScenarioError(f"{path}: schema must be {SCHEMA!r}: export the scenario again with this version")
    version = manifest.get("windtunnel")
    if version != sim.__version__:
        raise ScenarioError(f"{path}: exported by windtunnel {version}, this is {sim.__version__}: check with that one")
    return manifest


def _check(folder: Path, manifest: dict[str, Any]) -> None:
    if manifest["digest"] != digest_of(manifest):
        raise ScenarioError(f"{MANIFEST}: its values are not those that were exported")
    made = {arm["name"]: configure(facts_of(arm)) for arm in manifest["arms"]}
    expected = {path: text for name, each in made.items() for path, text in files_of(name, each).items()}
    expected[RUN_ORDER] = "".join(
        run_order(manifest["order"], manifest["placements"], _form(manifest), _first(manifest))
    )
    _check_changes(manifest)
    _check_files(folder, manifest, expected)
    _check_arms(manifest, made)
    _check_order(manifest)
    _check_traces(folder, manifest)


def _form(manifest: dict[str, Any]) -> str:
    """The format that the order of runs names: the first one."""
    return str(next(each["format"] for each in manifest["files"] if "format" in each))


def _check_changes(manifest: dict[str, Any]) -> None:
    """One change an arm, so that what is measured has one cause, and the facts differ in it alone."""
    arms = {arm["name"]: {field: arm.get(field) for field in _FIELDS} for arm in manifest["arms"]}
    base = arms[manifest["baseline"]]
    if set(manifest["changes"]) != set(arms) - {manifest["baseline"]}:
        raise ScenarioError(f"{MANIFEST}: changes are not those of the arms {', '.join(arms)}")
    for name, changes in manifest["changes"].items():
        declared = {each["field"]: (each["baseline"], each["arm"]) for each in changes}
        found = dict(differ(base, arms[name]))
        for field in sorted({*declared, *found}):
            if declared.get(field) != found.get(field):
                raise ScenarioError(
                    f"{MANIFEST}: arm {name} differs from {manifest['baseline']} in {field}, which is not as declared"
                )
        if len(changes) > 1:
            raise ScenarioError(
                f"{MANIFEST}: arm {name} differs from {manifest['baseline']} in {len(changes)} fields "
                f"({', '.join(declared)}): a pair shows the effect of one"
            )


def _check_files(folder: Path, manifest: dict[str, Any], expected: dict[str, str]) -> None:
    named = {file["name"]: file for file in manifest["files"]}
    if len(named) != len(manifest["files"]):
        raise ScenarioError(f"{MANIFEST}: a file is listed twice")
    for name, text in expected.items():
        _check_text(folder, name, text)
        if {key: named.get(name, {}).get(key) for key in ("rows", "bytes", "sha256")} != size_of(text):
            raise ScenarioError(f"{MANIFEST}: {name} is listed with another digest or size than it has")
    for name, file in named.items():
        if name not in expected:
            _check_trace(folder, file)
    for path in sorted((folder / "arms").rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_dir() and name not in named:
            raise ScenarioError(f"{name}: not a file of this export: take it away")


def _check_text(folder: Path, name: str, expected: str) -> None:
    """A file that can be made again, line by line; a flag has a line of its own."""
    try:
        found = (folder / name).read_bytes()
    except OSError as error:
        raise ScenarioError(f"{name}: {error.strerror}") from None
    if found != expected.encode():
        raise ScenarioError(f"{name}: {_difference(expected, found.decode(errors='replace'))}")


def _difference(expected: str, found: str) -> str:
    """The first line that was changed, taken away or added; a comment only where nothing else was."""
    one, other = expected.splitlines(), found.splitlines()
    steps = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    changes = [(_joined(one[a:b]), _joined(other[c:d])) for what, a, b, c, d in steps if what != "equal"]
    was, now = min(changes, key=lambda each: (each[0] or each[1]).startswith("#"), default=("", ""))
    if was and now and was != now:
        return f"{now!r} stands where {was!r} was exported"
    if was == now:
        return "blanks or line ends were changed"
    return f"{was!r} was taken away" if was else f"{now!r} was added"


def _joined(lines: list[str]) -> str:
    return " | ".join(each.strip(" \\") for each in lines)


def _check_trace(folder: Path, file: dict[str, Any]) -> None:
    name = file["name"]
    if not is_inside(name) or name != trace_name(file["format"], file["pair"]):
        raise ScenarioError(f"{MANIFEST}: {name!r} is no file of an export")
    try:
        with (folder / name).open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ScenarioError(f"{name}: {error.strerror}") from None
    if digest != file["sha256"]:
        raise ScenarioError(f"{name}: not the trace that was exported: its digest is {digest}, not {file['sha256']}")
    if (folder / name).stat().st_size != file["bytes"]:
        raise ScenarioError(f"{MANIFEST}: {name} is listed with another size than it has")


def _check_arms(manifest: dict[str, Any], made: dict[str, Configuration]) -> None:
    for arm in manifest["arms"]:
        for key, value in derived(made[arm["name"]]).items():
            if arm.get(key) != value:
                raise ScenarioError(f"{MANIFEST}: {key} of arm {arm['name']} is not that of its files")


def _check_order(manifest: dict[str, Any]) -> None:
    names = [arm["name"] for arm in manifest["arms"]]
    if manifest["order"] != order_of_runs(names, len(manifest["workload"]), manifest["seed"], _first(manifest)):
        raise ScenarioError(f"{MANIFEST}: order is not the one that seed {manifest['seed']} gives")
    forms = [file["format"] for file in manifest["files"] if "format" in file]
    for form in forms:
        pairs = sorted(file["pair"] for file in manifest["files"] if file.get("format") == form)
        if pairs != list(range(_first(manifest), _first(manifest) + len(manifest["order"]))):
            raise ScenarioError(f"{MANIFEST}: pairs of {form} traces are {pairs}, of {len(manifest['order'])} in order")


def _first(manifest: dict[str, Any]) -> int:
    """Number of the first pair; 0 where the manifest does not say."""
    first = manifest.get("first_pair", 0)
    if not isinstance(first, int) or first < 0:
        raise ScenarioError(f"{MANIFEST}: first_pair is {first!r}, not the number of a pair")
    return first


def _check_traces(folder: Path, manifest: dict[str, Any]) -> None:
    """What a trace says of its arms is what the manifest says."""
    expected = [in_header(arm) for arm in manifest["arms"]]
    for file in manifest["files"]:
        if file.get("format") != "windtunnel":
            continue
        with (folder / file["name"]).open("rb") as opened:
            header = json.loads(next(iter(opened), b"{}"))
        if header.get("arms") != expected or header.get("order") != manifest["order"][file["pair"] - _first(manifest)]:
            raise ScenarioError(f"{file['name']}: says other arms, or another order, than {MANIFEST}")


def warnings(manifest: dict[str, Any]) -> Iterator[str]:
    """What a real run of these arms cannot have as it was simulated."""
    for arm in manifest["arms"]:
        if arm["keys_planned_for"] == SIMULATED:
            yield (
                f"arm {arm['name']}: keys fall into the planned placement classes on the simulated addresses alone; "
                "name those of the real engines, --engine"
            )
        for each in arm["impossible"]:
            yield f"arm {arm['name']} cannot be run as simulated: {each}"
