"""What a scenario takes for given: read, checked as an arm's override is, laid over the arms, and no part of a cell."""

from pathlib import Path

import jsonschema
import pytest

from sim.errors import ScenarioError
from sim.scenario import load_scenario, resolved_document, schema

WORLD = """
name: small-world
fleet: {engines: 2, engine: {preset: sglang, kv_tokens: 20000}}
workload:
  kind: rollout
  groups: 4
  samples_per_group: 2
  prompt: {group_tokens: 64}
  output_tokens: {kind: lognormal, median: 16, sigma: 0.3}
  max_tokens: 64
router: {policy: {kind: sticky_least_loaded}}
arms:
  first: {}
  random: {router: {policy: {kind: sticky_least_loaded, tie: random}}}
"""


def load(tmp_path: Path, *entries: str):
    file = tmp_path / "small.yaml"
    file.write_text(WORLD + ("assumptions:\n" if entries else "") + "".join(f"  - {each}\n" for each in entries))
    return load_scenario(file)


def test_an_entry_says_how_a_value_is_known(tmp_path: Path) -> None:
    """All of it is kept; what is not said is guessed, without range."""
    full = "{field: fleet.engine.kv_tokens, range: [10000, 30000], basis: measured, who: me, gpu_hours: 2, says: room}"
    one, other = load(tmp_path, full, "{field: workload.groups, basis: documented}").assumptions
    assert (one.field, one.range, one.basis, one.who, one.gpu_hours, one.says) == (
        "fleet.engine.kv_tokens",
        (10000, 30000),
        "measured",
        "me",
        2.0,
        "room",
    )
    assert (other.ends, other.basis, other.who) == ((), "documented", None)


def test_cells_do_not_change(tmp_path: Path) -> None:
    """Stored results stay valid when somebody writes down what they know."""
    plain, stated = load(tmp_path), load(tmp_path, "{field: workload.groups, range: [2, 8]}")
    assert {name: cell.hash for name, cell in plain.arms.items()} == {n: c.hash for n, c in stated.arms.items()}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{field: flet.engines, range: [1, 2]}", "small.yaml:16: assumptions.0.field: 'flet.engines' is no field"),
        (
            "{field: fleet.engine.kv_toks, range: [1, 2]}",
            "small.yaml:16: fleet.engine.kv_toks: unknown key; did you mean",
        ),
        ("{field: fleet.engine.cost.slowdon, range: [1, 2]}", "cost.slowdon: unknown key; did you mean 'slowdown'"),
        ("{field: workload.group, basis: measured}", "a cell has no 'group' there; did you mean 'groups'"),
        ("{field: fleet.engines, range: [2, 3.5]}", "small.yaml:16: fleet.engines: must be an integer, not 3.5"),
        ("{field: fleet.engines, range: [low, 8]}", "assumptions.0.range.0: must be a finite number, not 'low'"),
        ("{field: fleet.engines, range: [1, yes]}", "assumptions.0.range.1: must be a finite number, not "),
        ("{field: fleet.engines, range: [1, .inf]}", "assumptions.0.range.1: must be a finite number, not "),
        (
            "{field: fleet.engines, values: [2, 2]}",
            "small.yaml:16: assumptions.0.field: fleet.engines has this value already",
        ),
        ("{field: fleet.engines, range: [3, 8]}", "fleet.engines is 2, which 3 to 8 leaves out"),
        ("{field: fleet.engines, range: [3, 2]}", "the low end must be below the high end, not 3 and 2"),
        ("{field: fleet.engines, range: [1, 2], values: [3]}", "assumptions.0.values: has no place beside range"),
        ("{field: fleet.engine.visibility, values: [at_schedul]}", "did you mean 'at_schedule'"),
        ("{field: fleet.engines, basis: mesured}", "did you mean 'measured'"),
        ("{field: arms.frist.workload.groups, range: [2, 8]}", "no arm is named 'frist'; did you mean 'first'"),
        ("{feld: fleet.engines}", "assumptions.0.feld: unknown key; did you mean 'field'"),
        ("{field: fleet.engines, range: [1, 2], gpu_hours: -1}", "gpu_hours: must be 0 or more, not -1"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, entry: str, says: str) -> None:
    """File, line, and the nearest name, as for an arm."""
    with pytest.raises(ScenarioError) as caught:
        load(tmp_path, entry)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_field_stands_once(tmp_path: Path) -> None:
    """Two ranges of one field contradict each other."""
    with pytest.raises(ScenarioError, match="yaml:17: assumptions.1.field: workload.groups stands here twice"):
        load(tmp_path, "{field: workload.groups, range: [2, 8]}", "{field: workload.groups, range: [2, 9]}")


def test_settings_reach_both_arms_or_one(tmp_path: Path) -> None:
    """A path reaches every arm; behind ``arms.NAME.`` that one alone. A component left to its default gets its kind."""
    scenario = load(tmp_path)
    both = scenario.varied({"fleet.engine.cost.slowdown": 1.4, "workload.output_tokens.median": 20.0})
    for cell in both.arms.values():
        assert cell.resolved["fleet"]["engine"]["cost"]["slowdown"] == 1.4
        assert cell.resolved["workload"]["output_tokens"]["median"] == 20.0
    one = scenario.varied({"arms.random.router.policy.tie": "rotate"})
    assert one.arms["first"].hash == scenario.arms["first"].hash
    assert one.arms["random"].resolved["router"]["policy"]["tie"] == "rotate"


def test_the_document_and_the_schema_know_it(tmp_path: Path) -> None:
    """What the resolved scenario says is loaded as the same; the schema passes it and refuses a wrong key."""
    scenario = load(tmp_path, "{field: workload.groups, range: [2, 8], who: me}")
    said = resolved_document(scenario)
    assert said["assumptions"] == [{"field": "workload.groups", "range": [2, 8], "basis": "guessed", "who": "me"}]
    validator = jsonschema.Draft202012Validator(schema())
    assert validator.is_valid(said)
    assert not validator.is_valid({**said, "assumptions": [{"feld": "workload.groups"}]})
