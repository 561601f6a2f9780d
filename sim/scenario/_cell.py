"""A cell: a world with every choice fixed, and the hash that names its results.

The hash covers the resolved cell, the bytes of every file that it reads, and a results version; not pairs, metrics,
jobs or paths. A file counts by its bytes wherever it lies, so moving a scenario and its files changes nothing.
"""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from policies._protocol import Policy
from sim import foreign, registry
from sim.closed import Part, plain
from sim.errors import ScenarioError
from sim.router.spec import Around, RouterSpec
from sim.scenario._errors import placed
from sim.scenario._fleet import EngineType, Membership, membership, memory_files, settle
from sim.scenario._model import CellModel, validate_cell
from sim.scenario._yaml import Document, Origin, Place
from sim.specs import DEFAULT_HEADER, ClientSpec, NoiseSpec
from sim.training import TrainingSpec

RESULTS_VERSION: Final = 3
"""Raised when the same cell gives other numbers than before."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm, ready to run: replication i of it is a function of this and i alone."""

    arm: str
    seed: int
    fleet: tuple[EngineType, ...]
    """Types of engines; one where all are alike. Engines are numbered type after type."""
    membership: Membership
    noise: NoiseSpec
    workload: Any
    client: ClientSpec
    router: RouterSpec
    training: TrainingSpec | None
    base: Path
    """Folder that relative files are found from."""
    resolved: dict[str, Any]
    """The cell as plain data with every default named; ``from_resolved`` gives the same cell again."""
    hash: str

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.resolved, self.base, self.arm, self.hash)

    @classmethod
    def from_resolved(cls, resolved: dict[str, Any], base: Path, arm: str = "") -> "Cell":
        """The cell that plain data describes, as a manifest or another process holds it."""
        return _rebuild(resolved, base, arm, None)

    def reseeded(self, seed: int) -> "Cell":
        """The same world under another seed."""
        return Cell.from_resolved({**self.resolved, "seed": seed}, self.base, self.arm)

    @property
    def engines(self) -> int:
        """Number of engines at the beginning."""
        return sum(kind.count for kind in self.fleet)

    @property
    def files(self) -> list[Path]:
        """Every file that a replication reads: of the workload, the cost model and the policy."""
        return [path for _, path in _files(self)]


def _files(cell: Cell) -> list[tuple[Place, Path]]:
    """Files that a cell reads, with the part of the scenario that names each."""
    workload, policy = ("workload",), ("router", "policy")
    costs = [(*kind.place, "cost") for kind in cell.fleet]
    with placed(*workload):
        files: list[tuple[Place, Path]] = [(workload, path) for path in cell.workload.files(cell.base)]
    for cost, kind in zip(costs, cell.fleet, strict=True):
        with placed(*cost):
            files += [(cost, path) for path in kind.engine.cost.files(**kind.hardware, base=cell.base)]
        with placed(*kind.place):
            files += [((*kind.place, "model"), path) for path in memory_files(kind, cell.base)]
    for place in (workload, *costs, policy):
        part: Any = cell.resolved
        for key in place:
            part = part[key]
        if registry.is_file(part["kind"]):
            files.append((place, registry.file_of(part["kind"], cell.base)))
    return files


def _rebuild(resolved: dict[str, Any], base: Path, arm: str, known_hash: str | None) -> Cell:
    data = {key: value for key, value in resolved.items() if key != "seed"}
    model = validate_cell(Document(data, {(): Origin("resolved cell", 0, ())}), base)
    return make(model, arm, resolved["seed"], base, known_hash)


def make(model: CellModel, arm: str, seed: int, base: Path, known_hash: str | None = None) -> Cell:
    """The cell of a validated model: defaults that depend on other values are filled in."""
    kinds, fleet = settle(model.fleet, base)
    policy: Part = model.router.policy
    with placed("router", "policy", "kind"):
        foreign.check_policy(policy.value)
    client = _client(model.client, policy.value)
    around = Around(**{each.name: getattr(model.router, each.name) for each in fields(Around)})
    resolved = {
        "fleet": fleet,
        "workload": model.workload.resolved,
        "client": {**plain(client), "header": model.client.header},  # what follows from the policy is no difference
        "router": {"policy": policy.resolved, **plain(around)},
        "training": plain(model.training),
        "seed": seed,
    }
    cell = Cell(
        arm=arm,
        seed=seed,
        fleet=kinds,
        membership=membership(model.fleet, kinds),
        noise=model.fleet.noise,
        workload=foreign.guard(model.workload.value),
        client=client,
        router=RouterSpec(policy.value, policy.parameters, around),
        training=model.training,
        base=base,
        resolved=resolved,
        hash=known_hash or "",
    )
    return cell if known_hash else replace(cell, hash=_hash(cell))


def _client(client: ClientSpec, policy: Policy) -> ClientSpec:
    header = client.header or next(iter(policy.key_headers), DEFAULT_HEADER)
    return replace(client, key_scope=client.scope, header=header.lower())


def _hash(cell: Cell) -> str:
    digests: dict[Path, str] = {}
    for place, path in _files(cell):
        with placed(*place):
            digests[path.resolve()] = _digest(path)
    world = _by_content(cell.resolved, cell.base, digests)
    document = {"results_version": RESULTS_VERSION, "cell": world, "files": sorted(digests.values())}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest(path: Path) -> str:
    try:
        stat = path.stat()
        return _read_digest(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from None


@lru_cache(maxsize=256)
def _read_digest(path: Path, *_version: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _by_content(value: Any, base: Path, digests: dict[Path, str]) -> Any:
    """The value with the name of each file that is read replaced by the digest of its bytes."""
    if isinstance(value, dict):
        return {key: _by_content(each, base, digests) for key, each in value.items()}
    if isinstance(value, list):
        return [_by_content(each, base, digests) for each in value]
    if not isinstance(value, str):
        return value
    name, colon, rest = value.partition(":") if registry.is_file(value) else (value, "", "")
    digest = digests.get((base / name).resolve()) if name and "\0" not in name else None
    return f"{digest}{colon}{rest}" if digest else value
