"""Holds an exported folder against its manifest: nothing is missing, changed or added, and arms differ as declared.

``check_export`` is what ``windtunnel export --check``, a seal and a score ask. It reads the folder alone, not the
scenario: what a scenario comes down to stands in the manifest.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from sim.errors import ScenarioError
from sim.export._write import MANIFEST, SCHEMA, is_inside


def check_export(folder: Path) -> dict[str, Any]:
    """The manifest of a folder whose files are those that were exported; ScenarioError with one line if they are not.

    The line names the file, and the flag where it is one. Files beside the exported ones are left alone.
    """
    manifest = read_manifest(folder)
    _check_changes(manifest)
    for file in manifest["files"]:
        _check_file(folder, file)
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
    return manifest


def _check_changes(manifest: dict[str, Any]) -> None:
    """One change an arm, so that what is measured has one cause."""
    for arm, changes in manifest["changes"].items():
        if len(changes) > 1:
            fields = ", ".join(each["field"] for each in changes)
            raise ScenarioError(
                f"{MANIFEST}: arm {arm} differs from {manifest['baseline']} in {len(changes)} fields ({fields}): "
                "a pair shows the effect of one"
            )


def _check_file(folder: Path, file: dict[str, Any]) -> None:
    name = file["name"]
    if not is_inside(name):
        raise ScenarioError(f"{MANIFEST}: {name!r} is no file of this folder")
    try:
        with (folder / name).open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ScenarioError(f"{name}: {error.strerror}") from None
    if digest != file["sha256"]:
        raise ScenarioError(f"{name}: not the file that was exported: its digest is {digest}, not {file['sha256']}")
