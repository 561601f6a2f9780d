"""Which of our policies models which policy of which router, and with what parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from policies._protocol import Policy
from sim import registry

_BUILTIN: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("sglang-router", "random"): ("random", {}),
    ("sglang-router", "round_robin"): ("round_robin", {}),
    ("sglang-router", "power_of_two"): ("power_of_two", {"load": "reports_only"}),
    ("smg", "random"): ("random", {}),
    ("vllm-router", "random"): ("random", {}),
    ("vllm-router", "round_robin"): ("round_robin", {}),
    ("vllm-router", "power_of_two"): ("power_of_two", {"load": "reports"}),
}
"""Products whose rule is a generic policy's; all other policies are found in the product's folder by their own name."""

_FOLDERS = {"sglang-router": "sglang", "smg": "smg", "vllm-router": "vllm"}
_OVERRIDE = "routing_key_override"


class NotApplicableError(Exception):
    """The recording cannot be replayed; the message says why."""


def kind_of(record: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Kind and parameters of the policy that models a recording."""
    router, policy = record["router"], record["policy"]
    if router not in _FOLDERS:
        raise NotApplicableError(f"no model of the router {router!r}; known: {', '.join(_FOLDERS)}")
    kind, fixed = _BUILTIN.get((router, policy), (f"{_FOLDERS[router]}.{policy}", {}))
    if kind not in registry.scan(registry.POLICY):
        raise NotApplicableError(f"no model of the policy {policy!r} of {router}")
    params = {**fixed, **record.get("params", {})}
    if params.pop(_OVERRIDE, False):
        return f"{_FOLDERS[router]}.sticky_override", {"over": kind, **params}
    return kind, params


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
