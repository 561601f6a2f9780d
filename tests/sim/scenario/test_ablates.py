"""Arms that say what they take away from which other one."""

import pytest

from sim import load_scenario
from sim.errors import ScenarioError
from sim.log.account import AFTER, MECHANISMS, SHARES
from sim.report.ledger import LINES
from sim.scenario import check, resolved_document

WORLD = """name: little
fleet: {engines: 2, engine: {preset: vllm, kv_tokens: 10000, cost: {kind: constant, step_ms: 1}}}
workload: {kind: rollout, groups: 5, samples_per_group: 2, prompt: {group_tokens: 64}, output_tokens: 9, max_tokens: 9}
router: {policy: {kind: modulo}}
arms:
  sample: {client: {key_scope: session}}
  group: {client: {key_scope: group}}
  scattered: {client: {key_scope: request}, ablates: ABLATES}
"""
GOOD = "{arm: group, mechanism: saved prefill}"


def written(tmp_path, ablates=GOOD, world=WORLD):
    """The file of a scenario."""
    path = tmp_path / "little.yaml"
    path.write_text(world.replace("ABLATES", ablates), encoding="utf-8")
    return path


def test_mechanisms_are_the_ledger():
    """Every line is of one mechanism, so that mechanisms add up as lines do."""
    lines = [line for own in MECHANISMS.values() for line in own]
    assert sorted(lines) == sorted((*SHARES, AFTER)) == sorted(LINES)


def test_an_arm_says_what_it_takes_away(tmp_path):
    """It is no part of the cell, and comes back in the resolved document."""
    found = load_scenario(written(tmp_path))
    own = found.ablations["scattered"]
    assert (own.arm, own.mechanism) == ("group", "saved prefill")
    plain = load_scenario(written(tmp_path, world=WORLD.replace(", ablates: ABLATES", "")))
    assert found.arms["scattered"].hash == plain.arms["scattered"].hash
    assert resolved_document(found)["arms"]["scattered"]["ablates"] == {"arm": "group", "mechanism": "saved prefill"}
    assert not found.select(arms=["group"]).ablations
    assert check(found).facts


@pytest.mark.parametrize(
    ("ablates", "said"),
    [
        ("group", r"arms\.scattered\.ablates: must be a mapping {arm: ..., mechanism: ...}, not 'group'"),
        ("{arm: grup, mechanism: saved prefill}", "unknown arm 'grup'; did you mean 'group'"),
        ("{arm: scattered, mechanism: saved prefill}", "unknown arm 'scattered'"),
        ("{arm: group, mechanism: saved prefil}", "unknown mechanism 'saved prefil'; did you mean 'saved prefill'"),
        ("{arm: group}", "required key mechanism is missing"),
        ("{arm: group, mechanism: imbalance, why: x}", "unknown key"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, ablates, said):
    """With file and line."""
    with pytest.raises(ScenarioError, match=r"little.yaml:8: .*" + said):
        load_scenario(written(tmp_path, ablates))


def test_an_ablation_takes_one_thing_away(tmp_path):
    """Two fields are two causes."""
    world = WORLD.replace("key_scope: request}", "key_scope: request, max_sessions_in_flight: 3}")
    with pytest.raises(ScenarioError, match="arm scattered differs from group in 2 fields .*takes one thing away"):
        check(load_scenario(written(tmp_path, world=world)))
