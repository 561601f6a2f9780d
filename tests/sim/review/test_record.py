"""Parts 5 and 6: null controls that can fail, truths and ratios on record, regions of engines that join."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim import load_scenario, review
from sim.report.contrast import Lines
from sim.review import _controls
from sim.review._gather import regions
from sim.review.parts.calibration import calibration, nearest, resembling
from sim.review.parts.verification import verification
from sim.validation import agreement, read_record

TIGHT = """name: tight
fleet: {engines: 2, engine: {preset: vllm, kv_tokens: 4000, cost: {kind: constant, step_ms: 1}}}
workload:
  {kind: rollout, groups: 4, samples_per_group: 6, prompt: {group_tokens: 256}, output_tokens: 400, max_tokens: 400}
router: {policy: {kind: sglang.consistent_hashing}}
arms:
  sample: {client: {key_scope: session}}
  group: {client: {key_scope: group}}
metrics: [samples_per_s]
"""
TYPES = """name: types
fleet:
  engines:
    fast: {count: 1, engine: {preset: vllm, device: h100-80gb, model: qwen3-8b}}
    slow: {count: 2, engine: {preset: vllm, kv_tokens: 100000, cost: {kind: constant, step_ms: 1}}}
  changes: [{what: join, at_s: 9, type: slow}, {what: join, at_s: 1, type: fast, count: 2}]
