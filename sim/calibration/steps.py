"""Measured engine steps: what they computed, and how long they took. One row a step, or the median of equal ones.

    device, model, tp          where it was measured; the same in all rows that are fitted together
    prefill_tokens             P: new tokens of all prefill chunks of the step
    pairs                      A: sum over chunks of q*p + q*(q+1)/2, q new tokens on p tokens before them
    decodes                    n: sequences that decode
    context                    C: sum of their contexts, in tokens
    chunks                     K: number of prefill chunks
    ms                         duration of the step

A profile gives back the times that it was fitted to: where ``ms`` is the GPU's time alone, or that of short bursts,
host time and slowdown have to be added to it. Rows of equal numbers are repeats of one configuration: their median
counts, once.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.errors import ScenarioError

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

PLACE: Final = ("device", "model", "tp")
NUMBERS: Final = ("prefill_tokens", "pairs", "decodes", "context", "chunks", "ms")
PHASES: Final = ("prefill", "decode", "mixed")
LARGEST: Final = 1e15
"""Largest number of a column: sums of a thousand of them are still exact in a float."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one device, model and tensor-parallel size, as columns."""

    device: str
    model: str
    tp: int
    prefill_tokens: Floats
    pairs: Floats
    decodes: Floats
    context: Floats
    chunks: Floats
    ms: Floats

    def __len__(self) -> int:
        return len(self.ms)

    @property
    def tokens(self) -> Floats:
        """N: all tokens of each step."""
        return np.asarray(self.prefill_tokens + self.decodes)

    @property
    def phase(self) -> Ints:
        """Index into ``PHASES``: chunks alone, decodes alone, both."""
        return np.where(self.chunks == 0, 1, np.where(self.decodes == 0, 0, 2)).astype(np.int64)

    @property
    def configuration(self) -> Ints:
        """Number of the configuration of each step: steps that computed the same have the same."""
        columns = np.stack([getattr(self, name) for name in NUMBERS[:-1]], axis=1)
        return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def medians(self) -> "Steps":
        """One step for each configuration, of the median time of its repeats."""
        number = self.configuration
        order = np.lexsort((self.ms, number))
        starts = np.flatnonzero(np.diff(number[order], prepend=-1))
        counts = np.diff(starts, append=len(order))
        ms = (self.ms[order[starts + (counts - 1) // 2]] + self.ms[order[starts + counts // 2]]) / 2
        return replace(self.select(order[starts]), ms=ms)

    def select(self, rows: Any) -> "Steps":
        """Some of the steps, by mask or index."""
        columns = {name: np.asarray(getattr(self, name)[rows]) for name in NUMBERS}
        return Steps(self.device, self.model, self.tp, **columns)


def read(path: Path, *, device: str | None = None, model: str | None = None, tp: int | None = None) -> Steps:
    """The steps of a file; a file of several devices, models or sizes needs the choice of one."""
    rows = list(_rows(path))
    wanted = {"device": device, "model": model, "tp": None if tp is None else str(tp)}
    chosen = [row for row in rows if all(value in (None, row[1][name].strip()) for name, value in wanted.items())]
    places = sorted({tuple(row[name].strip() for name in PLACE) for _, row in chosen})
    if len(places) != 1:
        listed = "; ".join(" ".join(each) for each in sorted({tuple(r[n].strip() for n in PLACE) for _, r in rows}))
        what = "no steps" if not places else "steps of more than one device, model and tp"
        raise ScenarioError(f"{path}: {what} chosen; name one with --device, --model, --tp; there are: {listed}")
    where, first = chosen[0]
    size = first["tp"].strip()
    if not size.isdigit() or int(size) < 1:
        raise ScenarioError(f"{where}: tp must be a number of GPUs, 1 or more, not {size!r}")
    table = np.array([_numbers(where, row) for where, row in chosen]).T
    steps = Steps(places[0][0], places[0][1], int(size), **dict(zip(NUMBERS, table, strict=True)))
    _check(steps, [where for where, _ in chosen])
    return steps


def write(path: Path, steps: Steps) -> None:
    """The steps as a file that ``read`` reads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow((*PLACE, *NUMBERS))
        for row in zip(*(getattr(steps, name).tolist() for name in NUMBERS), strict=True):
            lines.writerow((steps.device, steps.model, steps.tp, *(f"{value:.10g}" for value in row)))


def join(parts: Iterable[Steps]) -> Steps:
    """Steps of one place, one after the other."""
    known = list(parts)
    columns = {name: np.concatenate([getattr(each, name) for each in known]) for name in NUMBERS}
    return Steps(known[0].device, known[0].model, known[0].tp, **columns)


def _rows(path: Path) -> Iterable[tuple[str, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            header = lines.fieldnames or ()
            missing = [name for name in (*PLACE, *NUMBERS) if name not in header]
            if missing:
                raise ScenarioError(f"{path}: has no column {', '.join(missing)}")
            for row in lines:
                where = f"{path}:{lines.line_num}"
                if None in row or None in row.values():
                    raise ScenarioError(f"{where}: must have {len(header)} fields, as the first line has")
                yield where, row
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(f"{path}: cannot be read: {reason}") from None


def _numbers(where: str, row: dict[str, str]) -> list[float]:
    values = []
    for name in NUMBERS:
        try:
            value = float(row[name])
        except ValueError:
            value = math.nan
        if not 0 <= value <= LARGEST:
            raise ScenarioError(f"{where}: {name} must be a number from 0 to {LARGEST:g}, not {row[name]!r}")
        values.append(value)
    return values


def _check(steps: Steps, places: list[str]) -> None:
    """Refuse rows that no step can be."""
    rules = (
        (steps.ms <= 0, "ms must be more than 0"),
        (steps.tokens == 0, "a step without prefill_tokens and decodes computes nothing"),
        ((steps.chunks == 0) != (steps.prefill_tokens == 0), "prefill_tokens and chunks go together"),
        (steps.prefill_tokens < steps.chunks, "a chunk has a token at least"),
        (steps.pairs < steps.prefill_tokens, "pairs: each new token attends to itself at least"),
        ((steps.decodes == 0) & (steps.context > 0), "context without decodes"),
    )
    for wrong, rule in rules:
        if wrong.any():
            raise ScenarioError(f"{places[int(np.argmax(wrong))]}: {rule}")
