"""What the configuration of an arm depends on, as the manifest says it, and which product runs its policy.

The product is chosen from ``policies/_products.py``: one that a scenario or the command line names, else the one that
has the rules of most arms, so that two arms are two settings of one program wherever they can be. The version is the
newest that takes the policy with these parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from policies._products import PRODUCTS, Offer
from sim import registry
from sim.errors import ScenarioError

STICKY: Final = "smg.sticky_override"
"""A layer of smg over another policy; it has no name there, but flags."""
_PREFERRED: Final = {"sglang": ("sglang-router", "slime", "smg"), "vllm": ("vllm-router", "nemo-gym", "smg")}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A product that has the rule of a policy."""

    product: str
    version: str
    policy: str
    """The product's name for it; empty where it has none."""
    is_refused: bool = False
    """The version holds the rule and its command line refuses the name."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the files of an arm depend on: plain data, as it comes back from the manifest."""

    client: Mapping[str, Any]
    header: str
    router: Mapping[str, Any]
    fleet: Mapping[str, Any]
    kv_tokens: Mapping[str, int]
    training: Mapping[str, Any] | None
    chosen: Chosen | None
    """None: no product that is known here has the policy."""
    urls: Sequence[str]
    """Addresses of the engines; empty: the operator names them when the router is started."""

    @property
    def policy(self) -> dict[str, Any]:
        """Parameters of the policy, without its kind."""
        return {name: value for name, value in self.router["policy"].items() if name != "kind"}

    @property
    def kind(self) -> str:
        """Kind of the policy."""
        return str(self.router["policy"]["kind"])

    @property
    def types(self) -> dict[str, dict[str, Any]]:
        """Types of engines, each with its count and one of them; the name is empty where all are alike."""
        if self.fleet["engine"] is not None:
            return {"": {"count": self.fleet["engines"], "engine": self.fleet["engine"]}}
        return {name: each for name, each in self.fleet["engines"].items() if each["count"]}

    @property
    def engines(self) -> int:
        """Number of engines at the beginning."""
        return sum(each["count"] for each in self.types.values())


def choose(
    policies: Mapping[str, Mapping[str, Any]], fleets: Mapping[str, Sequence[str]], wanted: Mapping[str, Any]
) -> dict[str, Chosen | None]:
    """The product of each arm, of the policies of all.

    ``fleets``: presets of the types of engines of each arm; ``wanted``: product and version that an arm asks for.
    """
    offers = {arm: _offered(arm, policy, fleets[arm], wanted.get(arm)) for arm, policy in policies.items()}
    known = {each.product for found in offers.values() for each in found}
    preset = next(iter(fleets.values()))[0]
    order = sorted((each for each in PRODUCTS if each in known), key=lambda product: _rank(product, offers, preset))
    return {arm: _first(found, order) for arm, found in offers.items()}


def _offered(arm: str, policy: Mapping[str, Any], fleet: Sequence[str], wanted: Any) -> list[Chosen]:
    """The products that an arm may run: the one that it asks for, else those that can have its engines."""
    found = candidates(policy)
    product, version = wanted or (None, None)
    if product is None:
        return [each for each in found if each.product != "slime" or list(fleet) == ["sglang"]] or found
    asked = [each for each in found if each.product == product]
    if not asked:
        others = f"; those that have it: {', '.join(each.product for each in found)}" if found else ""
        raise ScenarioError(
            f"arm {arm}: {product} has no policy with the rule of {policy['kind']} as it is set here{others}"
        )
    return asked if version is None else [replace(each, version=version) for each in asked]


def _rank(product: str, offers: Mapping[str, Sequence[Chosen]], preset: str) -> tuple[int, int]:
    """Products that run most arms come first, then those that belong to the engine."""
    runs = sum(any(each.product == product and not each.is_refused for each in found) for found in offers.values())
    preferred = _PREFERRED[preset]
    return -runs, preferred.index(product) if product in preferred else len(preferred)


def _first(found: Sequence[Chosen], order: Sequence[str]) -> Chosen | None:
    ranked = sorted(found, key=lambda each: (each.is_refused, order.index(each.product)))
    return ranked[0] if ranked else None


def candidates(policy: Mapping[str, Any]) -> list[Chosen]:
    """Every product that has the rule of a policy with these parameters."""
    kind, parameters = policy["kind"], {name: value for name, value in policy.items() if name != "kind"}
    found = [Chosen("smg", PRODUCTS["smg"].versions[-1], "")] if kind == STICKY else []
    for product, each in PRODUCTS.items():
        for name, offer in each.policies.items():
            if not offer.kind or not _is_rule(offer, name, kind, parameters):
                continue
            taken = [version for version in offer.versions if _can_say(offer, version, kind, parameters)]
            inside = [version for version in offer.inside if _can_say(offer, version, kind, parameters)]
            if taken:
                found.append(Chosen(product, taken[-1], name))
            elif inside:
                found.append(Chosen(product, inside[-1], name, is_refused=True))
    return found


def _is_rule(offer: Offer, name: str, kind: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a product's policy is this kind; the gateway behind slime is the gateway itself where keys arrive."""
    if offer.kind == "slime.gateway" and kind != "slime.gateway":
        gateways = PRODUCTS["sglang-router"].policies.items()
        is_there = any(_is_rule(each, other, kind, parameters) for other, each in gateways)
        return offer.fixed["over"] == kind and is_there and _is_fed(name, kind)
    return offer.kind == kind and all(parameters[option] == value for option, value in offer.fixed.items())


def _is_fed(name: str, kind: str) -> bool:
    """Keys reach consistent hashing alone through slime; a policy that reads none is the same behind it."""
    return name == "consistent_hashing" or not registry.find(registry.POLICY, kind, Path()).key_headers  # type: ignore[attr-defined]


def _can_say(offer: Offer, version: str, kind: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a version has these values: an option that it lacks has its default there."""
    cls = registry.find(registry.POLICY, offer.kind, Path())
    defaults = {each.name: registry.default(each) for each in registry.fields(cls)} | dict(
        offer.defaults.get(version, {})
    )
    return all(
        parameters.get(option, defaults[option]) == defaults[option]
        for option, versions in offer.option_versions.items()
        if version not in versions and offer.kind == kind
    )