workload: {kind: rollout, groups: 4, samples_per_group: 2, prompt: {group_tokens: 64}, output_tokens: 9, max_tokens: 9}
router: {policy: {kind: round_robin}}
"""


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tight")
    (folder / "tight.yaml").write_text(TIGHT, encoding="utf-8")
    scenario, _, candidate = review.choose(load_scenario(folder / "tight.yaml").select(pairs=3), None, None)
    return review.gather(scenario, candidate, Lines(), out=folder / "results")


def cells(evidence):
    """The two arms."""
    return evidence.cell("sample"), evidence.cell("group")


def held(evidence) -> dict[str, bool | None]:
    """Verdicts of the null controls."""
    found = _controls.controls(cells(evidence), ("sample", "group"), evidence.tables)
    return {each.says.split(":")[0]: each.held for each in found}


def test_controls_hold_in_a_world_that_preempts(evidence) -> None:
    """Memory is short and prompts are shared here; taken away, nothing is preempted and nothing found."""
    requests = evidence.tables["sample"].requests
    assert requests["preemptions"].sum() > 0
    assert requests["cached_tokens"].sum() > 0
    assert held(evidence) == dict.fromkeys(("equal arms", "one engine", "no reuse", "endless KV"), True)


def test_controls_can_fail(evidence, monkeypatch) -> None:
    """Prompts that stay shared, memory that stays short, an arm that is another one: each fails its control alone."""
    with monkeypatch.context() as planted:
        planted.setattr(_controls.Unshared, "generate", lambda own, streams, base: own.whole.generate(streams, base))
        assert [name for name, fine in held(evidence).items() if not fine] == ["no reuse"]
    with monkeypatch.context() as planted:
        planted.setattr(_controls, "roomy", lambda engine: engine)
        assert [name for name, fine in held(evidence).items() if not fine] == ["endless KV"]
    swapped = replace(evidence, tables={"sample": evidence.tables["group"], "group": evidence.tables["group"]})
    assert [name for name, fine in held(swapped).items() if not fine] == ["equal arms"]


def test_too_many_requests_are_not_run_again(evidence, monkeypatch) -> None:
    """They say so and do not hold."""
    monkeypatch.setattr(_controls, "MOST_AGAIN", 10)
    assert held(evidence)["equal arms, no reuse, endless KV"] is None


def test_truths_on_record_are_shown(evidence) -> None:
    """Every analytic truth and null control of the record, with its verdict; one that failed is counted out."""
    part = verification(evidence)
    record = read_record()
    assert len(part.tables[1].rows) == len(record.truths) > 40
    assert f"{len(record.truths)} of {len(record.truths)} hold" in part.text[0]
    case = record.cases[0]
    failed = replace(case, rows=(replace(case.rows[0], kind="truth", verdict="missed"), *case.rows[1:]))
    worse = replace(evidence, record=replace(record, cases=(failed, *record.cases[1:])))
    shown = verification(worse)
    assert f"{len(worse.record.truths) - 1} of {len(worse.record.truths)} hold" in shown.text[0]


def test_a_bound_is_shown_as_a_bound(evidence) -> None:
    """What may only be less than one is no value of one; a value with a band on both sides is no bound."""
    rows = {row[1]: row[3] for row in verification(evidence).tables[1].rows}
    assert rows["the shortest of four over the better of two"] == "<= 1"
    assert rows["one queue over the shortest of four, mean wait"] == "<= 1"
    assert rows["fewest sessions first: largest less smallest"] == "1"
    assert rows["tokens found by kv, when nothing is reused"] == "0"  # a value, within a tolerance of one side


def test_a_stale_record_is_told(evidence) -> None:
    """In both parts that show it, and only then."""
    old = replace(evidence, record=replace(evidence.record, results_version=1))
    for part in (verification, calibration):
        assert not any("STALE" in each for each in part(evidence).text)
        assert any("STALE: the record is of results version 1" in each for each in part(old).text)


def test_ratio_errors_are_those_of_the_record(evidence) -> None:
    """Of all cases, and of those that share a scheduler, a device, a policy or a workload with this one."""
    table = next(each for each in calibration(evidence).tables if each.id == "6.3")
    found = agreement(evidence.record.ratios)
    assert table.rows[0][1:4] == (str(found.ratios), f"{found.tau:+.2f}", f"{found.ordered} of {found.ratios}")
    near = [row for case, _ in resembling(evidence) for row in case.ratios]
    assert table.rows[1][1] == str(len(near))
    assert 0 < len(near) < found.ratios
    assert "NVIDIA-NeMo/RL 3663" in table.note
    names = [row[0] for row in calibration(evidence).tables[3].rows]
    assert names[0] in ("slime_groups", "slime_turns", "relax", "skyrl_pressure")


def test_page_one_says_how_published_ratios_came_out(evidence) -> None:
    """Of cases like this one; of all where none is like it."""

    def said(ev) -> str:
        return next(
            line.says for line in review.review_of(ev, "windtunnel review x").page if line.field == "calibration"
        )

    near = agreement([row for case, _ in resembling(evidence) for row in case.ratios])
    every = agreement(evidence.record.ratios)
    of = f"by {near.ratios} published ratios of similar cases ({every.ratios} on record)"
    assert f"{of}: {near.ordered} came out in the published order" in said(evidence)
    strange = replace(evidence, traits=replace(evidence.traits, presets=(), devices=(), models=(), policies=()))
    assert f"by {every.ratios} published ratios, none of a similar case: {every.ordered} came out" in said(strange)


def test_engines_that_join_have_the_region_of_their_type(tmp_path: Path) -> None:
    """In the order of their times, behind those of the beginning; a constant cost has none."""
    (tmp_path / "types.yaml").write_text(TYPES, encoding="utf-8")
    [cell] = load_scenario(tmp_path / "types.yaml").arms.values()
    assert [each is not None for each in regions(cell)] == [True, False, False, True, True, False]


def test_a_measurement_of_such_a_world_is_named(evidence) -> None:
    """All traits of a measured case: it is named; one trait less: nothing of this kind was measured."""
    case = next(each for each in evidence.record.cases if each.name == "slime_groups")
    assert "slime_groups of docs" in nearest(replace(evidence, traits=case.traits))
    other = replace(case.traits, devices=("no such device",))
    assert nearest(replace(evidence, traits=other)).startswith("No measurement")
