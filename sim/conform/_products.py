"""Which of our policies models which policy of which router, and with what parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from policies._products import PRODUCTS
from policies._protocol import Policy
from sim import registry

_OVERRIDE = "routing_key_override"


class NotApplicableError(Exception):
    """The recording cannot be replayed; the message says why."""


def kind_of(record: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Kind and parameters of the policy that models a recording."""
    router, policy = record["router"], record["policy"]
    if router not in PRODUCTS:
        raise NotApplicableError(f"no model of the router {router!r}; known: {', '.join(PRODUCTS)}")
    offer = PRODUCTS[router].policies.get(policy)
    if offer is None or not offer.kind:
        raise NotApplicableError(f"no model of the policy {policy!r} of {router}")
    params = {**offer.fixed, **record.get("params", {})}
    if params.pop(_OVERRIDE, False):
        return "smg.sticky_override", {"over": offer.kind, **params}
    return offer.kind, params


def model_of(record: Mapping[str, Any]) -> Policy:
    """A fresh policy that models a recording; raises ``NotApplicableError`` where there is none."""
    for signal in ("kv_events", "loads"):
        if record.get("other_settings", {}).get(signal):
            raise NotApplicableError(f"recorded with {signal}, which vectors do not carry")
    kind, params = kind_of(record)
    if str(record.get("endpoint", "")).startswith("grpc"):
        raise NotApplicableError("recorded over gRPC: the router saw token values, which vectors of HTTP do not carry")
    cls = registry.find(registry.POLICY, kind, Path())
    unknown = set(params) - {field.name for field in registry.fields(cls)}
    if unknown:
        raise NotApplicableError(f"our {kind} has no parameter {', '.join(sorted(unknown))}")
    policy = cls(**params)
    assert isinstance(policy, Policy)
    return policy
