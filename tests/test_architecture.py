"""The floors of ARCHITECTURE.md, held by reading the imports: also those inside functions and those for typing."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = {
    "policies": 0,
    "sim.errors": 0,
    "sim.interrupts": 0,
    "sim.rng": 0,
    "sim.registry": 0,
    "sim.closed": 1,
    "sim.files": 1,
    "sim.specs": 1,
    "sim.training": 1,
    "sim.keys": 1,
    "sim.occupancy": 1,
    "sim.placement": 1,
    "sim.workload": 1,
    "sim.cost": 1,
    "sim.log": 1,
    "sim.stats": 1,
    "sim.charts": 1,
    "sim.instants": 1,
    "sim.foreign": 2,
    "sim.engine": 2,
    "sim.metrics": 2,
    "sim.steady": 2,
    "sim.moves": 2,
    "sim.calibration": 2,
    "sim.blocking": 3,
    "sim.router": 3,
    "sim.client": 3,
    "sim.trainer": 3,
    "sim.report": 3,
    "sim.scenario": 4,
    "sim.membership": 4,
    "sim.replication": 4,
    "sim.worker": 5,
    "sim.sweep": 5,
    "sim.results": 2,
    "sim.conform": 5,
    "sim.export": 5,
    "sim.validation": 5,
    "sim.review": 5,
    "sim.campaign": 5,
    "sim.calibration.check": 5,
    "sim.calibration.published": 5,
    "sim.calibration.evidence": 5,
    "sim.calibration.recording": 5,
    "sim.cli": 6,
}
SIDEWAYS = {
    ("sim.registry", "sim.errors"),  # an unknown kind is a user's error
    ("sim.log", "sim.cost"),  # busy time is divided by the cost model's own terms
    ("sim.metrics", "sim.moves"),  # measures take sessions that moved from there
    ("sim.client", "sim.router"),  # a client hands its requests to a router
    ("sim.trainer", "sim.client"),  # a trainer starts and aborts groups of a client
    ("sim.replication", "sim.membership"),  # which changes the fleet that a replication builds
    ("sim.replication", "sim.scenario"),  # a replication is given a cell
    ("sim.calibration.evidence", "sim.calibration.published"),  # tables of runs that are replayed
    ("sim.calibration.recording", "sim.calibration.published"),  # and their errors as data
    ("sim.calibration.recording", "sim.calibration.check"),
    ("sim.calibration.recording", "sim.calibration.evidence"),
    ("sim.validation", "sim.sweep"),  # a case is run as any scenario is
    ("sim.campaign", "sim.export"),  # what is sealed is exported first
    ("sim.campaign", "sim.review"),  # a prediction is a review's, and a score is written as one
    ("sim.review", "sim.export"),  # it says how the arms would be started
    ("sim.review", "sim.sweep"),  # a review runs what is not stored
    ("sim.review", "sim.validation"),  # and shows the record of what was run against published values
    ("sim.sweep", "sim.worker"),  # a sweep deals its replications to workers
}
"""Imports within one floor that are meant, each with its reason."""

ALLOWED = {
    "simpy": {"sim.instants"},
    "polars": {
        "sim.log.frames",
        "sim.log.store",
        "sim.metrics",
        "sim.steady",
        "sim.moves",
        "sim.charts",
        "sim.report",
        "sim.sweep",
        "sim.results",
        "sim.validation._measures",
        "sim.review",
        "sim.campaign",
    },
    "altair": {"sim.charts"},
    "vl_convert": {"sim.charts.page"},
    "jinja2": {"sim.review"},
    "ruamel": {"sim.scenario._yaml", "sim.cost._profiles"},
    "scipy": {"sim.campaign", "sim.stats", "sim.calibration.fit", "sim.conform._counts"},
    "pydantic": {"sim.closed", "sim.scenario"},
    "click": {"sim.cli"},
    "rich": {"sim.cli", "sim.report"},
    "blake3": {"policies"},
    "xxhash": {"policies"},
    "ray": {"sim.sweep._ray"},
}
"""Who may import a library: a module, or all modules of a package."""


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for package in ("policies", "sim") for path in sorted((ROOT / package).rglob("*.py"))}
FACADE = "sim"
"""``sim/__init__.py`` offers the API lazily: it stands below all that import it and above all that it imports."""


@cache
def imports(module: str) -> frozenset[str]:
    """Full names of what a module imports anywhere in its file, as modules where they are ours."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(name if name in MODULES else str(node.module) for name in names)
    return frozenset(found)


