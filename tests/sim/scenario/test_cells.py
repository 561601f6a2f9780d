"""Arms become cells: what they resolve to, what their hash covers, how they travel."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim.errors import ScenarioError
from sim.scenario import Cell, check, differences, dump, load_scenario, resolved_document, shipped

TRACE = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'
POLICY = """
from dataclasses import dataclass
from policies._protocol import Policy

@dataclass
class Mine(Policy):
    limit: int = 3
    def __post_init__(self):
        self._calls = 0
    def choose(self, request, fleet, now, pick):
        self._calls += 1
        return fleet.available[0], "first", 0
"""
SCENARIO = """
name: own
fleet: {engines: 2, engine: {preset: vllm, kv_tokens: 4096, cost: {kind: constant, step_ms: 5}}}
workload: {kind: requests, file: trace.jsonl}
router: {policy: {kind: "./mine.py:Mine"}}
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "trace.jsonl").write_text(TRACE)
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "own.yaml").write_text(SCENARIO)
    return tmp_path / "own.yaml"


def only(path: Path, *overrides: str) -> Cell:
    return next(iter(load_scenario(path, overrides).arms.values()))


@pytest.mark.parametrize("name", shipped())
def test_shipped_scenarios_load_by_name_and_check(name: str) -> None:
    """With and without the ending; arms travel between processes and resolve to themselves."""
    scenario = load_scenario(f"{name}.yaml")
    assert scenario.path == load_scenario(name).path
    check(scenario)
    for arm, cell in scenario.arms.items():
        again = pickle.loads(pickle.dumps(cell))  # noqa: S301 - our own
        assert (again.resolved, again.hash, again.arm) == (cell.resolved, cell.hash, arm)
        assert Cell.from_resolved(cell.resolved, cell.base, arm).hash == cell.hash


@pytest.mark.parametrize("name", shipped())
def test_a_resolved_scenario_is_a_scenario(name: str, tmp_path: Path) -> None:
    """What ``check`` prints loads to the same cells."""
    scenario = load_scenario(name)
    if (scenario.path.parent / "traces").exists():
        (tmp_path / "traces").symlink_to(scenario.path.parent / "traces")
    file = tmp_path / "again.yaml"
    file.write_text(dump(resolved_document(scenario)))
    assert all(f"\n  {key}:" in file.read_text() for key in ("stop", "warm_up_s"))
    assert "\nsweep:" in file.read_text()
    again = load_scenario(file)
    assert (again.stop, again.warm_up_s, again.sweep) == (scenario.stop, scenario.warm_up_s, scenario.sweep)
    assert {arm: cell.hash for arm, cell in again.arms.items()} == {
        arm: cell.hash for arm, cell in scenario.arms.items()
    }


def test_the_slime_scenario_means_what_it_says() -> None:
    """Preset, device and policy fill what the file leaves open; the arms differ in one field."""
    scenario = load_scenario("slime_group_affinity")
    cell = scenario.arms["sample"]
    assert (scenario.pairs, scenario.seed, scenario.baseline) == (200, 1, "sample")
    assert (cell.engines, cell.fleet[0].engine.visibility, cell.fleet[0].engine.block_tokens) == (2, "after_prefill", 1)
    assert (cell.client.key_scope, cell.client.header) == ("session", "x-smg-routing-key")
    assert cell.resolved["fleet"]["engine"]["cost"]["kind"] == "form_d"
    assert differences(scenario) == {"group": {"client.key_scope": ("session", "group")}}


def test_each_replication_gets_its_own_policy(own: Path) -> None:
    """A policy's state never leaks from one run to the next."""
    router = only(own).router
    one, two = router.make_policy(), router.make_policy()
    assert one is not two
    assert type(one) is type(two) is type(router.policy)


def test_hash_covers_bytes_not_places(own: Path, tmp_path: Path) -> None:
    """Moving the files changes nothing; a byte of a trace, of a policy, or a value does."""
    before = only(own).hash
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("trace.jsonl", "mine.py", "own.yaml"):
        shutil.copy(tmp_path / name, moved / name)
    assert only(moved / "own.yaml").hash == before
    absolute = f"workload.file={tmp_path / 'trace.jsonl'}"
    assert only(own, absolute).hash == before
    assert only(own, "replications.pairs=7", "metrics=[makespan_s]", "name=other").hash == before
    changed = {
        only(own, "replications.seed=7").hash,
        only(own, "fleet.engines=3").hash,
        only(own, "router.policy.limit=4").hash,
    }
    (moved / "trace.jsonl").write_text(TRACE * 2)
    changed.add(only(moved / "own.yaml").hash)
    shutil.copy(tmp_path / "trace.jsonl", moved / "trace.jsonl")
    (moved / "mine.py").write_text(POLICY + "\n# a remark\n")
    changed.add(only(moved / "own.yaml").hash)
    assert len(changed | {before}) == 6


def test_hash_is_the_same_in_any_process() -> None:
    """Neither the hash seed of a process nor its folder counts."""
    code = (
        "from sim.scenario import load_scenario as l; print(*[c.hash for c in l('slime_group_affinity').arms.values()])"
    )
    root = Path(__file__).parents[3]
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd="/",
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(seen) == 1


