"""Reads traces of one JSON object a line, or CSV, plain or gzip, and says which line is wrong.

Files are streamed: what is in memory is one line. Whether a file is compressed is seen by its first bytes. A blank line
is a missing row, and so an error: a replay of half a trace should not look like a result.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

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
        return self.check_number(name, self.get(name), most)

    def wholes(self, name: str, least: int, most: int = MOST_TOKENS) -> list[int]:
        """A list of whole numbers, not empty."""
        values = self.get(name)
        if not isinstance(values, list) or not values:
            raise self.refuse(f"{name} must be a list of whole numbers, not {_short(values)}")
        if set(map(type, values)) != {int} or min(values) < least or max(values) > most:
            for value in values:
                self.check_whole(f"each of {name}", value, least, most)
        return values

    def text(self, name: str) -> str:
        """A text that says something."""
        value = self.get(name)
        if not isinstance(value, str) or not value:
            raise self.refuse(f"{name} must be a text, not {_short(value)}")
        return value

    def name(self, name: str) -> str:
        """A text or a whole number, as text."""
        value = self.get(name)
        return str(value) if type(value) is int else self.text(name)

    def objects(self, name: str) -> "list[Row]":
        """A list of objects, not empty."""
        values = self.get(name)
        if not isinstance(values, list) or not values or not all(isinstance(each, dict) for each in values):
            raise self.refuse(f"{name} must be a list of objects, not {_short(values)}")
        return [Row(f"{self.where}: {name}[{index}]", each) for index, each in enumerate(values)]

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self.values.get(name) is not None

    def check_number(self, name: str, value: Any, most: float) -> float:
        """The value as a float, if it is a number from 0 to ``most``."""
        if type(value) not in (int, float) or not 0 <= value <= most:
            raise self.refuse(f"{name} must be a number from 0 to {most:,}, not {_short(value)}")
        return float(value)

    def check_whole(self, name: str, value: Any, least: int, most: int) -> int:
        """The value, if it is a whole number from ``least`` to ``most``."""
        if type(value) is not int or not least <= value <= most:
            raise self.refuse(f"{name} must be a whole number from {least:,} to {most:,}, not {_short(value)}")
        return value


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file of JSON lines, in order; a file without rows is an error."""
    number = 0
    with _opened(path) as (lines, place):
        for line in lines:
            place[0] = number = number + 1
            yield _parse(line, f"{path}:{number}")
    if number == 0:
        raise ScenarioError(f"{path}: holds no rows")


def read_table(path: Path, needed: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a CSV file, values as texts and numbers where they read as such; the first line names columns."""
    rows = 0
    with _opened(path) as (lines, place):
        table = csv.reader(_texts(lines, path, place), strict=True)
        header = [name.strip() for name in next(table, [])]
        missing = [name for name in needed if name not in header]
        if missing:
            raise ScenarioError(f"{path}:1: has no column {', '.join(missing)}")
        for fields in table:
            rows += 1
            where = f"{path}:{table.line_num}"
            if len(fields) != len(header):
                raise ScenarioError(
                    f"{where}: must have {len(header)} fields, as the first line has, not {len(fields)}"
                )
            yield Row(where, dict(zip(header, map(_value, fields), strict=True)))
    if rows == 0:
        raise ScenarioError(f"{path}: holds no rows")


def opening(path: Path) -> bytes:
    """The first bytes of a file, unpacked: at most the first line, and enough to tell what it is."""
    with _opened(path) as (lines, _):
        return lines.readline(_FIRST)


_FIRST: Final = 1 << 22
_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], list[int]]]:
    """A file open for reading, and a place for the number of the line that was read last."""
    place = [0]
    try:
        with path.open("rb") as plain:
            is_packed = plain.read(2) == b"\x1f\x8b" or path.suffix == ".gz"
            plain.seek(0)
            lines = cast("IO[bytes]", gzip.GzipFile(fileobj=plain) if is_packed else plain)
            start = lines.read(4096)
            if start.startswith(_MARKS):
                raise ScenarioError(f"{path}:1: starts with a byte-order mark: write it as UTF-8 without one")
            if b"\0" in start:
                raise ScenarioError(f"{path}:1: is no text file: it holds zero bytes")
            lines.seek(0)
            yield lines, place
    except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}:{place[0] + 1}: cannot be read: {reason}") from None


def _texts(lines: IO[bytes], path: Path, place: list[int]) -> Iterator[str]:
    for line in lines:
        if not line.strip():
            raise ScenarioError(f"{path}:{place[0] + 1}: the line is empty")
        yield line.decode()
        place[0] += 1


def _value(text: str) -> Any:
    """A field of a CSV: a whole number, a number, or the text itself."""
    text = text.strip()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


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