def part(module: str) -> str:
    """The entry of FLOORS that a module belongs to."""
    holders = [name for name in FLOORS if module == name or module.startswith(f"{name}.")]
    assert holders, f"{module} has no floor: give it one in {Path(__file__).name} and in ARCHITECTURE.md"
    return max(holders, key=len)


def ours(module: str) -> set[str]:
    return {name for name in imports(module) if name in MODULES and name not in (FACADE, module)}


def members(names: set[str]) -> set[str]:
    return {m for m in MODULES if any(m == name or m.startswith(f"{name}.") for name in names)}


BELOW = [module for module in MODULES if module != FACADE]


@pytest.mark.parametrize("module", BELOW)
def test_imports_go_down(module: str) -> None:
    """A module imports its own part, lower floors, and sideways only what is listed."""
    here = part(module)
    for other in sorted(ours(module)):
        there = part(other)
        fine = here == there or FLOORS[there] < FLOORS[here] or (here, there) in SIDEWAYS
        assert fine, f"{module} (floor {FLOORS[here]}) imports {other} (floor {FLOORS[there]})"


def test_every_floor_and_exception_is_in_use() -> None:
    """No entry of the tables outlives the code that it stands for."""
    parts = {part(module) for module in BELOW}
    assert set(FLOORS) == parts
    assert {(part(m), part(o)) for m in BELOW for o in ours(m)} >= SIDEWAYS
    for library, users in ALLOWED.items():
        for user in users:
            assert any(library == name.split(".")[0] for m in members({user}) for name in imports(m)), (library, user)


def test_no_import_circle() -> None:
    """Taking away modules that import nothing left, again and again, leaves none."""
    left = {module: ours(module) for module in BELOW}
    while free := {module for module, needs in left.items() if not needs & left.keys()}:
        left = {module: needs for module, needs in left.items() if module not in free}
    assert not left, f"in a circle, or above one: {sorted(left)}"


@pytest.mark.parametrize("library", ALLOWED)
def test_libraries_stay_in_their_place(library: str) -> None:
    """SimPy in the shell, polars behind the log, altair in the charts, YAML at the edges."""
    users = {module for module in MODULES if any(name.split(".")[0] == library for name in imports(module))}
    assert users <= members(ALLOWED[library])


def test_policies_know_nothing() -> None:
    """A policy imports the standard library, two hashing wheels and its neighbours."""
    allowed = set(sys.stdlib_module_names) | {"policies", "blake3", "xxhash"}
    for module in members({"policies"}):
        assert {name.split(".")[0] for name in imports(module)} <= allowed, module


def test_policies_have_no_hidden_chance() -> None:
    """No generator of their own, no clock, no threads: every random choice goes through ``pick``."""
    for module in members({"policies"}):
        assert not imports(module) & {"random", "secrets", "time", "datetime", "threading", "uuid"}, module


def test_the_ground_needs_no_scenario_libraries() -> None:
    """The helpers of every floor stand on the standard library and numpy alone."""
    allowed = set(sys.stdlib_module_names) | {"sim", "policies", "numpy"}
    for module in members({"sim.errors", "sim.rng", "sim.registry", "sim.workload"}):
        assert {name.split(".")[0] for name in imports(module)} <= allowed, module


def test_dependencies_are_those_that_are_imported() -> None:
    """What the project asks for is what it uses, no more and no less."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {re.split(r"[<>=]", line)[0] for line in project["dependencies"]}
    names = {"ruamel": "ruamel.yaml", "vl_convert": "vl-convert-python"}
    used = {name.split(".")[0] for module in MODULES for name in imports(module)} - set(sys.stdlib_module_names)
    # pydantic pins its core to the patch level: the two are one.
    used -= {"sim", "policies", "pydantic_core"}
    extras = {re.split(r"[<>=]", line)[0] for line in project["optional-dependencies"]["ray"]}
    assert extras <= used
    used -= extras
    assert {names.get(name, name) for name in used} == asked


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import sim", {"numpy", "polars", "altair", "scipy", "simpy", "pydantic", "ruamel"}),
        ("import sim.cli", {"numpy", "polars", "altair", "scipy", "simpy", "pydantic", "ruamel"}),
        ("import sim.replication", {"polars", "altair", "scipy"}),
        ("import sim.worker", {"altair", "scipy"}),
    ],
)
def test_slow_imports_are_lazy(statement: str, heavy: set[str]) -> None:
    """Help and completion answer at once, and a simulating process loads no analysis."""
    code = f"{statement}; import sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not heavy & set(out.stdout.split())
