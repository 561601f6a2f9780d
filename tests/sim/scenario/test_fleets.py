"""Fleets of several types of engines: how they are written, checked, overridden and run."""

import json
import pickle
from pathlib import Path

import pytest

from sim.cost import _models
from sim.cost._memory import shape_capacity
from sim.errors import ScenarioError
from sim.log.record import TABLES
from sim.replication import replicate
from sim.scenario import Cell, check, differences, dump, kv_tokens, load_scenario, resolved_document
from sim.scenario._yaml import parse

SCENARIO = """
name: mixed
fleet:
  engines:
    old: {count: 2, engine: {preset: vllm, kv_tokens: 4096, cost: {kind: constant, step_ms: 20}}}
    new: {count: 1, engine: {preset: sglang, kv_tokens: 2048, cost: {kind: constant, step_ms: 5}}}
workload:
  {kind: rollout, groups: 6, samples_per_group: 2, prompt: {group_tokens: 100}, output_tokens: 20, max_tokens: 20}
router: {policy: {kind: round_robin}}
"""
ALIKE = "engines: 3, engine: {preset: vllm, kv_tokens: 4096, cost: {kind: constant, step_ms: 20}}"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.yaml"
    path.write_text(SCENARIO)
    return path


def cell_of(path: Path, *overrides: str) -> Cell:
    return next(iter(load_scenario(path, overrides).arms.values()))


def test_types_are_numbered_by_name(mixed: Path) -> None:
    """``new`` comes before ``old``, however the file writes them."""
    cell = cell_of(mixed)
    assert [(kind.name, kind.count, kind.engine.preset) for kind in cell.fleet] == [
        ("new", 1, "sglang"),
        ("old", 2, "vllm"),
    ]
    assert cell.engines == 3


def test_each_engine_is_of_its_type(mixed: Path) -> None:
    """Engine 0 takes 5 ms for a step, engines 1 and 2 take 20 ms."""
    log = replicate(cell_of(mixed), 0)
    rows = log.numpy("engines")
    steps = (rows["end"] - rows["start"]) / rows["steps"] * log.tick_s * 1e3
    assert {engine: set(steps[rows["engine"] == engine]) for engine in range(3)} == {0: {5.0}, 1: {20.0}, 2: {20.0}}


def test_a_type_alone_is_the_fleet_that_is_alike(mixed: Path) -> None:
    """One type of three engines runs as three engines that are alike; so does a type beside others of count 0."""
    one = cell_of(mixed, "fleet.engines.old.count=3", "fleet.engines.new.count=0")
    before, after = SCENARIO.index("fleet:"), SCENARIO.index("\nworkload:")
    mixed.write_text(f"{SCENARIO[:before]}fleet: {{{ALIKE}}}{SCENARIO[after:]}")
    alike, log = replicate(cell_of(mixed), 0), replicate(one, 0)
    assert all(getattr(alike, table) == getattr(log, table) for table in TABLES)


def test_a_mixed_cell_travels(mixed: Path) -> None:
    """Between processes and through a manifest that sorts its keys."""
    cell = cell_of(mixed)
    again = pickle.loads(pickle.dumps(cell))  # noqa: S301 - our own
    assert (again.resolved, again.hash) == (cell.resolved, cell.hash)
    written = json.loads(json.dumps(cell.resolved, sort_keys=True))
    assert Cell.from_resolved(written, cell.base).hash == cell.hash


def test_arms_change_one_type(mixed: Path, tmp_path: Path) -> None:
    """An arm says what is different; the resolved document gives the same cells again."""
    mixed.write_text(
        SCENARIO
        + "arms:\n  both: {}\n  more: {fleet: {engines: {new: {count: 2}}}}\n"
        + f"  alike: {{fleet: {{{ALIKE}}}}}\n"
    )
    scenario = load_scenario(mixed)
    found = differences(scenario)
    assert found["more"] == {"fleet.engines.new.count": (1, 2)}
    assert set(found["alike"]) == {"fleet.engines", "fleet.engine"}
    again = tmp_path / "again.yaml"
    again.write_text(dump(resolved_document(scenario)))
    assert [each.hash for each in load_scenario(again).arms.values()] == [each.hash for each in scenario.arms.values()]


