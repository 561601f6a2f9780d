"""Presets: workloads by name, with the client that goes with them, laid under what a scenario says itself.

    workload: {preset: swe-agent, groups: 32}

A preset is a file of ``sim/workload/presets`` with blocks of a scenario that it fills in; its comments say what each
value rests on. Whatever the scenario says comes first, key by key, as an arm comes before the base.
"""

from pathlib import Path
from typing import Any, Final

from sim import registry, workload
from sim.errors import ScenarioError
from sim.scenario import _merge
from sim.scenario._yaml import Document, Origin, read

KEY: Final = "preset"
_FOLDER: Final = Path(workload.__file__).parent / "presets"
_CAPS: Final = ("max_sessions_in_flight", "max_sessions_per_engine")
"""Two ways to say one cap: a scenario that gives either has done with the preset's."""
_OF_LOGNORMAL: Final = {
    "output_tokens": "variance_share_between_groups",
    "turns": "turns_variance_share_between_groups",
}
"""What goes with a law only while that is lognormal: a scenario that gives another law has done with it."""


def names() -> list[str]:
    """Every preset."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def load(name: str) -> dict[str, Any]:
    """The blocks of a preset."""
    data: dict[str, Any] = read(_FOLDER / f"{name}.yaml", name).data
    return data


def about(name: str) -> str:
    """What a preset's comments say."""
    lines = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))


def expand(document: Document) -> Document:
    """The blocks of a cell with the preset that the workload names laid under them; without one, as they are."""
    block = document.data.get("workload")
    if not isinstance(block, dict) or KEY not in block:
        return document
    name = block[KEY]
    if not isinstance(name, str) or name not in names():
        raise _refuse(document, f"unknown preset {name!r}; {registry.suggest(name, names())}")
    blocks = load(name)
    kind = blocks["workload"]["kind"]
    if block.get("kind", kind) != kind:
        raise _refuse(document, f"{name} is of kind {kind}, not {block['kind']}")
    for law, share in _OF_LOGNORMAL.items():
        own_law = block.get(law, {})
        if not isinstance(own_law, dict) or own_law.get("kind", "lognormal") != "lognormal":
            blocks["workload"].pop(share, None)
    client = document.data.get("client")
    if isinstance(client, dict) and any(client.get(cap) is not None for cap in _CAPS):
        blocks["client"] = {key: value for key, value in blocks.get("client", {}).items() if key not in _CAPS}
    below = Document(blocks, {path: Origin(f"preset {name}:", 0, path) for path in _paths(blocks)})
    own = {key: value for key, value in block.items() if key != KEY}
    return _merge.merge(below, Document({**document.data, "workload": own}, document.origins))


def _refuse(document: Document, message: str) -> ScenarioError:
    return ScenarioError(f"{document.origin(('workload', KEY))}: {message}")


def _paths(value: Any) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return []
    return [path for key, each in value.items() for path in [(key,), *((key, *rest) for rest in _paths(each))]]
