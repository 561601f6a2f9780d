"""``check`` names keys of the router that change nothing, and none that change something."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from sim.registry import POLICY, scan
from sim.router.reads import reads
from sim.scenario import check, load_scenario
from tests.strategies import world

LLMD = {"kind": "llmd.endpoint_picker"}


def warnings(
    tmp_path: Path, policy: dict[str, object], *, fleet: dict[str, object] | None = None, **router: object
) -> list[str]:
    """Lines about the router of a small scenario."""
    cell = {key: value for key, value in world(engines=2, policy=policy).items() if key != "seed"}
    cell["router"] |= router
    cell["fleet"] |= fleet or {}
    file = tmp_path / "s.yaml"
    YAML().dump({"name": "s", **cell}, file)
    found = check(load_scenario(file)).warnings
    return [line.removeprefix("arm base: ") for line in found if "router." in line]


@pytest.mark.parametrize(
    ("policy", "router", "line"),
    [
        ({"kind": "random"}, {"telemetry": {}}, "router.telemetry has no effect: random reads no report"),
        (LLMD, {"telemetry": {}}, None),
        ({"kind": "least_load"}, {"telemetry": {"in_flight": {"unit": "tokens"}}}, None),
        (
            {"kind": "power_of_two", "load": "requests"},
            {"telemetry": {"period_s": 1.0}},
            "router.telemetry has no effect: power_of_two reads no report",
        ),
        (
            LLMD,
            {"telemetry": {"kv_share": {"period_s": 1.0}}},
            "router.telemetry.kv_share has no effect: llmd.endpoint_picker does not read it",
        ),
        ({**LLMD, "kv_cache_utilization": 1.0}, {"telemetry": {"kv_share": {"period_s": 1.0}}}, None),
        ({"kind": "smg.least_load"}, {"telemetry": {"running": {"period_s": 1.0}}}, None),
        (
            LLMD,
            {"telemetry": {"in_flight": {"unit": "tokens"}}},
            "router.telemetry.in_flight has no effect: llmd.endpoint_picker does not read the router's own count",
        ),
        (
            {"kind": "sglang.cache_aware"},
            {"cache_index": {"kind": "exact"}},
            "router.cache_index has no effect: sglang.cache_aware does not ask what engines have cached",
        ),
        (LLMD, {"cache_index": {"kind": "exact"}}, None),
        ({"kind": "sglang.cache_aware"}, {"cache_index": "none"}, None),
        (
            {"kind": "round_robin"},
            {"cache_index": "none"},
            "router.cache_index has no effect: round_robin reads no content",
        ),
        (LLMD, {"assignment": "session"}, "router.assignment has no effect: there is one replica"),
        (LLMD, {"assignment": "session", "replicas": 2}, None),
        (LLMD, {"decision": {"cores": 4}}, "router.decision has no effect: no time of it is more than 0"),
        (LLMD, {"decision": {"per_candidate_s": 0.001}}, None),
        (LLMD, {"health": {}}, "router.health has no effect: no engine fails"),
        (LLMD, {"breaker": {}}, "router.breaker has no effect: no engine fails"),
        (
            LLMD,
            {"retries": {}},
            "router.retries has no effect: no engine fails, and llmd.endpoint_picker refuses nobody",
        ),
        ({"kind": "sglang.prefix_hash"}, {"retries": {}}, None),
    ],
)
def test_each_idle_key(tmp_path: Path, policy: dict[str, object], router: dict[str, object], line: str | None) -> None:
    """One line or none."""
    assert warnings(tmp_path, policy, **router) == ([line] if line else [])


def test_what_acts_on_failures_matters_where_engines_fail(tmp_path: Path) -> None:
    """By themselves, by plan, or when their time to drain is over."""
    around = {"health": {}, "breaker": {}, "retries": {}}
    for fleet, idle in (
        ({}, 3),
        ({"failures": {"mean_between_s": 100.0, "mean_repair_s": 1.0}}, 0),
        ({"changes": [{"what": "fail", "at_s": 1.0, "engine": 0}]}, 0),
        ({"changes": [{"what": "leave", "at_s": 1.0, "engine": 0, "drain_s": 1.0}]}, 0),
        ({"changes": [{"what": "leave", "at_s": 1.0, "engine": 0}]}, 3),
    ):
        assert len(warnings(tmp_path, LLMD, fleet=fleet, **around)) == idle


def test_what_policies_read_is_found() -> None:
    """Reports, counts and caches; by the parameters too; and each policy can be asked."""
    members = scan(POLICY)
    assert {"waiting", "kv_share"} <= reads(members["smg.least_load"]())
    assert "tokens" in reads(members["power_of_two"](load="reports"))
    assert "tokens" not in reads(members["power_of_two"]())
    assert reads(members["least_load"]()) == {"in_flight"}
    assert "cached_tokens" in reads(members["production_stack.kvaware"]())
    assert all(len(reads(cls())) < 8 for cls in members.values())
