"""What a recorded trace holds: as text, and as one document."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sim.errors import ScenarioError
from sim.workload._traces._call import Reading
from sim.workload._traces._figures import QUANTILES, Figures, Histogram, figures
from sim.workload._traces._formats import find_format, read_calls

BLOCKS = (1, 16, 64, 512, 2080)
"""Block sizes of the reuse ceiling, where none are named; those below the file's own say nothing and are left out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How files are to be read, and in which blocks reuse is counted."""

    format: str
    reading: Reading
    blocks: tuple[int, ...]


def show_info(files: Sequence[Path], asked: Asked, *, as_json: bool) -> None:
    """Print the figures of files, one after the other."""
    found = []
    for path in files:
        form = find_format(path, asked.format)
        known = figures(read_calls(path, form, asked.reading), asked.blocks or BLOCKS)
        if not known.rows:
            raise ScenarioError(f"{path}: holds no calls")
        if as_json:
            found.append(_document(path, form.name, known, asked))
        else:
            click.echo("\n".join(_lines(path, form.name, known, asked)))
    if as_json:
        click.echo(json.dumps(found, indent=2))


def _reuse(known: Figures, asked: Asked) -> dict[int, float]:
    return {block: share for block, share in known.reuse.items() if asked.blocks or block >= known.block_tokens}


def _lines(path: Path, form: str, known: Figures, asked: Asked) -> Iterator[str]:
    about = "" if known.is_exact else "about "
    yield f"{path}: {form}"
    agents = f", {known.sub_agents:,} sub-agents" if known.sub_agents else ""
    yield f"  {known.rows:,} calls, {about}{known.sessions:,} sessions{agents}"
    if known.first_s is not None and known.last_s is not None:
        yield f"  {known.last_s - known.first_s:,.3f} s from the first call to the last"
    head = "".join(f"{f'p{100 * share:g}' if share < 1 else 'max':>12}" for share in QUANTILES)
    yield f"  {'':<16}{head}{'mean':>12}{'total':>18}"
    yield _row("prompt tokens", known.input, 1)
    yield _row("answer tokens", known.output, 1)
    if known.turns.quantiles()[-1] > 1:
        yield _row("calls a session", known.turns, 1)
        yield _row("wait, s", known.wait_ms, 1000)
    yield f"  largest call: {known.largest:,} tokens of prompt and answer, {known.largest_at}"
    own = f" (blocks of the file: {known.block_tokens})" if known.block_tokens else ""
    shares = ", ".join(f"{100 * share:.1f} % in blocks of {block:,}" for block, share in _reuse(known, asked).items())
    yield f"  reusable with an unlimited cache: {about}{shares}{own}"


def _row(name: str, histogram: Histogram, unit: int) -> str:
    if not histogram.number:
        return f"  {name:<16}none recorded"
    digits = ",.0f" if unit == 1 else ",.3f"
    cells = "".join(f"{format(value / unit, digits):>12}" for value in histogram.quantiles())
    total = f"{histogram.total:>18,}" if unit == 1 else ""
    return f"  {name:<16}{cells}{histogram.mean / unit:>12,.1f}{total}"


def _document(path: Path, form: str, known: Figures, asked: Asked) -> dict[str, Any]:
    named = {
        "prompt_tokens": known.input,
        "output_tokens": known.output,
        "turns": known.turns,
        "wait_ms": known.wait_ms,
    }
    return {
        "file": str(path),
        "format": form,
        "calls": known.rows,
        "sessions": known.sessions,
        "sub_agents": known.sub_agents,
        "first_s": known.first_s,
        "last_s": known.last_s,
        **{
            name: {
                **{f"p{100 * share:g}": value for share, value in zip(QUANTILES, each.quantiles(), strict=True)},
                "mean": each.mean,
                "total": each.total,
            }
            for name, each in named.items()
            if each.number
        },
        "largest_request_tokens": known.largest,
        "largest_request_at": known.largest_at,
        "block_tokens": known.block_tokens or None,
        "reuse": {str(block): share for block, share in _reuse(known, asked).items()},
        "is_exact": known.is_exact,
    }
