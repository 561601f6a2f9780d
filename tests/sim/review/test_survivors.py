"""Arms that do not serve what they are asked for: no control fails by that, and no ratio of survivors decides."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from sim import load_scenario, review
from sim.metrics import METRICS
from sim.report.contrast import Lines
from sim.review._gather import OF_ALL, unequal_work
from sim.review._risks import conditions

BUSY = """name: busy
fleet:
  engines: 2
  engine: {preset: vllm, kv_tokens: 40000, max_num_seqs: 4, cost: {kind: constant, step_ms: 8, per_sequence_ms: 0.3}}
workload:
  {kind: rollout, groups: 60, samples_per_group: 1, prompt: {group_tokens: 300}, output_tokens: 60, max_tokens: 60,
   arrivals: {kind: poisson, groups_per_s: 40}}
router: {policy: {kind: least_load, tie: random}}
arms:
  queues: {}
  changed: {CHANGE}
metrics: [METRIC]
"""
REFUSES = "router: {limit: {concurrency: 8, queue_requests: 0}}"
CAPPED = "client: {max_sessions_in_flight: 2}"
OTHER = "router: {policy: {kind: round_robin}}"


def gathered(folder: Path, change: str, metric: str = "e2e_p95_s"):
    text = BUSY.replace("CHANGE", change).replace("METRIC", metric)
    (folder / "busy.yaml").write_text(text, encoding="utf-8")
    scenario, _, candidate = review.choose(load_scenario(folder / "busy.yaml").select(pairs=4), None, None)
    return review.gather(scenario, candidate, Lines(), out=folder / "results")


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    return gathered(tmp_path_factory.mktemp("refusing"), REFUSES)


def one_engine(evidence):
    (found,) = (each for each in evidence.checks if each.says.startswith("one engine"))
    return found


def test_one_engine_is_no_control_of_a_limit(refusing) -> None:
    """The arm fails requests, which one engine fails too, so the control is not run and no check fails."""
    assert one_engine(refusing).held is None
    assert "not run, arm changed refuses or fails requests" in one_engine(refusing).says
    assert not any("a check failed" in each for each in review.review_of(refusing, "x").judgement.because)


def test_one_engine_is_no_control_of_a_cap(tmp_path: Path) -> None:
    """No request is lost, but a cap in the client acts on one engine too; a policy alone does not."""
    capped = one_engine(gathered(tmp_path, CAPPED))
    assert capped.held is None
    assert "client.max_sessions_in_flight differs" in capped.says
    assert one_engine(gathered(tmp_path, OTHER)).held is True


def test_survivors_are_not_compared(refusing, tmp_path: Path) -> None:
    """Every metric of what was served says so, and none is recommended on; one of what was asked is compared."""
    found = review.review_of(refusing, "x")
    lost = unequal_work(refusing)
    assert "240 of 240 requests finished in queues" in lost
    table = {row[0]: row[-1] for row in found.parts[6].tables[0].rows}
    assert {"e2e_p95_s", "prefill_tokens", "group_completion_p95_s", "failed"} <= table.keys()
    assert "rejected" not in table
    for metric, verdict in table.items():
        assert (verdict == f"not comparable: {lost}") == (metric not in OF_ALL)
    assert any("e2e_p95_s is of the requests that were served" in each for each in found.judgement.because)
    assert lost in found.parts[7].text[0]
    assert next(line.says for line in found.page if line.field == "why").startswith("The arms did not do the same")
    effect = next(line.says for line in found.page if line.field == "predicted effect")
    assert effect.startswith(f"Not comparable: {lost}. ")
    counted = review.review_of(gathered(tmp_path, REFUSES, "goodput_per_s"), "x")
    assert not any("were served" in each for each in counted.judgement.because)


def test_equal_work_is_compared(tmp_path: Path) -> None:
    """Nothing is lost: no word of it."""
    evidence = gathered(tmp_path, OTHER)
    assert not unequal_work(evidence)
    assert not any("not comparable" in row[-1] for row in review.review_of(evidence, "x").parts[6].tables[0].rows)
    assert METRICS.keys() >= set(OF_ALL)


def test_what_holds_in_every_pair_triggers_nothing(tmp_path: Path) -> None:
    """A candidate that is worse in all pairs is so at every load: no threshold of the load is its trigger."""
    evidence = gathered(tmp_path, "router: {overhead_s: 2.0}")
    found = conditions(evidence)
    always = [each for each in found if each.is_always]
    assert always
    assert not any(each.is_worse for each in always)
    assert all(each.pairs == evidence.pairs for each in always)
    said = next(line.says for line in review.review_of(evidence, "x").page if line.field == "chance of a regression")
    assert all(f"Trigger: {each.says}" not in said for each in always)
    assert math.isclose(always[0].frequency, 1)


def test_constant_steps_have_no_error(refusing) -> None:
    """A scenario that gives its step times has measured none."""
    said = next(line.says for line in review.review_of(refusing, "x").page if line.field == "calibration")
    assert "not stated" not in said
    assert "given by the scenario (constant), not measured" in said


def test_a_warning_is_said_once(refusing) -> None:
    """What the result says of two named arms, the contrast need not say again."""
    note = "no decision differs, but for the names of engines"
    twice = replace(refusing, found=replace(refusing.found, notes=[note]))
    twice = replace(twice, result=replace(twice.result, warnings=[f"arms a and b: {note}"]))
    assert sum(note in each for each in review.review_of(twice, "x").warnings) == 1


def test_backticks_are_code(refusing) -> None:
    """In the page; what they hold is still escaped."""
    found = replace(review.review_of(refusing, "x"), warnings=["set `a < b` now"])
    assert '<li class="warning">set <code>a &lt; b</code> now</li>' in review.html(found, review.figures(refusing))
