"""Presets: every one resolves, whatever the scenario says comes first, and what it cannot say fails with its line."""

from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.scenario import load_scenario, schema
from sim.scenario._presets import about, names

NAMES = ("deep-research", "math-grpo", "search-agent", "swe-agent", "tool-chat-serving")
FILE = """# Which arm?
name: preset
fleet: {{engines: 4, engine: {{preset: vllm, kv_tokens: 200000, cost: {{kind: constant, step_ms: 8}}}}}}
workload: {workload}
{more}
router: {{policy: {{kind: round_robin}}}}
"""


def scenario(folder: Path, workload: str, more: str = ""):
    path = folder / "preset.yaml"
    path.write_text(FILE.format(workload=workload, more=more))
    return load_scenario(path)


def cell(folder: Path, workload: str, more: str = ""):
    return next(iter(scenario(folder, workload, more).arms.values()))


def test_the_presets_are_those_of_the_specification():
    """By name; each says what its values rest on."""
    assert tuple(names()) == NAMES
    for name in NAMES:
        assert "ssumed" in about(name)
        assert "nown" in about(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_resolves_and_generates(tmp_path, name):
    """With its name alone it is a whole workload, without a field that has no effect; nothing of the name is left."""
    found = cell(tmp_path, f"{{preset: {name}}}")
    assert found.workload.idle_fields() == []
    assert "preset" not in found.resolved["workload"]
    size = "sessions" if name == "tool-chat-serving" else "groups"
    small = cell(tmp_path, f"{{preset: {name}, {size}: 3}}")
    assert small.workload.generate(Streams(1), tmp_path).groups == 3


def test_a_preset_is_its_fields(tmp_path):
    """The same cell, and so the same results, as with all fields written out."""
    found = cell(tmp_path, "{preset: search-agent, groups: 2}")
    written = (
        "{kind: rollout, groups: 2, samples_per_group: 8,"
        " prompt: {system_tokens: 300, group_tokens: {kind: lognormal, median: 60, sigma: 0.4}},"
        " output_tokens: {kind: lognormal, median: 150, sigma: 0.7}, max_tokens: 512,"
        " turns: {kind: binomial, trials: 3, chance: 0.6, least: 1},"
        " observation_tokens: {kind: lognormal, median: 480, sigma: 0.25},"
        " tool_delay_s: {kind: lognormal, median: 0.3, sigma: 0.6}, context_limit_tokens: 4096, encoding: chat}"
    )
    own = "client: {tools: {concurrency: 256}}" if found.resolved["client"].get("tools") else ""
    assert found.hash == cell(tmp_path, written, own).hash


def test_what_the_scenario_says_comes_first(tmp_path):
    """A value replaces one, a mapping is laid over one, a distribution of another kind replaces it whole."""
    found = cell(
        tmp_path,
        "{preset: swe-agent, groups: 3, output_tokens: {median: 500}, turns: {kind: constant, value: 7},"
        " observation_tokens: 40, prompt: {system_tokens: 5}}",
    ).resolved["workload"]
    assert found["groups"] == 3
    assert found["output_tokens"] == {"kind": "lognormal", "median": 500.0, "sigma": 1.0, "cap": None, "floor": None}
    assert found["observation_tokens"] == 40
    assert found["prompt"]["system_tokens"] == 5
    assert found["prompt"]["group_tokens"]["median"] == 1300.0
    assert found["turns_variance_share_between_groups"] is None, "a share of what has no variance"


def test_the_client_of_a_preset_is_a_default(tmp_path):
    """Its cap holds until the scenario gives one, of either name."""
    assert cell(tmp_path, "{preset: math-grpo}").client.max_sessions_per_engine == 512
    assert cell(tmp_path, "{preset: math-grpo}", "client: {max_sessions_in_flight: 9}").client.cap(4) == 9
    assert cell(tmp_path, "{preset: swe-agent}", "client: {key_scope: session}").client.max_sessions_in_flight == 1024


def test_rollout_steps_of_a_preset_are_a_default(tmp_path):
    """Over-sampling and abort, or updates in flight, unless the scenario says what a step is, or that there is none."""
    math, swe = (cell(tmp_path, f"{{preset: {name}}}").training for name in ("math-grpo", "swe-agent"))
    assert (math.groups_per_step, math.oversampling_batch, math.unfinished) == (128, 256, "drop")
    assert (swe.max_staleness, swe.update.in_flight, swe.update.cache) == (1, "continue", "keep")
    resumed = cell(tmp_path, "{preset: math-grpo}", "training: {unfinished: resume}").training
    assert (resumed.groups_per_step, resumed.unfinished) == (128, "resume")
    assert cell(tmp_path, "{preset: math-grpo}", "training: null").training is None


def test_arms_may_change_the_preset_and_its_fields(tmp_path):
    """An arm is laid over the base, and the preset under both."""
    found = scenario(
        tmp_path,
        "{preset: math-grpo, groups: 4}",
        "arms: {plain: {}, search: {workload: {preset: search-agent}}, more: {workload: {samples_per_group: 16}}}",
    ).arms
    assert [arm.resolved["workload"]["samples_per_group"] for arm in found.values()] == [8, 8, 16]
    assert [arm.resolved["workload"]["prompt"]["system_tokens"] for arm in found.values()] == [60, 300, 60]
    assert {arm.resolved["workload"]["groups"] for arm in found.values()} == {4}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (
            "{preset: math-grop}",
            r":4: workload.preset: unknown preset 'math-grop'; did you mean 'math-grpo'",
        ),
        ("{preset: [1]}", r"preset.yaml:4: workload.preset: unknown preset \[1\]"),
        ("{preset: math-grpo, group: 3}", r"preset.yaml:4: workload.group: unknown key; did you mean 'groups'"),
        (
            "{preset: math-grpo, kind: agents}",
            r":4: workload.preset: math-grpo is of kind rollout, not agents",
        ),
        ("{preset: math-grpo, groups: 0}", r"preset.yaml:4: workload.groups: must be from 1 to"),
    ],
)
def test_what_a_preset_cannot_be_is_refused(tmp_path, workload, message):
    """One line with file, line and the nearest name."""
    with pytest.raises(ScenarioError, match=message):
        scenario(tmp_path, workload)


@pytest.mark.parametrize(
    ("workload", "is_fine"),
    [
        ("{preset: swe-agent, groups: 3, output_tokens: {median: 500}}", True),
        ("{preset: tool-chat-serving, sessions: 5, prompt: {tenants: 3}}", True),
        ("{preset: swe-agent, sessions: 3}", False),
        ("{preset: swe-agnt}", False),
        ("{groups: 3}", False),
    ],
)
def test_the_schema_knows_presets(workload, is_fine):
    """Editors complete their names and fields."""
    document = YAML(typ="safe", pure=True).load(FILE.format(workload=workload, more=""))
    assert jsonschema.Draft202012Validator(schema()).is_valid(document) == is_fine
