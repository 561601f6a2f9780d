"""The formats, and which of them a file is of; rows of any of them in one stream, checked for what holds in all.

A format is told by the names in a file's first row. A folder is read as its files one after the other, in order of
their names, as long as all are of one format.
"""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

from sim.errors import ScenarioError
from sim.workload._rows import Row, opening, read_rows, read_table
from sim.workload._traces._call import Call, Format, Reading
from sim.workload._traces.agentic import AGENTIC
from sim.workload._traces.bailian import BAILIAN
from sim.workload._traces.llmservingsim import LLMSERVINGSIM
from sim.workload._traces.mooncake import LMCACHE, MOONCAKE
from sim.workload._traces.nemo_gym import ROLLOUTS, SHAPES
from sim.workload._traces.paired import PAIRED
from sim.workload._traces.tables import AZURE, BURST, RUN
from sim.workload._traces.tracelab import TRACELAB
from sim.workload._traces.turns import TURNS
from sim.workload._traces.weka import WEKA

FORMATS: Final = {
    each.name: each
    for each in (
        PAIRED, MOONCAKE, LMCACHE, AGENTIC, BAILIAN, WEKA, TRACELAB, SHAPES, ROLLOUTS, LLMSERVINGSIM, TURNS, AZURE,
        BURST, RUN,
    )
}  # fmt: skip
_REMEMBERED: Final = 500_000
"""Sessions whose last time is kept: what lies further back is not compared."""


def files_of(path: Path) -> list[Path]:
    """The file, or the files of a folder by name."""
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    if not files:
        raise ScenarioError(f"{path}: holds no files")
    return files


def sniff(path: Path) -> Format:
    """The format of a file by its first row."""
    start = opening(path).lstrip()
    if not start:
        raise ScenarioError(f"{path}: holds no rows")
    is_table = start[:1] not in b"{["
    row = _first(path, is_table=is_table)
    for each in FORMATS.values():
        if each.is_table == is_table and each.fits(row):
            return each
    names = ", ".join(list(row.values)[:8])
    raise ScenarioError(f"{row.where}: is of no known format (it has {names[:120]}): name one of {', '.join(FORMATS)}")


def _first(path: Path, *, is_table: bool) -> Row:
    rows = read_table(path, ()) if is_table else read_rows(path)
    try:
        return next(rows)
    finally:
        rows.close()  # type: ignore[attr-defined]


def find_format(path: Path, name: str) -> Format:
    """The format that a user names, or with ``auto`` the one that the first row is of."""
    return sniff(files_of(path)[0]) if name == "auto" else FORMATS[name]


def read_calls(path: Path, form: Format, reading: Reading) -> Iterator[Call]:
    """All calls of a file or a folder; the time of a session, and of a file with one clock, never runs backwards."""
    for field in fields(Reading):
        if field.name not in form.accepts and getattr(reading, field.name) != field.default:
            raise ScenarioError(f"{field.name}: has no effect on how {form.name} is read")
    last: dict[tuple[str, str], float] = {}
    for file in files_of(path):
        for call in form.read(file, reading):
            at_s = call.at_s
            if at_s is not None:
                key = ("", "") if form.is_open else (call.session, call.line)
                if at_s < last.get(key, at_s):
                    raise call.row.refuse(
                        f"the time {at_s:.15g} s is before that of the call above, {last[key]:.15g} s"
                    )
                if len(last) > _REMEMBERED:
                    last.clear()
                last[key] = at_s
            yield call
