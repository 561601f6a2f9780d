"""Reads traces of one JSON object a line, plain or gzip, and says which line is wrong.

A blank line is a missing row, and so an error: a replay of half a trace should not look like a result.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.errors import ScenarioError
from sim.workload._check import MOST_TOKENS


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a file, and where it stands."""

    where: str
    values: dict[str, Any]

    def refuse(self, reason: str) -> ScenarioError:
        """The error that names file and line."""
        return ScenarioError(f"{self.where}: {reason}")

    def get(self, name: str) -> Any:
        """A field that must be there."""
        if name not in self.values:
            raise self.refuse(f"{name} is missing")
        return self.values[name]

    def whole(self, name: str, least: int, most: int = MOST_TOKENS) -> int:
        """A whole number from ``least`` to ``most``."""
        return self.check_whole(name, self.get(name), least, most)

    def number(self, name: str, most: float) -> float:
        """A number from 0 to ``most``."""
        value = self.get(name)
        if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value <= most):
            raise self.refuse(f"{name} must be a number from 0 to {most:,}, not {_short(value)}")
        return float(value)

    def wholes(self, name: str, least: int, most: int = MOST_TOKENS) -> list[int]:
        """A list of whole numbers, not empty."""
        values = self.get(name)
        if not isinstance(values, list) or not values:
            raise self.refuse(f"{name} must be a list of whole numbers, not {_short(values)}")
        for value in values:
            self.check_whole(f"each of {name}", value, least, most)
        return values

    def check_whole(self, name: str, value: Any, least: int, most: int) -> int:
        """The value, if it is a whole number from ``least`` to ``most``."""
        if type(value) is not int or not least <= value <= most:
            raise self.refuse(f"{name} must be a whole number from {least:,} to {most:,}, not {_short(value)}")
        return value


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, in order; a file without rows is an error."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for line in lines:
                number += 1
                yield _parse(line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}:{number + 1}: cannot be read: {reason}") from None
    if number == 0:
        raise ScenarioError(f"{path}: holds no rows")


def _parse(line: bytes, where: str) -> Row:
    if not line.strip():
        raise ScenarioError(f"{where}: the line is empty")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ScenarioError(f"{where}: not a whole JSON object ({reason})") from None
    if not isinstance(values, dict):
        raise ScenarioError(f"{where}: not a JSON object")
    return Row(where, values)


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a number far beyond it"
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True, slots=True)
class Trace:
    """A file as it is now: what was read from an equal one need not be read again."""

    path: Path
    modified_ns: int
    size: int


def find(path: Path) -> Trace:
    """The file at a path, which must exist."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}: cannot be read: {reason}") from None
    return Trace(path, status.st_mtime_ns, status.st_size)
