"""Finds a scenario's file: by path, or by name among those that come with the package."""

from pathlib import Path
from typing import Final

import sim
from sim import registry
from sim.errors import ScenarioError

SHIPPED: Final = Path(sim.__file__).parent.parent / "scenarios"
"""Scenarios that come with the package; they are found by name."""


def shipped() -> dict[str, Path]:
    """Shipped scenarios by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def locate(path_or_name: str | Path) -> Path:
    """The file of a scenario: a path, or the name of a shipped one with or without ``.yaml``."""
    path = Path(path_or_name)
    if "\0" in str(path) or path.is_dir():
        raise ScenarioError(f"{str(path)!r} is not a scenario file")
    if path.exists():
        return path
    known = shipped()
    name = str(path_or_name).removesuffix(".yaml")
    if name in known:
        return known[name]
    hint = registry.suggest(Path(name).name, known)
    raise ScenarioError(f"no scenario {str(path_or_name)!r}, neither a file nor the name of a shipped one; {hint}")
