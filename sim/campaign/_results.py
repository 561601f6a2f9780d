"""Results of a real run: one file for each arm of each pair, JSON lines, a header and then a line a request.

    {"schema": "windtunnel.results/1", "seal": "9f3c...", "cell": "slime-group-affinity", "pair": 0, "arm": "group",
     "position": 1, "trace_sha256": "51aa...", "config_sha256": "c04d...", "engines": 2, "engine_restarts": 0,
     "cold_hit_rate": 0.0}
    {"rid": 0, "engine": "http://10.0.0.7:30000", "arrive_s": 12.503, "queue_s": 12.504, "prefill_s": 12.519,
     "first_s": 13.202, "last_s": 15.870, "cached": 0, "recomputed": 0, "preempted": 0, "input_tokens": 8192,
     "output_tokens": 131, "status": "finished"}

Header: ``seal`` is the seal's digest; cell, pair, arm, position (0 runs first), ``trace_sha256`` and ``config_sha256``
are copied from the run's line in ``runs.json`` of the seal. ``engines`` is the size of the fleet. ``engine_restarts``
counts engines that died or were started anew during the run (a gate: the pair is left out). ``cold_hit_rate`` is cached
over prompt tokens of the check that caches are cold, before the run; null where no check was made.

Request: ``rid`` as in the trace. ``engine``: any name or number of the replica that answered; null if none. Times are
seconds of one clock of this run, from any origin: ``arrive_s`` the client submits, ``queue_s`` the engine has it,
``prefill_s`` a batch first takes it, ``first_s`` first token, ``last_s`` last token or when it failed. ``cached``:
prompt tokens found in the prefix cache at first admission; ``recomputed``: tokens computed again after preemptions;
``preempted``: how often it lost its memory; ``status``: finished, failed, rejected, aborted or unfinished. A retried
request has one line, its last try, with the ``arrive_s`` of the first. What was not measured is null: rid, arrive_s,
input_tokens, output_tokens and status must be there, and last_s of a request that finished.

A file ending in .parquet or .csv holds the same requests as columns, its header in a file beside it, whose name is the
same but for ``.header.json``.
"""

import json
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from sim.errors import ScenarioError
from sim.files import replacing
from sim.log.record import STATUS

