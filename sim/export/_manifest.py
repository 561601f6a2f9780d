"""What the manifest of an export holds, and how its values follow from a scenario.

An arm stands there with all that its files depend on, so that they can be made again; the workload is in the traces.
Names of files are relative to the manifest's folder, with slashes.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any, Final

from policies._protocol import EngineView, FleetView, RequestView, pick_first
from sim.errors import ScenarioError
from sim.export._arms import Configuration, configure, facts_of
from sim.export._facts import choose
from sim.scenario import Cell, Scenario, differences, kv_tokens

MANIFEST: Final = "manifest.json"
RUN_ORDER: Final = "run_order.csv"
SCHEMA: Final = "windtunnel.export/1"
SIMULATED: Final = "simulated"
"""The engines that keys are planned for, where nobody named real ones and the rule hashes addresses."""


def changes(scenario: Scenario) -> dict[str, list[dict[str, Any]]]:
    """By arm, the fields that differ from the baseline."""
    return {
        name: [{"field": path, "baseline": one, "arm": other} for path, (one, other) in found.items()]
        for name, found in differences(scenario).items()
    }


def configured(
    scenario: Scenario, product: str | None, urls: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[str, Configuration]]:
    """What the manifest says of each arm, and its files."""
    cells = scenario.arms
    _check_urls(scenario, urls)
    wanted = {name: _asked(scenario, name, product) for name in cells}
    policies = {name: cell.resolved["router"]["policy"] for name, cell in cells.items()}
    fleets = {name: [kind.engine.preset for kind in cell.fleet] for name, cell in cells.items()}
    chosen = choose(policies, fleets, wanted)
    arms, made = [], {}
    for name, cell in cells.items():
        found = chosen[name]
        facts = _arm(cell) | {"product": found and asdict(found), "engines": list(urls)}
        facts["keys_planned_for"] = _planned_for(cell, urls)
        made[name] = configure(facts_of(facts))
        arms.append(facts | derived(made[name]))
    return arms, made


def derived(made: Configuration) -> dict[str, Any]:
    """What the manifest says of the files of an arm."""
    return {"router_config": made.router, "router_config_hash": made.router_hash, "impossible": made.impossible}


def files_of(arm: str, made: Configuration) -> dict[str, str]:
    """The files of an arm, by their names in the folder."""
    return {f"arms/{arm}/{name}": text for name, text in made.files.items()}


def _asked(scenario: Scenario, arm: str, product: str | None) -> tuple[str | None, str | None]:
    """Product and version that the command line or the scenario names for an arm."""
    router = scenario.documents[arm].data.get("router") or {}
    said = router.get("product")
    if product is not None:
        return product, router.get("version") if product == said else None
    return said, router.get("version")


def _check_urls(scenario: Scenario, urls: Sequence[str]) -> None:
    for name, cell in scenario.arms.items():
        if urls and len(urls) != cell.engines:
            raise ScenarioError(f"arm {name} has {cell.engines} engines, and {len(urls)} addresses are given")
    if len(set(urls)) != len(urls):
        raise ScenarioError("two engines have the same address")
    for url in urls:
        if not url.startswith(("http://", "https://", "grpc://")) or not url.isprintable() or " " in url:
            raise ScenarioError(f"an address of an engine begins with http://, https:// or grpc://, unlike {url!r}")


def _arm(cell: Cell) -> dict[str, Any]:
    """What the manifest says of an arm; the workload is in the traces."""
    return {
        "name": cell.arm,
        "cell": cell.hash,
        "client": cell.resolved["client"],
        "key_header": cell.client.header,
        "key_rule": cell.client.scope,
        "policy": cell.resolved["router"]["policy"],
        "router": cell.resolved["router"],
        "fleet": cell.resolved["fleet"],
        "kv_tokens": {kind.name: kv_tokens(kind, cell.base) for kind in cell.fleet},
    } | ({} if cell.training is None else {"training": cell.resolved["training"]})


_IN_HEADER: Final = ("name", "cell", "client", "key_header", "key_rule", "policy", "training", "router_config_hash")


def in_header(arm: dict[str, Any]) -> dict[str, Any]:
    """What the first line of a trace says of an arm."""
    return {key: arm[key] for key in _IN_HEADER if key in arm}


def _planned_for(cell: Cell, urls: Sequence[str]) -> str | None:
    """For which engines the keys of an arm are planned: a ring hashes their addresses, a modulo takes any."""
    if cell.client.blocking == "none" or not cell.router.policy.places_by_hash:
        return None
    header, keys = cell.client.header or "", [f"key {number}" for number in range(64)]
    placed = []
    for host in ("one", "other"):
        policy, views = cell.router.make_policy(), [EngineView(at, f"http://{host}-{at}") for at in range(cell.engines)]
        fleet = FleetView(views, [*views])
        policy.start(fleet)
        chosen = [policy.choose(RequestView(0, {header: key}, ((0, 1),), 1), fleet, 0.0, pick_first)[0] for key in keys]
        placed.append([each and each.index for each in chosen])
    if placed[0] == placed[1]:
        return "any"
    return "named" if urls else SIMULATED


def digest_of(manifest: dict[str, Any]) -> str:
    """Digest of a manifest's values, but for the digest itself; blanks and line ends do not matter."""
    values = {key: value for key, value in manifest.items() if key != "digest"}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_inside(name: str) -> bool:
    """Whether a name of a manifest stays in the folder of the manifest."""
    path = PurePosixPath(name)
    return str(path) == name and not path.is_absolute() and ".." not in path.parts


def size_of(text: str) -> dict[str, Any]:
    """What the manifest says of a file with this text."""
    data = text.encode()
    return {"rows": data.count(b"\n"), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
