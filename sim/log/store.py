"""Results on disk: ``<out>/<scenario>/<hash>/`` with ``manifest.json``, ``values.parquet`` and one file a table.

A result appears whole or not at all: it is written into a hidden folder beside its place, synced, and renamed. Running
the same cell again gives the same bytes, so nothing of the clock or the machine is written. Until a cell is complete
its finished replications lie in a hidden folder, ``.<hash>``, from which the same command goes on after any end.
"""

import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final

import polars as pl

from sim.errors import ScenarioError
from sim.log.frames import NAMES, Tables

ROW_GROUP: Final = 262_144
"""Rows of one parquet row group, fixed because the default depends on the machine's threads."""
VALUES: Final = "values"
_ENTRY: Final = Struct("<qq")
_DRAFT: Final = re.compile(r"\.[0-9a-f]{16}-\d+(-old)?")


def prepare(out: Path) -> None:
    """Make sure that results can be written below ``out`` before anything is simulated."""
    probe = out / f".probe-{os.getpid()}"
    with _explained(out):
        out.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()


def write(folder: Path, tables: Tables | None, manifest: dict[str, Any], values: pl.DataFrame | None = None) -> None:
    """Write one result, its tables and what was measured of each pair; one that stands there already is replaced."""
    draft = folder.with_name(f".{folder.name}-{os.getpid()}")
    frames = {} if tables is None else {name: getattr(tables, name) for name in NAMES}
    if values is not None:
        frames[VALUES] = values
    with _explained(folder):
        try:
            draft.mkdir(parents=True)
            for name, frame in frames.items():
                _write_table(draft / f"{name}.parquet", frame)
            _write_bytes(draft / "manifest.json", _text(manifest))
            _sync(draft)
            _move(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def read(folder: Path, pairs: int | None = None) -> Tables:
    """The tables of a stored result, of its first pairs or of all."""
    with _explained(folder, "read"):
        found = {name: pl.read_parquet(folder / f"{name}.parquet") for name in NAMES}
    if pairs is None or found["replications"].height <= pairs:
        return Tables(**found)
    return Tables(**{name: frame.filter(pl.col("pair") < pairs) for name, frame in found.items()})


def read_engines(folder: Path, pair: int) -> pl.DataFrame:
    """The engines table of one pair of a stored result."""
    with _explained(folder, "read"):
        return pl.scan_parquet(folder / "engines.parquet").filter(pl.col("pair") == pair).collect()


def has_tables(folder: Path) -> bool:
    """Whether a stored result kept its tables, or only what was measured."""
    return all((folder / f"{name}.parquet").is_file() for name in NAMES)


def read_values(folder: Path) -> pl.DataFrame:
    """What was measured of each pair of a stored result."""
    with _explained(folder, "read"):
        return pl.read_parquet(folder / f"{VALUES}.parquet")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a stored result; None where there is none that can be read."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) else None


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest of a stored result, whole or not at all."""
    draft = folder / f".manifest-{os.getpid()}"
    with _explained(folder):
        try:
            _write_bytes(draft, _text(manifest))
            draft.replace(folder / "manifest.json")
        finally:
            draft.unlink(missing_ok=True)


def _text(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


class Journal:
    """Finished replications of a cell that is not complete yet, as bytes by pair."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the place of the complete result."""
        self.folder = folder.with_name(f".{folder.name}")

    def add(self, found: Mapping[int, bytes]) -> None:
        """Write some replications down; they are there at once and whole, or not at all."""
        name = f"{min(found):07d}-{max(found):07d}"
        draft = self.folder / f".{name}-{os.getpid()}"
        with _explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                with draft.open("wb") as file:
                    for pair, data in found.items():
                        file.write(_ENTRY.pack(pair, len(data)) + data)
                draft.replace(self.folder / f"{name}.part")
            finally:
                draft.unlink(missing_ok=True)

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Pairs and bytes in no order; a pair may come twice, and the last bytes of a file may be cut short."""
        with _explained(self.folder, "read"):
            for path in sorted(self.folder.glob("*.part")):
                data = path.read_bytes()
                at = 0
                while at + _ENTRY.size <= len(data):
                    pair, size = _ENTRY.unpack_from(data, at)
                    at += _ENTRY.size + size
                    yield pair, data[at - size : at]

    def discard(self) -> None:
        """Forget them, once the cell is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One run at a time writes into a folder, a second is told so. A lock ends with its process, however that ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    path = folder / ".lock"
    with _explained(folder):
        file = path.open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ScenarioError(f"another run is writing into {folder}: wait for it, or name another --out") from None
        _clear_drafts(folder)
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def _clear_drafts(folder: Path) -> None:
    """Take away what a process that was killed left half-written."""
    for path in folder.iterdir():
        if _DRAFT.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


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