SCHEMA: Final = "windtunnel.results/1"
HEADER: Final[dict[str, tuple[type, ...]]] = {
    "schema": (str,),
    "seal": (str,),
    "cell": (str,),
    "pair": (int,),
    "arm": (str,),
    "position": (int,),
    "trace_sha256": (str,),
    "config_sha256": (str,),
    "engines": (int,),
    "engine_restarts": (int,),
    "cold_hit_rate": (int, float, type(None)),
}
TIMES: Final = ("arrive_s", "queue_s", "prefill_s", "first_s", "last_s")
COUNTS: Final = ("cached", "recomputed", "preempted", "input_tokens", "output_tokens")
FIELDS: Final = ("rid", "engine", *TIMES, *COUNTS, "status")
NEEDED: Final = ("rid", "arrive_s", "input_tokens", "output_tokens", "status")
REQUESTS: Final[dict[str, Any]] = {
    "rid": pl.Int64,
    "engine": pl.String,
    **dict.fromkeys(TIMES, pl.Float64),
    **dict.fromkeys(COUNTS, pl.Int64),
    "status": pl.String,
}
"""Columns of the requests of a run."""
MOST_S: Final = 1e11
"""No clock of seconds shows more; one of milliseconds since 1970 does."""
SKEW_S: Final = 1e-3
"""Times of a request may be out of order by this much: they are read at different places."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a results file says of its run."""

    seal: str
    cell: str
    pair: int
    arm: str
    position: int
    """Place in the order of the pair's runs, from 0."""
    trace_sha256: str
    config_sha256: str
    engines: int
    engine_restarts: int = 0
    cold_hit_rate: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One arm of one pair, as measured."""

    path: Path
    header: Header
    requests: pl.DataFrame
    """One row a request: ``FIELDS``; what was not measured is null."""

    @property
    def out_of_order(self) -> int:
        """Requests whose times run backwards by more than clocks may differ."""
        steps = [pl.coalesce(TIMES[: i + 1][::-1]) > pl.coalesce(TIMES[i + 1 :]) + SKEW_S for i in range(4)]
        return int(self.requests.select(pl.any_horizontal(step.fill_null(value=False) for step in steps).sum()).item())

    @property
    def lasts_s(self) -> float | None:
        """From the first request that was sent to the last that ended; None where none ended."""
        first, last = self.requests["arrive_s"].min(), self.requests["last_s"].max()
        return last - first if isinstance(first, float) and isinstance(last, float) else None


def write(path: Path, header: Header, requests: pl.DataFrame) -> None:
    """Write one run; ``requests`` has columns named as ``FIELDS``. The file is there whole or not at all."""
    head = {"schema": SCHEMA, **{name: getattr(header, name) for name in HEADER if name != "schema"}}
    with replacing(path) as out:
        out((json.dumps(head) + "\n").encode())
        for row in requests.select(FIELDS).iter_rows(named=True):
            out((json.dumps(row) + "\n").encode())


def read_folder(folder: Path, apart_from: Container[Path] = ()) -> list[Run]:
    """Every results file below a folder, by name; ScenarioError where there is none.

    JSON lines of another schema and tables of other columns are none: traces, the order of runs, logs that were kept
    with the results. Left out are files of ``apart_from`` (absolute paths).
    """
    if not folder.exists():
        raise ScenarioError(f"no results: {folder} does not exist")
    paths = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if _is_results(p))
    paths = [path for path in paths if path.resolve() not in apart_from]
    if not paths:
        raise ScenarioError(f"no results in {folder}: no .jsonl, .parquet or .csv has the schema {SCHEMA}")
    return [read(path) for path in paths]


def _is_results(path: Path) -> bool:
    if not path.is_file() or path.name.startswith("."):
        return False
    if path.suffix == ".jsonl":
        return not _has_another_schema(path)
    return path.suffix in (".parquet", ".csv") and (_header_of(path).is_file() or not _has_other_columns(path))


def _header_of(table: Path) -> Path:
    """The file beside a table that holds its header."""
    return table.with_suffix(".header.json")


def _has_other_columns(table: Path) -> bool:
    """Whether the columns are not those of requests: the order of runs, a table of one's own. Unreadable is no such."""
    try:
        is_parquet = table.suffix == ".parquet"
        columns = set(pl.read_parquet_schema(table) if is_parquet else pl.read_csv(table, n_rows=0).columns)
    except (OSError, pl.exceptions.PolarsError):
        return False
    return not columns.issuperset(NEEDED)


