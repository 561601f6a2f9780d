"""``router: {product, version, policy}``: the policy that a version of a router takes by that name.

It becomes the ``policy: {kind, ...}`` that it stands for before anything else looks at it, so a product's policy and
our kind with the same parameters are the same cell. What a version does not take is refused, with the versions that do.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from policies._products import PRODUCTS, Offer, Product
from sim import registry
from sim.closed import refuse

KEYS: Final = ("product", "version")


def resolve(router: Any) -> Any:
    """The block without product and version; a block without them, or no block at all, as it is."""
    if not isinstance(router, Mapping) or not any(router.get(key) is not None for key in KEYS):
        return router
    rest = {key: value for key, value in router.items() if key not in KEYS}
    name = router.get("product")
    if name is None:
        raise refuse("needs the product that it is a version of", "version")
    if name not in PRODUCTS:
        raise refuse(f"unknown product {name!r}; {registry.suggest(name, PRODUCTS)}", "product")
    product = PRODUCTS[name]
    version = router.get("version", product.versions[-1])
    if version not in product.versions:
        known = ", ".join(product.versions)
        raise refuse(f"{name} {version} is not known here (a version is a text); known: {known}", "version")
    policy, options = _split(rest.get("policy"), product, version)
    offer = _offer(name, product, version, policy)
    _check_options(f"{policy} of {name} {version}", offer, version, options)
    defaults = offer.defaults.get(version, {})
    return {**rest, "policy": {"kind": offer.kind, **defaults, **options, **offer.fixed}}


def _split(written: Any, product: Product, version: str) -> tuple[str, dict[str, Any]]:
    """Name and options of the policy; absent: the version's default."""
    if written is None:
        offers = product.policies.items()
        return next(name for name, offer in offers if version in (*offer.versions, *offer.other_rule)), {}
    if isinstance(written, str):
        return written, {}
    if not isinstance(written, Mapping):
        raise refuse("must be the name of a policy, or a mapping with its name as kind", "policy")
    if "kind" not in written:
        raise refuse("required key is missing", "policy", "kind")
    return str(written["kind"]), {key: value for key, value in written.items() if key != "kind"}


def _offer(name: str, product: Product, version: str, policy: str) -> Offer:
    offer = product.policies.get(policy)
    if offer is None:
        raise refuse(f"{name} has no policy {policy!r}; {registry.suggest(policy, product.policies)}", "policy")
    if version in offer.versions:
        return offer
    if version in offer.other_rule:
        raise refuse(
            f"{name} {version} takes {policy!r}, and its rule there is not modelled; modelled: {_versions(policy)}",
            "policy",
        )
    why = f"the command line of {name} {version} refuses {policy!r}" if version in offer.inside else ""
    why = why or f"{name} {version} has no policy {policy!r}"
    direct = f"; its rule without the command line is kind {offer.kind}, without a product" if offer.inside else ""
    raise refuse(f"{why}; versions that have it: {_versions(policy)}{direct}", "policy")


def _versions(policy: str) -> str:
    """Every version of every product that takes a policy by its name."""
    found = [
        f"{name} {', '.join(product.policies[policy].versions)}"
        for name, product in PRODUCTS.items()
        if policy in product.policies and product.policies[policy].versions
    ]
    return "; ".join(found) or "none"


def _check_options(where: str, offer: Offer, version: str, options: Mapping[str, Any]) -> None:
    cls = registry.find(registry.POLICY, offer.kind, Path())
    never = {option for option, versions in offer.option_versions.items() if not versions}
    known = [field.name for field in registry.fields(cls) if field.name not in {*offer.fixed, *never}]
    for option in options:
        if option not in known:
            suggestion = registry.suggest(option, known) if known else "it has none"
            raise refuse(f"not an option of {where}; {suggestion}", "policy", option)
        versions = offer.option_versions.get(option)
        if versions is not None and version not in versions:
            raise refuse(f"not an option of {where}; versions that have it: {', '.join(versions)}", "policy", option)


def widen(schema: dict[str, Any]) -> None:
    """Let the JSON Schema of the block take a product, and then its names for a policy; without one, our kinds."""
    names = sorted({name for product in PRODUCTS.values() for name in product.policies})
    named = {"type": "object", "properties": {"kind": {"enum": names}}, "required": ["kind"]}
    ours = schema["properties"]["policy"]
    schema["properties"] |= {"policy": {}, "product": schema["properties"]["product"] | {"enum": [*PRODUCTS, None]}}
    schema["required"].remove("policy")
    schema["if"] = {"properties": {"product": {"type": "string"}}, "required": ["product"]}
    schema["then"] = {"properties": {"policy": {"anyOf": [{"enum": names}, named]}}}
    schema["else"] = {"properties": {"policy": ours}, "required": ["policy"]}
