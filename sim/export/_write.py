"""Writes the files of an export.

One trace a pair and format: in a pair all arms send the same requests at the same times, and differ in the key that
they send and in the router. Beside the traces stand the order of runs and the manifest, which names every other file
with its size and digest. Nothing here depends on the clock or the machine: exporting again gives the same bytes.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sim
from sim.blocking import blocks
from sim.errors import ScenarioError
from sim.export._manifest import (
    MANIFEST,
    RUN_ORDER,
    SCHEMA,
    changes,
    configured,
    digest_of,
    files_of,
    in_header,
    is_inside,
)
from sim.export._order import order_of_runs, run_order, trace_name
from sim.placement import planned
from sim.replication import keys_of
from sim.rng import Streams
from sim.scenario import Cell, Scenario
from sim.workload._model import Workload
from sim.workload._traces import paired
from sim.workload._traces._write import WRITERS, losses

FORMATS = ("windtunnel", *WRITERS)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is exported."""

    formats: tuple[str, ...]
    pairs: int
    """As many replications, a file of each."""
    block_tokens: int
    """Tokens of a block in formats that have blocks."""
    product: str | None = None
    """The router to configure, of those that have the rule; absent: as the scenario says, else the one of most arms."""
    urls: tuple[str, ...] = ()
    """Addresses of the real engines, which rings of a router hash; absent: named when the router is started."""
    first: int = 0
    """The first replication; those before it are not written."""


def export(scenario: Scenario, out: Path, plan: Plan) -> list[Path]:
    """Write the files of a scenario into a folder; all of them or none. Those of an earlier export go.

    ScenarioError where the folder holds anything else.
    """
    _refuse_foreign(out)
    cells = _one_workload(scenario)
    order = order_of_runs(list(cells), plan.pairs, scenario.seed, plan.first)
    arms, configurations = configured(scenario, plan.product, plan.urls)
    files: list[dict[str, Any]] = []
    totals: list[dict[str, int]] = []
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".export-") as folder:
        placements: list[dict[str, str]] = []
        for pair in range(plan.first, plan.first + plan.pairs):
            workload = _generate(scenario, pair)
            totals.append(workload.summary())
            keys = {
                name: keys_of(cell, workload, Streams(cell.seed, pair), plan.urls or None)
                for name, cell in cells.items()
            }
            placements.append({name: _placement(cell, keys[name], pair) for name, cell in cells.items()})
            header = {
                "generator": f"windtunnel {sim.__version__}",
                "scenario": scenario.name,
                "seed": scenario.seed,
                "pair": pair,
                "tokenizer": None,
                "arms": [in_header(arm) for arm in arms],
                "order": order[pair - plan.first],
            }
            deadline_s = cells[scenario.baseline].client.deadline_s
            for form in plan.formats:
                lines = _lines(workload, form, plan.block_tokens) or paired.lines(workload, header, keys, deadline_s)
                name = trace_name(form, pair)
                files.append({"name": name, "format": form, "pair": pair, **_write(Path(folder) / name, lines)})
        rows = run_order(order, placements, plan.formats[0], plan.first)
        files.append({"name": RUN_ORDER, **_write(Path(folder) / RUN_ORDER, rows)})
        for name, configuration in configurations.items():
            for path, text in files_of(name, configuration).items():
                size = _write(Path(folder) / path, text.splitlines(keepends=True))
                files.append({"name": path, "arm": name, **size})
        manifest = {
            "schema": SCHEMA,
            "windtunnel": sim.__version__,
            "scenario": scenario.name,
            "seed": scenario.seed,
            **({"first_pair": plan.first} if plan.first else {}),
            "block_tokens": plan.block_tokens,
            "baseline": scenario.baseline,
            "changes": changes(scenario),
            "arms": arms,
            "order": order,
            "placements": placements,
            "workload": totals,
            "files": files,
            "leaves_out": {form: losses(workload, form, plan.block_tokens) for form in plan.formats if form in WRITERS},
        }
        text = json.dumps(manifest | {"digest": digest_of(manifest)}, indent=2) + "\n"
        (Path(folder) / MANIFEST).write_text(text, encoding="utf-8")
        made = [each["name"] for each in files] + [MANIFEST]
        for stale in _named_by(out / MANIFEST) - set(made):
            (out / stale).unlink(missing_ok=True)
        return [_put(Path(folder) / name, out / name) for name in made]


def _refuse_foreign(out: Path) -> None:
    """Files of others are not mixed with those of an export: a folder is new, empty, or holds an earlier export."""
    is_mixed = out.is_dir() and any(not each.name.startswith(".") for each in out.iterdir())
    if is_mixed and not _named_by(out / MANIFEST):
        raise ScenarioError(f"{out} is not empty and holds no export: choose another folder")


def _put(made: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    return made.replace(place)


def _named_by(manifest: Path) -> set[str]:
    """Names of the files that a manifest lists; none where it is no manifest of an export."""
    try:
        names = {str(each["name"]) for each in json.loads(manifest.read_bytes())["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {name for name in names if is_inside(name)}


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


def _placement(cell: Cell, keys: list[str], pair: int) -> str:
    """The placement class that is planned for an arm in a pair; empty where its placement is not planned."""
    distinct = len(set(keys))
    if cell.client.blocking == "none" or not all(keys):
        return ""
    if not blocks(cell.router.policy, cell.client.header or "", distinct, cell.engines):
        return ""
    return planned(distinct, cell.engines, pair).name


def _lines(workload: Workload, form: str, block_tokens: int) -> Iterable[str] | None:
    """The lines of a load generator's format; None for this program's own."""
    if form not in WRITERS:
        return None
    return (json.dumps(row) + "\n" for row in WRITERS[form](workload, block_tokens))


def _write(path: Path, lines: Iterable[str]) -> dict[str, Any]:
    """Write lines; their number, and size and digest of the file."""
    digest, size, rows = hashlib.sha256(), 0, 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in lines:
            data = line.encode()
            file.write(data)
            digest.update(data)
            size, rows = size + len(data), rows + 1
    return {"rows": rows, "bytes": size, "sha256": digest.hexdigest()}
