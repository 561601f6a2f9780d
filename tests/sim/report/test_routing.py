"""Warnings about routers: each finds a planted case, and none is raised of a scenario that ships."""

import json
from pathlib import Path

import polars as pl
import pytest

from sim import registry, run
from sim.report.routing import Looks, notes, summaries
from sim.router.reads import ALL, ask
from sim.scenario import check, load_scenario
from tests.strategies import world

SILENT = "reads what engines report, and none reports"
MEMBERS = registry.scan(registry.POLICY)
ROOT = Path(__file__).parents[3]
ALONE = {"arrivals": {"kind": "poisson", "groups_per_s": 0.01}, "groups": 6}
CROWD = {"groups": 12, "samples_per_group": 2}
TURNS = {"groups": 6, "turns": 3, "observation_tokens": 20, "arrivals": {"kind": "poisson", "groups_per_s": 5}}


def warned(tmp_path: Path, arms: dict[str, dict], **parts) -> list[str]:
    """Warnings of a run of two pairs whose arms are these policies."""
    base = world(engines=4, **parts)
    del base["seed"]
    policies = {name: {"router": {"policy": policy}} for name, policy in arms.items()}
    base |= {"name": "planted", "arms": policies, "replications": {"pairs": 2}, "metrics": ["makespan_s"]}
    base["router"] = {"policy": {"kind": "smg.passthrough"}}
    path = tmp_path / "planted.yaml"
    path.write_text(json.dumps(base), encoding="utf-8")
    return run(load_scenario(path), out=tmp_path / "out").warnings


def only(found: list[str], words: str) -> str:
    [one] = [each for each in found if words in each]
    return one


def test_a_signal_that_is_not_there(tmp_path: Path) -> None:
    """Sglang's power of two reads reports alone; without any it is random, and says so. round_robin reads nothing."""
    arms = {"reads": {"kind": "power_of_two", "load": "reports_only"}, "blind": {"kind": "round_robin"}}
    found = warned(tmp_path, arms, workload=CROWD)
    assert only(found, SILENT).startswith("arm reads: ")


def test_a_report_has_an_age_for_who_reads_it(tmp_path: Path) -> None:
    """Telemetry beside a policy that reads none has no effect, so that its age says nothing."""
    base = world(engines=4, workload=CROWD)
    del base["seed"]
    base["router"] = {"policy": {"kind": "round_robin"}, "telemetry": {"period_s": 0.05}}
    arms = {"blind": {}, "reads": {"router": {"policy": {"kind": "llmd.endpoint_picker"}}}}
    base |= {"name": "aged", "arms": arms, "replications": {"pairs": 1}, "metrics": ["signal_age_mean_s"]}
    path = tmp_path / "aged.yaml"
    path.write_text(json.dumps(base), encoding="utf-8")
    means = run(load_scenario(path), out=tmp_path / "out").means
    assert means["blind"]["signal_age_mean_s"].mean is None
    assert means["reads"]["signal_age_mean_s"].mean is not None


def test_a_load_that_never_moves(tmp_path: Path) -> None:
    """Requests that never overlap: least load is its tie rule. In a crowd it is not."""
    arms = {"load": {"kind": "least_load"}, "turn": {"kind": "round_robin"}}
    found = warned(tmp_path, arms, workload=ALONE)
    assert only(found, "the load never moves").startswith("arm load: ")
    assert not [each for each in warned(tmp_path, arms, workload=CROWD) if "never moves" in each]


def test_a_reported_signal_that_never_moves(tmp_path: Path) -> None:
    """Engines that wait for single requests always report an empty queue; in a crowd over slow batches they do not."""
    policy = {"kind": "llmd.endpoint_picker"}
    telemetry = {"period_s": 0.05, "also": []}
    base = {"kind": "round_robin"}
    words = "the signal waiting never moves"

    def found(workload: dict) -> list[str]:
        made = world(engines=4, workload=workload)
        del made["seed"]
        made |= {"name": "planted", "replications": {"pairs": 2}, "metrics": ["makespan_s"]}
        made["router"] = {"policy": base, "telemetry": telemetry}
        made["fleet"]["engine"]["max_num_seqs"] = 1
        made["arms"] = {"blind": {}, "reads": {"router": {"policy": policy}}}
        path = tmp_path / "planted.yaml"
        path.write_text(json.dumps(made), encoding="utf-8")
        return run(load_scenario(path), out=tmp_path / "out").warnings

    assert only(found(ALONE), words).startswith("arm reads: ")
    assert not [each for each in found(CROWD) if words in each]


def test_requests_without_a_key(tmp_path: Path) -> None:
    """The client sends the key under a name that one of the two does not read: all of its decisions are by chance."""
    arms = {"deaf": {"kind": "sglang.consistent_hashing"}, "hears": {"kind": "vllm.consistent_hash"}}
    found = warned(tmp_path, arms, workload=CROWD, client={"header": "x-session-id"})
    assert (
        only(found, "without a routing key") == "arm deaf: all of the decisions were on requests without a routing key"
    )


def test_slime_sends_no_key_to_manual(tmp_path: Path) -> None:
    """The built-in generation gives manual no key; the adapters do."""
    gateway = {"kind": "slime.gateway", "over": "sglang.manual"}
    found = warned(tmp_path, {"plain": gateway, "adapter": {**gateway, "agent_adapter": True}}, workload=TURNS)
    assert only(found, "without a routing key").startswith("arm plain: all")


def test_an_empty_index(tmp_path: Path) -> None:
    """vllm-router without tokenization matches nothing, silently; with it, turns match the turns before."""
    arms = {
        "plain": {"kind": "vllm.cache_aware", "can_tokenize": False},
        "tokens": {"kind": "vllm.cache_aware", "can_tokenize": True},
    }
    found = warned(tmp_path, arms, workload={**TURNS, "encoding": "chat"})
    assert only(found, "the index is empty").startswith("arm plain: ")


