"""The workload of a scenario as files for the real benchmark: paired traces with the keys of every arm, and a manifest.

One file a pair and format. In a pair all arms send the same requests at the same times; they differ in the key that
they send and in the router. The order of runs alternates, so that drift of the machine falls on all arms alike. Nothing
here depends on the clock or the machine: exporting again gives the same bytes.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sim
from sim.errors import ScenarioError
from sim.replication import keys_of
from sim.rng import Streams
from sim.scenario import Cell, Scenario
from sim.workload._model import Workload
from sim.workload._traces import paired
from sim.workload._traces._write import WRITERS, losses

FORMATS = ("windtunnel", *WRITERS)
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is exported."""

    formats: tuple[str, ...]
    pairs: int
    """Replications 0 to ``pairs`` - 1, a file of each."""
    block_tokens: int
    """Tokens of a block in formats that have blocks."""


def export(scenario: Scenario, out: Path, plan: Plan) -> list[Path]:
    """Write the files of a scenario into a folder; all of them or none. Those of an earlier export go."""
    cells = _one_workload(scenario)
    files: list[dict[str, Any]] = []
    totals: list[dict[str, int]] = []
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".export-") as folder:
        for pair in range(plan.pairs):
            workload = _generate(scenario, pair)
            totals.append(workload.summary())
            for form in plan.formats:
                path = Path(folder) / f"{form}-{pair}.jsonl"
                size = _write(path, _lines(scenario, cells, workload, pair, form, plan.block_tokens))
                files.append({"name": path.name, "format": form, "pair": pair, **size})
        manifest = {
            "windtunnel": sim.__version__,
            "scenario": scenario.name,
            "seed": scenario.seed,
            "block_tokens": plan.block_tokens,
            "arms": _arms(cells),
            "order": [list(cells) if pair % 2 == 0 else list(cells)[::-1] for pair in range(plan.pairs)],
            "workload": totals,
            "files": files,
            "leaves_out": {form: losses(workload, form, plan.block_tokens) for form in plan.formats if form in WRITERS},
        }
        last = Path(folder) / MANIFEST
        last.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        made = [Path(folder) / each["name"] for each in files] + [last]
        for stale in _named_by(out / MANIFEST) - {path.name for path in made}:
            (out / stale).unlink(missing_ok=True)
        return [path.replace(out / path.name) for path in made]


def _named_by(manifest: Path) -> set[str]:
    """Plain names of the files that a manifest lists; none where it is no manifest of an export."""
    try:
        names = {str(each["name"]) for each in json.loads(manifest.read_bytes())["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if Path(name).name == name}


def _one_workload(scenario: Scenario) -> dict[str, Cell]:
    """The arms, which must send the same requests."""
    base = scenario.arms[scenario.baseline]
    for name, cell in scenario.arms.items():
        if cell.resolved["workload"] != base.resolved["workload"]:
            raise ScenarioError(
                f"arm {name} has another workload than {scenario.baseline}: export them one by one, --arm"
            )
    return scenario.arms


def _generate(scenario: Scenario, pair: int) -> Workload:
    cell = scenario.arms[scenario.baseline]
    workload: Workload = cell.workload.generate(Streams(cell.seed, pair), cell.base)
    return workload


def _arms(cells: dict[str, Cell]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "cell": cell.hash,
            "client": cell.resolved["client"],
            "key_header": cell.client.header,
            "policy": cell.resolved["router"]["policy"],
        }
        | ({} if cell.training is None else {"training": cell.resolved["training"]})
        for name, cell in cells.items()
    ]


def _lines(
    scenario: Scenario, cells: dict[str, Cell], workload: Workload, pair: int, form: str, block_tokens: int
) -> Iterable[str]:
    if form in WRITERS:
        return (json.dumps(row) + "\n" for row in WRITERS[form](workload, block_tokens))
    header = {
        "generator": f"windtunnel {sim.__version__}",
        "scenario": scenario.name,
        "seed": scenario.seed,
        "pair": pair,
        "tokenizer": None,
        "arms": _arms(cells),
    }
    keys = {name: keys_of(cell, workload, Streams(cell.seed, pair)) for name, cell in cells.items()}
    return paired.lines(workload, header, keys, cells[scenario.baseline].client.deadline_s)


def _write(path: Path, lines: Iterable[str]) -> dict[str, Any]:
    """Write lines; their number, and size and digest of the file."""
    digest, size, rows = hashlib.sha256(), 0, 0
    with path.open("wb") as file:
        for line in lines:
            data = line.encode()
            file.write(data)
            digest.update(data)
            size, rows = size + len(data), rows + 1
    return {"rows": rows, "bytes": size, "sha256": digest.hexdigest()}


@contextmanager
def replacing(path: Path) -> Iterator[Callable[[bytes], int]]:
    """Write a file beside its place and put it there when it is whole; a path that ends in .gz is packed."""
    import gzip

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".convert-")
    try:
        with os.fdopen(handle, "wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    yield packed.write
            else:
                yield file.write
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise
