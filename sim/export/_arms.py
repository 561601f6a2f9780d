"""The files that start an arm: its router, its engines, its client.

What they depend on is in the manifest (``Facts``), so a reader of the folder can make them again and see what was
changed by hand. Nothing in them names the arm: two arms that are configured alike have equal files.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.export._client import client_file
from sim.export._engines import engine_files
from sim.export._facts import Chosen, Facts
from sim.export._program import Program
from sim.export.products import nemo_gym, none, sglang_router, slime, smg, vllm_router

_PRODUCTS = {each.NAME: each for each in (sglang_router, smg, vllm_router, slime, nemo_gym)}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The files of an arm."""

    files: dict[str, str]
    """Name -> text."""
    router: str
    """Name of the file that configures the router."""
    impossible: list[str]
    """What no product can have as it was simulated, one line each."""

    @property
    def router_hash(self) -> str:
        """Digest of the router's file."""
        return hashlib.sha256(self.files[self.router].encode()).hexdigest()


def configure(facts: Facts) -> Configuration:
    """The files of an arm; equal facts give equal bytes."""
    product = _PRODUCTS[facts.chosen.product] if facts.chosen else none
    programs: Mapping[str, Program] = product.configure(facts)
    [router] = programs
    files = {name: program.script() for name, program in programs.items()}
    errors = [each for program in programs.values() for each in program.settings.errors()]
    more, found = ({}, []) if product is slime else engine_files(facts)
    client, said = client_file(facts)
    return Configuration(files | more | client, router, [*errors, *found, *said])


def facts_of(arm: Mapping[str, Any]) -> Facts:
    """The facts of an arm, from what the manifest says of it."""
    plain = json.loads(json.dumps(arm))
    chosen = Chosen(**plain["product"]) if plain["product"] else None
    return Facts(
        client=plain["client"],
        header=plain["key_header"],
        router=plain["router"],
        fleet=plain["fleet"],
        kv_tokens=plain["kv_tokens"],
        training=plain.get("training"),
        chosen=chosen,
        urls=plain["engines"],
    )


def fleet_size(arm: Mapping[str, Any]) -> int:
    """Engines that an arm of a manifest begins with."""
    return facts_of(arm).engines