def test_prompts_in_an_encoding_that_is_not_matched(tmp_path: Path) -> None:
    """vllm-router tokenizes chat alone: a run and a check say why nothing is found, of no other policy and encoding."""
    arms = {"vllm": {"kind": "vllm.cache_aware"}, "sglang": {"kind": "sglang.cache_aware"}}
    said = "arm vllm: vllm.cache_aware matches no prompt of workload.encoding text, only of chat"
    assert only(warned(tmp_path, arms, workload={**TURNS, "encoding": "text"}), "workload.encoding") == said
    assert only(check(load_scenario(tmp_path / "planted.yaml")).warnings, "workload.encoding") == said
    assert not any(
        "workload.encoding" in each for each in warned(tmp_path, arms, workload={**TURNS, "encoding": "chat"})
    )


@pytest.mark.parametrize(
    ("policy", "parameter", "why"),
    [
        ({"kind": "sglang.cache_aware", "balance_abs_threshold": 999}, "balance_abs_threshold", "imbalanced"),
        ({"kind": "sglang.cache_aware", "cache_threshold": 0.0}, "cache_threshold", "it turned no match down"),
        ({"kind": "sticky_least_loaded", "break_margin": 50}, "break_margin", "moved_key"),
        ({"kind": "verl.global_load_balancer", "balance_abs_threshold": 50}, "balance_abs_threshold", "moved_id"),
        ({"kind": "bounded_loads", "c": 1000.0}, "c", "spill"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_parameter_that_never_decided(policy, parameter, why, tmp_path: Path) -> None:
    """A threshold that was never reached: without it, no decision would have been another."""
    found = warned(tmp_path, {"set": policy, "other": {"kind": "random"}}, workload=TURNS)
    line = only(found, "never decided")
    assert line.startswith(f"arm set: router.policy.{parameter} never decided")
    assert why in line


def test_a_parameter_that_decided(tmp_path: Path) -> None:
    """The same threshold, reached: nothing is said of it; and nothing of a parameter at its default."""
    arms = {"low": {"kind": "bounded_loads", "c": 0.5}, "default": {"kind": "bounded_loads"}}
    assert not [each for each in warned(tmp_path, arms, workload=CROWD) if "never decided" in each]


def test_what_has_no_effect_whatever_happens(tmp_path: Path) -> None:
    """Slime's RadixTreeMiddleware: placements are the same, and both the check and the run say so."""
    arms = {"with": {"kind": "slime.router", "radix_tree_middleware": True}, "without": {"kind": "slime.router"}}
    found = warned(tmp_path, arms, workload=CROWD)
    assert "arms with and without: no decision differs, but for the names of engines" in found
    assert only(found, "radix_tree_middleware").startswith(
        "arm with: router.policy.radix_tree_middleware has no effect"
    )
    only(check(load_scenario(tmp_path / "planted.yaml")).warnings, "radix_tree_middleware")


@pytest.mark.parametrize("name", ["slime_group_affinity", "slime_multi_turn", "nemo_gym_12_engines", "smoke"])
def test_shipped_scenarios_are_not_accused(name: str, tmp_path: Path) -> None:
    """No warning about a router is raised of a scenario that ships, but for what is true of it."""
    small = ["workload.groups=4", "workload.turns=3"] if name == "slime_multi_turn" else []
    scenario = load_scenario(name, small).select(pairs=1)
    words = ("never", "index is empty", "without a routing key", SILENT, "no report came", "has no effect")
    assert not [each for each in run(scenario, out=tmp_path).warnings if any(word in each for word in words)]


@pytest.mark.parametrize("kind", MEMBERS)
def test_every_policy_can_be_looked_at(kind: str) -> None:
    """What is read is found for all, and what a policy declares of its branches names parameters of its own."""
    cls = MEMBERS[kind]
    policy = cls()
    asked = ask(policy)
    assert asked.reads < ALL
    assert policy.reads_content or not asked.matches
    names = {each.name for each in registry.fields(cls)}
    assert {*cls.deciders, *cls.vetoes} <= names
    source = (ROOT / "policies" / f"{kind.replace('.', '/')}.py").read_text(encoding="utf-8")
    helpers = (ROOT / "policies" / "_bounded.py").read_text(encoding="utf-8")
    for branch in (branch for led in (*cls.deciders.values(), *cls.vetoes.values()) for branch in led):
        assert source.count(f'"{branch}"') > 1 or f'"{branch}"' in helpers, branch


def test_summaries_by_hand() -> None:
    """Counts by branch and pair: decisions, matches, decisions that saw load, decisions that saw a report."""
    rows = {
        "pair": [0, 0, 0, 1],
        "branch": ["hit", "hit", "miss", "miss"],
        "matched": [5, 0, 0, 0],
        "total_in_flight": [0, 2, 1, 0],
        "signal_age_s": [None, 0.5, None, None],
    }
    texts = summaries(pl.DataFrame(rows, schema_overrides={"signal_age_s": pl.Float64}))["routing"].to_list()
    assert texts == ['{"hit":[2,1,1,1],"miss":[1,0,1,0]}', '{"miss":[1,0,0,0]}']
    policy = MEMBERS["sglang.cache_aware"]()
    looks = Looks(at_reports=False, at_load=True, at_prompts=True)
    assert list(notes(policy, looks, ["cache_threshold"], False, texts)) == [
        "router.policy.cache_threshold never decided: it turned no match down"
    ]
    assert list(notes(policy, looks, [], False, texts[1:])) == []