def test_the_check_tells_of_each_type(mixed: Path) -> None:
    """Room and cost by type; a request that only some engines have room for is a warning, of none an error."""
    [facts] = check(load_scenario(mixed)).facts.values()
    assert {name: each.kv_tokens for name, each in facts.engines.items()} == {"new": 2048, "old": 4096}
    warning, *_ = check(load_scenario(mixed, ("fleet.engines.new.engine.kv_tokens=100",))).warnings
    assert "largest needs 120 tokens with its limit, an engine of type new has 99" in warning
    small = tuple(f"fleet.engines.{name}.engine.kv_tokens=100" for name in ("old", "new"))
    with pytest.raises(ScenarioError, match="no request fits"):
        check(load_scenario(mixed, small))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("fleet.engines.old.cont=1", "fleet.engines.old.cont: unknown key; did you mean 'count'"),
        ("fleet.engines.old.count=-1", "fleet.engines.old.count: must be 0 or more"),
        ("fleet.engines.small={engine: {preset: vllm}}", "fleet.engines.small.count: required key is missing"),
        ("fleet.engines.1st={count: 1, engine: {preset: vllm}}", "fleet.engines.1st: must be a plain name"),
        ("fleet.engine.preset=vllm", "fleet.engine: has no effect where fleet.engines names types"),
        ("fleet.engines=3", "fleet.engine: required key is missing"),
        (
            "fleet.engines.old.engine.queue_order=lpm",
            "fleet.engines.old.engine.queue_order: is a field of preset sglang",
        ),
        ("fleet.engines.old.engine.max_num_seqs=4000", "fleet.engines.old.engine.max_num_seqs: vLLM refuses 4000"),
        ("fleet.engines.old.engine.cost.kind=none", "fleet.engines.old.engine.cost.kind: unknown cost model"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(mixed: Path, override: str, message: str) -> None:
    """The path names the type."""
    with pytest.raises(ScenarioError) as error:
        load_scenario(mixed, (override,))
    assert message in str(error.value)


def test_a_fleet_has_engines(mixed: Path) -> None:
    """Counts of 0 everywhere are refused."""
    with pytest.raises(ScenarioError, match="counts must sum to 1 or more"):
        load_scenario(mixed, ("fleet.engines.old.count=0", "fleet.engines.new.count=0"))


def room(engine: str) -> int:
    """KV tokens of an engine."""
    resolved = {
        "fleet": {"engines": 1, "engine": parse(engine, "").data},
        "workload": {"kind": "rollout", "groups": 1, "samples_per_group": 1, "prompt": {"group_tokens": 10}}
        | {"output_tokens": 1, "max_tokens": 1},
        "router": {"policy": {"kind": "round_robin"}},
        "seed": 1,
    }
    cell = Cell.from_resolved(resolved, Path())
    return kv_tokens(cell.fleet[0], cell.base)


def test_capacity_by_shape_where_no_profile_knows_the_model() -> None:
    """Constant steps of a model that nobody measured: weights and KV bytes of its description."""
    constant = "device: h100-80gb, tp: 4, cost: {kind: constant, step_ms: 5}"
    model = _models.find("llama-3.1-70b")
    assert model is not None
    by_shape = shape_capacity(model, "h100-80gb", 4, memory_share=0.9, other_gib=1.4)
    assert room(f"{{preset: vllm, model: llama-3.1-70b, {constant}}}") == by_shape == pytest.approx(485e3, rel=0.03)
    with pytest.raises(ScenarioError, match="give kv_tokens"):
        room(f"{{preset: vllm, model: nobody, {constant}}}")


@pytest.mark.parametrize(
    "engine", ["model: llama-3-8b", "model: deepseek-v3, device: h100-80gb, tp: 16, cost: {kind: roofline}"]
)
def test_fp8_kv_has_twice_the_room(engine: str) -> None:
    """Of a measured profile, and of a shape with latent attention."""
    whole = room(f"{{preset: vllm, {engine}}}")
    assert room(f"{{preset: vllm, {engine}, kv_bits: 8}}") == pytest.approx(2 * whole, abs=1)
    assert room(f"{{preset: vllm, {engine}, kv_bits: 16}}") == whole


def test_a_hybrid_model_is_told_of(mixed: Path) -> None:
    """On vLLM it has its blocks and state, on SGLang a warning that it has none."""
    hybrid = "model: nemotron-3-super-120b-a12b, device: h100-80gb, tp: 8, cost: {kind: roofline}"
    types = [f"fleet.engines.{name}.engine={{{hybrid}, kv_tokens: null}}" for name in ("old", "new")]
    scenario = load_scenario(mixed, types)
    cell = scenario.arms["base"]
    assert [kind.engine.block_tokens for kind in cell.fleet] == [1, 2080]
    assert any("keeps a state for each sequence; an engine of type new" in each for each in check(scenario).warnings)
    requests = replicate(cell, 0).numpy("requests")
    assert not requests["status"].any()
