"""Reads CSV tables of measured operators, plain or gzip, as columns."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import ScenarioError

Column = np.ndarray[Any, Any]


def read_table(path: Path) -> dict[str, Column]:
    """Columns by name: numbers where every row has a number, else text."""
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        head, *rows = csv.reader(io.StringIO(text), strict=True)
    except (OSError, EOFError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}: cannot be read: {reason}") from None
    for number, row in enumerate(rows, 2):
        if len(row) != len(head):
            raise ScenarioError(f"{path}:{number}: must have {len(head)} fields, as the first line has")
    return {name: _column(values) for name, values in zip(head, zip(*rows, strict=True), strict=True)}


def _column(values: tuple[str, ...]) -> Column:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        return np.array(values)


def choose(table: dict[str, Column], **wanted: float | str) -> dict[str, Column]:
    """The rows in which columns have these values."""
    mask = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, value in wanted.items():
        mask &= table[name] == value
    return {name: column[mask] for name, column in table.items()}
