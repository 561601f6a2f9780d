"""Ablation arms: an arm says of which other one it takes one mechanism away.

    arms:
      sample: {}
      group: {client: {key_scope: group}}
      scattered: {client: {key_scope: request}, ablates: {arm: group, mechanism: saved prefill}}

It differs from that arm in one field. The mechanism is one of ``sim.log.account.MECHANISMS``, so that a review can look
where in the ledger it must show.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sim import registry
from sim.errors import ScenarioError
from sim.log.account import MECHANISMS
from sim.scenario._cell import Cell
from sim.scenario._yaml import Document

KEY = "ablates"


@dataclass(frozen=True, slots=True)
class Ablates:
    """What an ablation arm takes away."""

    arm: str
    """The arm that it is, but for one field."""
    mechanism: str

    @property
    def document(self) -> dict[str, str]:
        """As a file could say it."""
        return asdict(self)


def ablations(document: Document, arms: Mapping[str, Cell]) -> dict[str, Ablates]:
    """By name of the ablation arm; ScenarioError for what is none."""
    every = document.data.get("arms") or {}
    return {name: _ablates(document, name, arms) for name, over in every.items() if over and KEY in over}


def _ablates(document: Document, name: str, arms: Mapping[str, Cell]) -> Ablates:
    place = ("arms", name, KEY)
    said = document.data["arms"][name][KEY]
    if not isinstance(said, dict):
        raise ScenarioError(f"{document.origin(place)}: must be a mapping {{arm: ..., mechanism: ...}}, not {said!r}")
    for key in said:
        if key not in ("arm", "mechanism"):
            near = registry.suggest(str(key), ("arm", "mechanism"))
            raise ScenarioError(f"{document.origin((*place, key))}: unknown key; {near}")
    for key, known in (("arm", [each for each in arms if each != name]), ("mechanism", list(MECHANISMS))):
        if key not in said:
            raise ScenarioError(f"{document.origin(place)}: required key {key} is missing")
        if said[key] not in known:
            near = registry.suggest(str(said[key]), known)
            raise ScenarioError(f"{document.origin((*place, key))}: unknown {key} {said[key]!r}; {near}")
    return Ablates(said["arm"], said["mechanism"])
