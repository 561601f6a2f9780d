"""One column of numbers of a file: CSV with a header, or one JSON object a line; plain or gzip.

A JSON value may be a list of numbers, all of which count. A row without a number, or with one that is not finite or
below zero, ends the reading with its line.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.workload._rows import Trace, find, read_rows


def read_column(path: Path, column: str) -> NDArray[np.float64]:
    """The numbers of a column, in the order of the file; read once while the file stays as it is."""
    return _read(find(path), column)


@lru_cache(maxsize=16)
def _read(trace: Trace, column: str) -> NDArray[np.float64]:
    kinds = [suffix for suffix in trace.path.suffixes if suffix != ".gz"]
    rows = _csv(trace.path, column) if kinds[-1:] == [".csv"] else _json(trace.path, column)
    values = np.array([_number(value, where, column) for where, value in rows])
    if not len(values):
        raise ScenarioError(f"{trace.path}: the column {column} holds no number")
    values.flags.writeable = False
    return values


def _csv(path: Path, column: str) -> Iterator[tuple[str, object]]:
    line = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw:
            rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8-sig", newline=""))
            line = 1
            if column not in (rows.fieldnames or ()):
                known = ", ".join(rows.fieldnames or ["none"])
                raise ScenarioError(f"{path}: has no column {column!r}; known: {known}")
            for row in rows:
                line = rows.line_num
                yield f"{path}:{line}", row[column]
    except (OSError, EOFError, zlib.error, ValueError, csv.Error) as error:
        raise ScenarioError(f"{path}:{line + 1}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _json(path: Path, column: str) -> Iterator[tuple[str, object]]:
    for row in read_rows(path):
        value = row.get(column)
        for each in value if isinstance(value, list) else [value]:
            yield row.where, each


def _number(value: object, where: str, column: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ScenarioError(f"{where}: {column} must be a number from 0 on, not {str(value)[:40]!r}")
    return number
