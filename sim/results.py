"""Stored results as polars frames: one table layout, whatever the command that stored them.

``scan("requests")`` is every request of every stored result, with ``scenario``, ``arm``, ``hash`` and ``pair`` before
the columns of ``sim.log.frames``; ``values`` has one row a pair with all metrics, and is there for every result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from sim.errors import ScenarioError
from sim.log import store
from sim.log.frames import NAMES

TABLES = (store.VALUES, *NAMES)


@dataclass(frozen=True, slots=True)
class Stored:
    """One stored cell."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def hash(self) -> str:
        """Names the cell; the name of its folder."""
        return str(self.manifest["hash"])

    @property
    def arm(self) -> str:
        """The arms that it was run as."""
        return ", ".join(self.manifest["arms"])


def stored(out: str | Path = "results") -> Iterator[Stored]:
    """Every result below a folder of results, or below that of one scenario, by scenario and hash."""
    root = Path(out)
    for path in sorted({*root.glob("*/manifest.json"), *root.glob("*/*/manifest.json")}):
        if not path.parent.name.startswith("."):
            manifest = store.read_manifest(path.parent)
            if manifest is not None and {"hash", "arms", "scenario", "pairs"} <= manifest.keys():
                yield Stored(path.parent, manifest)


def find(hash: str, out: str | Path = "results") -> Stored:
    """The one result whose hash begins so; ScenarioError where there is none, or more than one."""
    every = list(stored(out))
    found = [each for each in every if each.hash.startswith(hash)] if hash else []
    if not found:
        raise ScenarioError(f"no result {hash!r} below {out}; windtunnel ls lists what is there")
    if len(found) > 1 and len({each.hash for each in found}) > 1:
        raise ScenarioError(f"{hash!r} begins {len(found)} hashes: {', '.join(each.hash for each in found)}")
    return found[0]


def scan(table: str = store.VALUES, out: str | Path = "results") -> pl.LazyFrame:
    """One table of every stored result, lazily; results that kept no tables are left out of all but ``values``."""
    if table not in TABLES:
        raise ScenarioError(f"no table {table!r}: they are {', '.join(TABLES)}")
    frames = [
        pl.scan_parquet(each.folder / f"{table}.parquet").select(
            pl.lit(str(each.manifest["scenario"])).alias("scenario"),
            pl.lit(each.arm).alias("arm"),
            pl.lit(each.hash).alias("hash"),
            pl.all(),
        )
        for each in stored(out)
        if (each.folder / f"{table}.parquet").is_file()
    ]
    if not frames:
        raise ScenarioError(f"no table {table} is stored below {out}")
    return pl.concat(frames)
