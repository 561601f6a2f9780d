"""The JSON Schema says what the loader says, as far as a schema can."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from sim.scenario import load_scenario, schema, shipped

VALIDATOR = jsonschema.Draft202012Validator(schema())


def document(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(Path(shipped()[name]).read_text(encoding="utf-8"))


def test_it_is_a_schema() -> None:
    """Valid in its dialect, and plain JSON."""
    jsonschema.Draft202012Validator.check_schema(schema())
    json.dumps(schema(), allow_nan=False)


@pytest.mark.parametrize("name", shipped())
def test_shipped_scenarios_pass(name: str) -> None:
    """Every scenario of the package."""
    assert [error.message for error in VALIDATOR.iter_errors(document(name))] == []


def test_every_kind_and_its_words_are_in_it() -> None:
    """Editors can complete kinds and show what they are."""
    text = json.dumps(schema())
    for word in (
        "sglang.cache_aware",
        "rollout",
        "form_d",
        "lognormal",
        "Requests that share a routing key",
        "after_prefill",
    ):
        assert word in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"fleett": {}},
        {"fleet": {"engines": 0, "engine": {"preset": "vllm"}}},
        {"fleet": {"engines": 2, "engine": {"preset": "vlm"}}},
        {"client": {"key_scope": "smaple"}},
        {"router": {"policy": {"kind": "round_robin", "tie": "first"}}},
        {"router": {"policy": {"kind": "round_robbin"}}},
        {"arms": {"sample": {"client": {"key_scop": "group"}}}},
        {"arms": {"sample": {"router": {"policy": {"kind": "nothing"}}}}},
        {"arms": {}},
        {"replications": {"pairs": 0}},
    ],
)
def test_wrong_ones_do_not(wrong: dict[str, Any], tmp_path: Path) -> None:
    """What the schema refuses, the loader refuses too."""
    data = {**document("slime_group_affinity"), **wrong}
    assert not VALIDATOR.is_valid(data)
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(data))
    with pytest.raises(Exception, match=r"s\.yaml"):
        load_scenario(file)


def test_an_arm_may_name_any_part() -> None:
    """Overrides need not be whole."""
    arms = {
        "sample": None,
        "a": {"fleet": {"engine": {"tp": 2}}},
        "b": {"workload": {"groups": 8}},
        "c": {"router": {"overhead_s": 1}},
    }
    assert VALIDATOR.is_valid({**document("slime_group_affinity"), "arms": arms})