def test_components_of_another_kind_replace_the_whole(tmp_path: Path) -> None:
    """Parameters of one kind never linger under another; within a kind overrides merge."""
    text = """
name: merge
fleet: {engines: 2, engine: {preset: vllm, kv_tokens: 4096, cost: {kind: constant, step_ms: 5}}}
workload:
  kind: rollout
  groups: 2
  samples_per_group: 1
  prompt: {group_tokens: 10}
  max_tokens: 9
  output_tokens: {kind: uniform, low: 1, high: 9}
router: {policy: {kind: sticky_least_loaded, tie: random}}
arms:
  base: {}
  other: {router: {policy: {kind: least_load}}}
  same: {router: {policy: {idle_s: 5}}}
  lengths: {workload: {output_tokens: {kind: constant, value: 4}}}
  engine: {fleet: {engine: {cost: {per_sequence_ms: 1}}}}
"""
    (tmp_path / "m.yaml").write_text(text)
    arms = load_scenario(tmp_path / "m.yaml").arms
    policy = {name: cell.resolved["router"]["policy"] for name, cell in arms.items()}
    assert policy["other"] == {"kind": "least_load", "tie": "first"}
    assert (policy["same"]["tie"], policy["same"]["idle_s"]) == ("random", 5.0)
    assert arms["lengths"].resolved["workload"]["output_tokens"] == {"kind": "constant", "value": 4}
    assert arms["engine"].resolved["fleet"]["engine"]["cost"]["step_ms"] == 5.0


def test_without_arms_there_is_one(own: Path) -> None:
    """A scenario that compares nothing has the arm ``base``."""
    scenario = load_scenario(own)
    assert list(scenario.arms) == [scenario.baseline] == ["base"]
    assert scenario.metrics


def test_a_null_control_may_equal_the_baseline() -> None:
    """Marked as such, an arm may resolve to the same cell."""
    scenario = load_scenario("slime_group_affinity", ("arms.twin.null_control=true",))
    assert scenario.arms["twin"].hash == scenario.arms["sample"].hash
    assert scenario.null_controls == {"twin"}


def test_a_null_control_that_differs_is_none() -> None:
    """It would hide the warnings of an arm that is no control."""
    with pytest.raises(ScenarioError, match=r"arms.group.null_control: this arm equals no other one"):
        load_scenario("slime_group_affinity", ("arms.group.null_control=true",))


def test_a_profile_brings_the_slowdown_of_its_own_device() -> None:
    """Times that an H100 took are not those of an A100 in bursts."""
    cost = "fleet.engine.cost={kind: form_d, profile: h100-80gb_llama-3-70b_tp8}"
    facts = check(load_scenario("slime_group_affinity", (cost,))).facts["sample"].engines[""]
    assert "slowdown 1," in facts.cost
    assert "slowdown 1.25," in check(load_scenario("slime_group_affinity")).facts["sample"].engines[""].cost


def test_select() -> None:
    """Fewer arms keep the baseline; another seed is another cell; unknown arms name the nearest."""
    scenario = load_scenario("slime_group_affinity")
    assert list(scenario.select(arms=["group"]).arms) == ["sample", "group"]
    assert list(scenario.select(arms=["sample"]).arms) == ["sample"]
    other = scenario.select(seed=9, pairs=3)
    assert (other.seed, other.pairs, other.arms["group"].seed) == (9, 3, 9)
    assert other.arms["group"].hash != scenario.arms["group"].hash
    with pytest.raises(ScenarioError, match="unknown arm 'grup'; did you mean 'group'"):
        scenario.select(arms=["grup"])


TWINS = "arms.group={client: {key_scope: session}, null_control: true}"


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        (("client.key_scope=request",), "key_scope request gives every request a key of its own: no affinity"),
        (("client.header=x-other", TWINS), "unkeyed requests: the client sends x-other"),
        (("router.policy.kind=random", TWINS), "client.key_scope has no effect"),
        (("client.deadline_s=5",), "client.deadline_s has no effect: goodput_per_s is not among the metrics"),
        (("workload.tool_delay_s=2",), "workload.tool_delay_s has no effect: a sample has one turn"),
        (("workload.observation_tokens=2",), "workload.observation_tokens has no effect: a sample has one turn"),
        (("router.policy.kind=random", TWINS, "client.keys={0: k}"), "client.keys has no effect"),
        (("router.policy.kind=random", "client.header=x-own", TWINS), "client.header has no effect"),
        (("router.policy.kind=random", "client.key_salt=other", TWINS), "client.key_salt has no effect"),
        (
            ("fleet.engine.cost={kind: form_d, profile: h100-80gb_llama-3-70b_tp8}",),
            "arms sample, group: cost profile h100-80gb_llama-3-70b_tp8 is of h100-80gb, llama-3-70b, tp 8, ",
        ),
        (
            ("fleet.engine.cost={kind: form_d, profile: nemotron_gb200_estimated}", "fleet.engine.kv_tokens=100000"),
            "arms sample, group: the cost of a step is estimated",
        ),
        ((), "group_completion_p95_s: 4 groups a replication"),
    ],
)
def test_warnings(overrides: tuple[str, ...], warning: str) -> None:
    """What can run but hardly means what its author thinks."""
    assert any(warning in each for each in check(load_scenario("slime_group_affinity", overrides)).warnings)


def test_engines_that_sort_by_routing_keys_read_them() -> None:
    """With this order the scope of keys matters under any policy, so nothing is said of it."""
    sorting = ("fleet.engine={preset: sglang, queue_order: routing-key}", "router.policy.kind=random")
    found = check(load_scenario("slime_group_affinity", (*sorting, "client.keys={0: k}", TWINS))).warnings
    assert not any("reads a routing key" in each or "reads no routing key" in each for each in found)
