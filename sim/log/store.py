"""Results on disk: ``<out>/<scenario>/<hash>/`` with one parquet file a table and ``manifest.json``.

A result appears whole or not at all: it is written into a hidden folder beside its place, synced, and renamed. Running
the same cell again replaces it by the same bytes, so nothing of the clock or the machine is written.
"""

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from sim.errors import ScenarioError
from sim.log.frames import NAMES, Tables

ROW_GROUP = 262_144
"""Rows of one parquet row group, fixed because the default depends on the machine's threads."""


def prepare(out: Path) -> None:
    """Make sure that results can be written below ``out`` before anything is simulated."""
    probe = out / f".probe-{os.getpid()}"
    with _explained(out):
        out.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()


def write(folder: Path, tables: Tables, manifest: dict[str, Any]) -> None:
    """Write one result; a result that stands there already is replaced."""
    draft = folder.with_name(f".{folder.name}-{os.getpid()}")
    with _explained(folder):
        try:
            draft.mkdir(parents=True)
            for name in NAMES:
                _write_table(draft / f"{name}.parquet", getattr(tables, name))
            text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            _write_bytes(draft / "manifest.json", text.encode())
            _sync(draft)
            _move(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def read(folder: Path) -> Tables:
    """The tables of a stored result."""
    with _explained(folder, "read"):
        return Tables(**{name: pl.read_parquet(folder / f"{name}.parquet") for name in NAMES})


def _write_table(path: Path, frame: pl.DataFrame) -> None:
    # By way of memory: an error of the disk then comes as it is, not as one of the format.
    data = io.BytesIO()
    frame.rechunk().write_parquet(data, compression="zstd", compression_level=1, row_group_size=ROW_GROUP)
    _write_bytes(path, data.getbuffer())


def _write_bytes(path: Path, data: bytes | memoryview) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _move(draft: Path, folder: Path) -> None:
    """Put the draft in place; between the two renames the result is absent, never partial."""
    old = draft.with_name(f"{draft.name}-old")
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _explained(path: Path, verb: str = "write") -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ScenarioError(f"cannot {verb} results in {path}: {reason}") from error
