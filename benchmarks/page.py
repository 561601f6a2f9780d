"""The measured rows as a table, in a terminal or in docs/performance.md."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.numbers import Row

HEAD = ("", "what", "at least", "aim", "CPU", "best", "wall", "best", "of at least", "of aim")
START, END = "<!-- measured -->", "<!-- end of measured -->"


def table(rows: Sequence[Row]) -> str:
    """A Markdown table, aligned so that it also reads well as it is."""
    lines = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    left = [i < 2 for i in range(len(HEAD))]
    rule = tuple(
        f"{'-' * width}" if is_left else f"{'-' * (width - 1)}:" for width, is_left in zip(widths, left, strict=True)
    )
    padded = [
        [
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(line, widths, left, strict=True)
        ]
        for line in [lines[0], rule, *lines[1:]]
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def machine() -> str:
    """What it was measured on, in general terms."""
    return f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"


def document(rows: Sequence[Row]) -> dict[str, object]:
    """All rows as plain data."""
    return {
        "machine": machine(),
        "rows": [
            {
                "number": row.number,
                "what": row.what,
                "unit": row.unit,
                "at_least": row.at_least,
                "aim": row.aim,
                "median": asdict(row.median),
                "best": asdict(row.best),
            }
            for row in rows
        ],
    }


def write(path: Path, rows: Sequence[Row]) -> None:
    """Replace the measured part of a page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    text = f"{before}{START}\nMeasured on {machine()}.\n\n{table(rows)}\n{END}{after}"
    path.write_text(text, encoding="utf-8")


def _cells(row: Row) -> tuple[str, ...]:
    targets = (row.at_least, row.aim)
    shares = ("" if target is None else f"{row.share(target):.2f}" for target in targets)
    clocks = (row.median.cpu, row.best.cpu, row.median.wall, row.best.wall)
    return (
        row.number,
        row.what if row.unit in row.what else f"{row.what}, {row.unit}",
        *("" if target is None else f"{target:,.10g}" for target in targets),
        *(_short(value) for value in clocks),
        *shares,
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