def _has_another_schema(path: Path) -> bool:
    """Whether the first line is JSON of another schema, or of none: a trace, a log. What cannot be read is no such."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return False
    schema = first.get("schema") if isinstance(first, dict) else None
    return not str(schema).startswith(SCHEMA.split("/")[0])


def read(path: Path) -> Run:
    """One results file; ScenarioError, one line with file and line, for whatever is wrong with it."""
    try:
        if path.suffix == ".jsonl":
            lines = _json_lines(path)
            _, first = next(lines)
            header, rows = _header(f"{path}:1", first), [_request(f"{path}:{at}", row) for at, row in lines]
            frame = pl.DataFrame(rows, schema=REQUESTS, orient="row")
        else:
            beside = _header_of(path)
            if not beside.is_file():
                raise ScenarioError(f"{path}: its header is missing: {beside.name} beside it")
            header = _header(str(beside), json.loads(beside.read_bytes()))
            frame = _table(path)
    except StopIteration:
        raise ScenarioError(f"{path}: is empty") from None
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ScenarioError(f"{path}: cannot be read: {reason}") from None
    if frame.is_empty():
        raise ScenarioError(f"{path}: holds no requests")
    twice = frame.filter(pl.col("rid").is_duplicated())
    if not twice.is_empty():
        raise ScenarioError(f"{path}: request {twice['rid'][0]} stands twice: one line a request, its last try")
    return Run(path, header, frame)


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    blank = 0
    with path.open("rb") as file:
        for at, line in enumerate(file, 1):
            if not line.strip():
                blank = blank or at
                continue
            if blank:
                raise ScenarioError(f"{path}:{blank}: is empty, and lines follow")
            if not line.endswith(b"\n"):
                raise ScenarioError(f"{path}:{at}: the last line is cut short: the run did not end, repeat it")
            try:
                row = json.loads(line, parse_constant=_refused)
            except (ValueError, RecursionError) as error:
                raise ScenarioError(f"{path}:{at}: is no line of JSON: {error}") from None
            if not isinstance(row, dict):
                raise ScenarioError(f"{path}:{at}: must be an object")
            yield at, row


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no number; what was not measured is null")


def _header(where: str, row: Any) -> Header:
    if not isinstance(row, dict) or row.get("schema") != SCHEMA:
        raise ScenarioError(f"{where}: the header's schema must be {SCHEMA!r}")
    if unknown := row.keys() - set(HEADER):
        raise ScenarioError(f"{where}: unknown field {min(unknown)!r} in the header; known are {', '.join(HEADER)}")
    for name, kinds in HEADER.items():
        if name not in row:
            raise ScenarioError(f"{where}: the header has no {name}")
        if isinstance(row[name], bool) or not isinstance(row[name], kinds):
            raise ScenarioError(f"{where}: {name} must be {_words(kinds)}, not {row[name]!r}")
    if row["pair"] < 0 or row["engines"] < 1 or row["engine_restarts"] < 0 or row["position"] < 0:
        raise ScenarioError(f"{where}: pair, position and engine_restarts are 0 or more, engines 1 or more")
    if row["cold_hit_rate"] is not None and not 0 <= row["cold_hit_rate"] <= 1:
        raise ScenarioError(f"{where}: cold_hit_rate must lie in 0..1, not {row['cold_hit_rate']!r}")
    return Header(**{name: row[name] for name in HEADER if name != "schema"})


def _words(kinds: Sequence[type]) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", type(None): "null"}
    return " or ".join(names[kind] for kind in kinds)


def _request(where: str, row: Mapping[str, Any]) -> list[Any]:
    if unknown := row.keys() - set(FIELDS):
        raise ScenarioError(f"{where}: unknown field {min(unknown)!r}; known are {', '.join(FIELDS)}")
    values: dict[str, Any] = {name: row.get(name) for name in FIELDS}
    for name in NEEDED:
        if values[name] is None:
            raise ScenarioError(f"{where}: {name} is missing")
    for name in TIMES:
        if values[name] is not None and not _is_number(values[name]):
            raise ScenarioError(f"{where}: {name} must be a number or null, not {values[name]!r}")
        if values[name] is not None and abs(values[name]) > MOST_S:
            raise ScenarioError(f"{where}: {name} must be seconds of a clock, not {values[name]:g}")
    for name in ("rid", *COUNTS):
        value = values[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63):
            raise ScenarioError(f"{where}: {name} must be a whole number, 0 or more, not {value!r}")
    if values["status"] not in STATUS:
        raise ScenarioError(f"{where}: status must be one of {', '.join(STATUS)}, not {values['status']!r}")
    if values["status"] == "finished" and values["last_s"] is None:
        raise ScenarioError(f"{where}: a request that finished has a last_s")
    if values["cached"] is not None and values["cached"] > values["input_tokens"]:
        raise ScenarioError(f"{where}: cached is more than input_tokens")
    engine = values["engine"]
    if engine is not None and (isinstance(engine, bool) or not isinstance(engine, str | int)):
        raise ScenarioError(f"{where}: engine must be a name, a number or null, not {engine!r}")
    values["engine"] = None if engine is None else str(engine)
    values |= {name: float(values[name]) for name in TIMES if values[name] is not None}
    return [values[name] for name in FIELDS]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _table(path: Path) -> pl.DataFrame:
    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
    rows = (_request(f"{path}: row {at}", row) for at, row in enumerate(frame.iter_rows(named=True), 1))
    return pl.DataFrame(list(rows), schema=REQUESTS, orient="row")
