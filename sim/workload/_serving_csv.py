"""Reads a measured serving run: a CSV of one request a row, seconds from the first arrival.

    request_id,input_toks,output_toks,queued_s,scheduled_s,first_token_s,last_token_s

``queued_s`` is when the engine has the request, ``scheduled_s`` when a step first takes it, the last two when its first
and its last token come out. A replay needs the first four columns; scoring a simulation needs all but ``scheduled_s``.
Further columns are not read. The engine's own clock is meant, so HTTP and tokenising are outside.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from sim.errors import ScenarioError
from sim.workload._check import MOST_SECONDS, MOST_TOKENS
from sim.workload._lengths import Floats, Ints
from sim.workload._rows import Trace

LENGTHS: Final = ("input_toks", "output_toks")
TIMES: Final = ("queued_s", "scheduled_s", "first_token_s", "last_token_s")
_NEEDED: Final = ("request_id", *LENGTHS, "queued_s")


@dataclass(frozen=True, slots=True)
class ServingRun:
    """A run as columns, one element a request, in order of the file."""

    request_id: tuple[str, ...]
    prompt: Ints
    output: Ints
    times: dict[str, Floats]
    """By name of the column, those that the file has."""


@lru_cache(maxsize=4)
def read_run(trace: Trace) -> ServingRun:
    """Read a file once for all replications of a process; what is wrong with it names its line."""
    names: list[str] = []
    lengths: list[tuple[int, int]] = []
    times: list[list[float]] = []
    present: tuple[str, ...] = ()
    for where, row in _rows(trace):
        present = present or tuple(name for name in TIMES if name in row)
        names.append(row["request_id"])
        lengths.append((_whole(where, row, "input_toks"), _whole(where, row, "output_toks")))
        times.append(_in_order(where, row, present))
    if not names:
        raise ScenarioError(f"{trace.path}: holds no requests")
    prompt, output = np.array(lengths, dtype=np.int64).T.copy()
    columns = np.array(times).T.copy()
    return ServingRun(tuple(names), prompt, output, dict(zip(present, columns, strict=True)))


def _rows(trace: Trace) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        with trace.path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            header = lines.fieldnames or ()
            missing = [name for name in _NEEDED if name not in header]
            if missing:
                raise ScenarioError(f"{trace.path}: has no column {', '.join(missing)}")
            for row in lines:
                where = f"{trace.path}:{lines.line_num}"
                if None in row or None in row.values():
                    raise ScenarioError(f"{where}: must have {len(header)} fields, as the first line has")
                yield where, row
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{trace.path}: cannot be read: {reason}") from None


def _whole(where: str, row: dict[str, str], name: str) -> int:
    text = row[name].strip()
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0
    if not 1 <= value <= MOST_TOKENS:
        raise ScenarioError(f"{where}: {name} must be a whole number from 1 to {MOST_TOKENS:,}, not {text!r}")
    return value


def _in_order(where: str, row: dict[str, str], present: tuple[str, ...]) -> list[float]:
    """The times of a row; none before the one that must precede it."""
    values: list[float] = []
    for name in present:
        try:
            value = float(row[name])
        except ValueError:
            value = math.nan
        if not 0 <= value <= MOST_SECONDS:
            raise ScenarioError(f"{where}: {name} must be a number from 0 to {MOST_SECONDS:,.0f}, not {row[name]!r}")
        if values and value < values[-1]:
            raise ScenarioError(f"{where}: {name} is {value:g} s, before {present[len(values) - 1]}")
        values.append(value)
    return values
