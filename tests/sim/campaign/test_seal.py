"""What is sealed is the same each time, is whole, and is found out to the byte when it is touched."""

import hashlib
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import campaign, review
from sim.campaign._forecast import Components
from sim.errors import ScenarioError
from sim.export import check_export
from sim.stats.power import power
from tests.sim.campaign.conftest import PAIRS, gathered


def test_sealing_again_gives_the_same_digest(evidence, made, tmp_path):
    """In another folder, under another date; a date is no part of it. A folder that holds it already is left alone."""
    choice = campaign.Choice(pairs=PAIRS, draws=8, date="a day")
    again = campaign.make({evidence.scenario.name: evidence}, tmp_path / "x", choice)
    assert again.digest == made.digest
    assert (again.date, made.date) == ("a day", None)
    assert campaign.make({evidence.scenario.name: evidence}, tmp_path / "x", replace(choice, date="b")).date == "a day"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_another_campaign_has_another_digest_and_does_not_replace_it(evidence, seal):
    """More draws, more pairs, no extension, another cell's name: each changes it; the seal that is there stays."""
    name = evidence.scenario.name
    base = campaign.Choice(pairs=2, draws=2)
    seen = {seal.digest}
    for cell, choice in (
        (name, base),
        (name, replace(base, draws=3)),
        (name, replace(base, pairs=3)),
        (name, replace(base, extension=False)),
        ("other", base),
    ):
        folder = seal.folder.with_name(f"n{len(seen)}")
        seen.add(campaign.make({cell: evidence}, folder, choice).digest)
    assert len(seen) == 6
    with pytest.raises(ScenarioError, match="holds another seal"):
        campaign.make({name: evidence}, seal.folder, base)
    assert campaign.verify(seal.folder).digest == seal.digest


def test_every_file_is_listed_with_its_digest(seal):
    """All but the seal itself; the digest is that of the list, so it can be checked with any tool."""
    there = {str(path.relative_to(seal.folder)) for path in seal.folder.rglob("*") if path.is_file()} - {"seal.json"}
    assert there == set(seal.files)
    for name, digest in seal.files.items():
        assert hashlib.sha256((seal.folder / name).read_bytes()).hexdigest() == digest
    document = json.loads((seal.folder / "seal.json").read_bytes())
    body = {key: value for key, value in document.items() if key not in ("digest", "date")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == seal.digest
    check_export(seal.folder / "cells" / "slime-group-affinity")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_byte_breaks_it(made, data):
    """Any byte of any file, changed to any other: the file is named, in one line."""
    names = ["seal.json", *made.files]
    name = data.draw(st.sampled_from(sorted(names)))
    path = made.folder / name
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[at]))
    try:
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        with pytest.raises(ScenarioError) as found:
            campaign.verify(made.folder)
        assert str(path) in str(found.value)
        assert "broken seal" in str(found.value)
        assert "\n" not in str(found.value)
    finally:
        path.write_bytes(whole)
    campaign.verify(made.folder)


def test_a_whole_seal_of_another_version_is_not_called_broken(seal):
    """Its digest fits; what it says is read by the version that wrote it."""
    path = seal.folder / "seal.json"
    document = json.loads(path.read_bytes()) | {"schema": "windtunnel.seal/2"}
    del document["digest"], document["date"]
    digest = hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    text = json.dumps(document | {"digest": digest, "date": None}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(
        ScenarioError, match="sealed as windtunnel.seal/2, this is windtunnel.seal/1: score it with the"
    ):
        campaign.verify(seal.folder)


@pytest.mark.parametrize(
    "name", ["prediction.json", "rule.json", "rule.txt", "runs.json", "cells/slime-group-affinity/windtunnel-1.jsonl"]
)
def test_a_missing_or_longer_file_breaks_it(seal, name):
    """Named."""
    path = seal.folder / name
    whole = path.read_bytes()
    path.write_bytes(whole + b" ")
    with pytest.raises(ScenarioError, match=f"{name}: broken seal: it was changed after it was sealed"):
        campaign.verify(seal.folder)
    path.unlink()
    with pytest.raises(ScenarioError, match=f"{name}: broken seal: No such file"):
        campaign.verify(seal.folder)


def test_a_seal_made_anew_is_not_the_one_published(evidence, seal, tmp_path):
    """Its digest is compared with what was published."""
    other = campaign.make({evidence.scenario.name: evidence}, tmp_path / "x", campaign.Choice(pairs=2, draws=2))
    with pytest.raises(ScenarioError, match="another seal than the one published"):
        campaign.verify(other.folder, seal.digest)
    assert campaign.verify(seal.folder, seal.digest).digest == seal.digest


def test_a_digest_may_be_as_a_page_shows_it(seal):
    """Its first 16 digits or more, in capitals or not; fewer tell nothing, others are another seal's."""
    for said in (seal.digest[:16], seal.digest[:20].upper(), f" {seal.digest.upper()}"):
        assert campaign.verify(seal.folder, said).digest == seal.digest
    for said in (seal.digest[:15], "", seal.digest + "0", "g" * 16):
        with pytest.raises(
            ScenarioError, match="is no digest: it is the 64 hexadecimal digits of a seal, or its first 16"
        ):
            campaign.verify(seal.folder, said)
    other = ("0" if seal.digest[15] != "0" else "1").join((seal.digest[:15], seal.digest[16:]))
    for said in (other, other[:16]):
        with pytest.raises(ScenarioError, match="another seal than the one published"):
            campaign.verify(seal.folder, said)


@given(
    st.lists(st.floats(0.01, 1e4), min_size=2, max_size=6),
    st.floats(0, 1e4),
    st.floats(0, 1e4),
    st.integers(2, 50),
    st.sampled_from(["samples_per_s", "prefix_hit_rate"]),
)
def test_an_arms_own_ends_are_values_that_it_can_have(centres, input_sd, pair_sd, draws, metric):
    """Around the mean, none below 0, none of a share above 1; near the plain ends where these are close."""
    if metric == "prefix_hit_rate":
        centres = [each / 1e4 for each in centres]
    found = Components(tuple(centres), input_sd, pair_sd, draws)
    pairs = range(len(centres))
    for is_positive in (True, False):
        mean, lo, hi = found.own(metric, pairs, None, is_positive=is_positive)
        assert mean == pytest.approx(np.mean(centres))
        assert 0 <= lo <= mean * (1 + 1e-9)
        assert mean * (1 - 1e-9) <= hi < np.inf
        assert hi <= 1 or metric == "samples_per_s"
    close = Components(tuple(centres), 1e-5 * mean, 0.0, 50).own("samples_per_s", pairs, None, is_positive=True)
    plain = Components(tuple(centres), 1e-5 * mean, 0.0, 50).interval(pairs)
    assert close == pytest.approx(plain, rel=1e-8)


def test_two_draws_predict_no_rate_below_zero(evidence, tmp_path):
    """Student's t of one degree of freedom reaches far; what is sealed is a rate all the same."""
    two = campaign.make({evidence.scenario.name: evidence}, tmp_path / "x", campaign.Choice(pairs=2, draws=2))
    [cell] = two.prediction["cells"].values()
    looks = [look for metric in cell["metrics"].values() for arm in metric["arms"].values() for look in arm["looks"]]
    assert all(0 <= look["lo"] <= look["mean"] <= look["hi"] for look in looks)


def test_another_version_is_told(seal, monkeypatch):
    """Numbers of another results version are not held against this one's."""
    monkeypatch.setattr("sim.campaign._seal.RESULTS_VERSION", 10**6)
    with pytest.raises(ScenarioError, match="score it with the version that sealed it"):
        campaign.verify(seal.folder)


def test_arms_that_differ_in_two_fields_are_not_sealed(tmp_path):
    """A pair would show two effects at once."""
    arm = "arms.group={client: {key_scope: group, max_sessions_in_flight: 3}}"
    with pytest.raises(ScenarioError, match="differ in 2 fields"):
        gathered(tmp_path, "slime_group_affinity", arm, pairs=2)


def test_what_cannot_be_measured_is_not_sealed(tmp_path):
    """A first metric that no results file has."""
    ev = gathered(tmp_path, "slime_group_affinity", "metrics=[load_busy_max_over_mean]", pairs=2)
    with pytest.raises(ScenarioError, match="load_busy_max_over_mean, the first metric, cannot be measured: busy time"):
        campaign.make({"a": ev}, tmp_path / "seal", campaign.Choice(pairs=2, draws=2))
    assert not (tmp_path / "seal").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".seal")]


def test_runs_are_in_the_order_of_running_with_what_their_headers_say(seal):
    """Both looks; each pair runs both arms; the order is the export's."""
    assert len(seal.runs) == 2 * 2 * PAIRS
    manifest = json.loads((seal.folder / "cells/slime-group-affinity/manifest.json").read_bytes())
    assert [(run["pair"], run["arm"]) for run in seal.runs] == [
        (pair, arm) for pair, arms in enumerate(manifest["order"]) for arm in arms
    ]
    assert [run["look"] for run in seal.runs] == [0] * 2 * PAIRS + [1] * 2 * PAIRS
    for run in seal.runs:
        for name, digest in run["traces"].items():
            assert seal.files[name] == digest
    for arm in ("sample", "group"):
        folder = seal.folder / "cells/slime-group-affinity/arms" / arm
        names = sorted(path.name for path in folder.iterdir())
        printed = subprocess.run(["sha256sum", *names], cwd=folder, capture_output=True, check=True).stdout
        summed = hashlib.sha256(printed).hexdigest()
        assert {run["config_sha256"] for run in seal.runs if run["arm"] == arm} == {summed}
    assert len({run["config_sha256"] for run in seal.runs}) == 2


def test_the_prediction_is_that_of_its_own_traces(evidence, seal):
    """Centres near the simulated pairs; an interval for each look, wider for fewer pairs; absolute values."""
    cell = seal.prediction["cells"]["slime-group-affinity"]
    assert cell["arms"] == {name: evidence.cell(name).hash for name in ("sample", "group")}
    assert cell["change"] == {"field": "client.key_scope", "sample": "session", "group": "group"}
    says = cell["metrics"]["samples_per_s"]
    assert says["simulated"]["ratio"] == pytest.approx(evidence.primary.paired.ratio)
    simulated = np.log(
        evidence.result.arms["group"].column("samples_per_s") / evidence.result.arms["sample"].column("samples_per_s")
    )
    assert np.corrcoef(simulated, says["campaign"]["pairs"])[0, 1] > 0.97
    looks = says["campaign"]["looks"]
    assert [each["pairs"] for each in looks] == [PAIRS, 2 * PAIRS]
    for look in looks:
        assert look["lo"] < look["ratio"] < look["hi"]
    assert np.log(looks[0]["hi"] / looks[0]["lo"]) > np.log(looks[1]["hi"] / looks[1]["lo"])
    assert says["campaign"]["pair_sd"] >= 2**0.5 * 0.018
    for arm in ("sample", "group"):
        assert says["arms"][arm]["looks"][0]["lo"] < evidence.result.means[arm]["samples_per_s"].mean * 1.3
    assert "prefix_hit_rate" in cell["metrics"]
    assert "load_busy_max_over_mean" not in cell["metrics"]
    assert "load_busy_max_over_mean" in seal.prediction["not_measured"]


def test_the_parts_of_the_review_know_the_seal(evidence, seal):
    """Before: how to seal. After: the digest, the rule as it was sealed, every file with its digest."""
    before = review.review_of(evidence, "windtunnel review x --ablation 'a b' --harm 0.04 --sensitivity-pairs 2")
    parts = {part.number: part for part in before.parts}
    assert parts[12].fixed == review.rule_of(evidence).text()
    assert "Not sealed" in parts[12].text[0]
    assert parts[13].fixed.startswith("windtunnel seal x --harm 0.04\n")
    after = campaign.reviewed(evidence, seal, "windtunnel review x")
    parts = {part.number: part for part in after.parts}
    cost = next(line.says for line in after.page if line.field == "real runs and their cost")
    assert cost.startswith(f"{PAIRS} pairs a cell, as sealed = {2 * PAIRS} runs x 2 GPUs x ")
    assert parts[11].text[0].startswith(f"Sealed are {PAIRS} pairs a cell, ")
    chance = f"with a probability of {power(PAIRS, 0.05, evidence.plan.spread.real, level=seal.rule.level(0)):.0%}"
    assert chance in parts[11].text[0]
    assert f"are extended ({2 * PAIRS} pairs, " in cost
    assert review.rule_of(campaign.with_seal(evidence, seal)).pairs == PAIRS != review.rule_of(evidence).pairs
    assert seal.digest in parts[12].text[0]
    assert parts[12].fixed == seal.rule.text() == (seal.folder / "rule.txt").read_text().rstrip("\n")
    rows = dict(parts[13].tables[0].rows)
    assert rows["prediction.json"] == seal.files["prediction.json"]
    assert {name for name in seal.files if "/windtunnel-" not in name} <= set(rows)
    assert seal.digest in parts[17].text[-1]
    assert any(seal.digest[:16] in line.says for line in after.page if line.field == "decision rule")


def test_an_arm_that_no_product_can_run_is_warned_of(seal, tmp_path):
    """The export said so; a campaign of it would measure another rule."""
    copy = shutil.copytree(seal.folder, tmp_path / "copy")
    [cell] = seal.prediction["cells"].values()
    path = copy / cell["folder"] / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["arms"][1]["impossible"] = ["router.policy.x = 1: the product has 2"]
    path.write_text(json.dumps(manifest))
    [warning] = campaign.warnings(replace(seal, folder=copy))
    assert warning.endswith("arm group cannot be run as simulated: router.policy.x = 1: the product has 2")


def test_guardrails_that_the_simulation_passes_are_told(seal):
    """Such a campaign would stop."""
    assert campaign.warnings(seal) == []
    seal.prediction["cells"]["slime-group-affinity"]["guardrails"]["group"]["preempted_share"] = 0.3
    assert "arm group: preempted share is predicted to be 30.0%" in campaign.warnings(seal)[0]


def test_a_folder_of_something_else_is_left_alone(evidence, tmp_path):
    """Not emptied, not mixed."""
    (tmp_path / "seal").mkdir()
    (tmp_path / "seal" / "mine.txt").write_text("mine")
    with pytest.raises(ScenarioError, match="is not empty and holds no seal"):
        campaign.make({"a": evidence}, tmp_path / "seal", campaign.Choice(pairs=2, draws=2))
    assert [path.name for path in tmp_path.iterdir()] == ["seal"]


def test_a_seal_is_found_above_its_results(seal, tmp_path):
    """Results in the sealed folder need no option."""
    (seal.folder / "results").mkdir()
    assert campaign.find_seal(seal.folder / "results") == seal.folder.resolve()
    shutil.rmtree(seal.folder)
    with pytest.raises(ScenarioError, match="name the sealed folder with --seal"):
        campaign.find_seal(Path(tmp_path))


def test_a_metric_without_a_better_side_has_a_review_and_no_rule(tmp_path):
    """The review says so in part 12; sealing refuses."""
    ev = gathered(tmp_path, "smoke", "metrics=[moved_turns_rate]", pairs=2)
    found = review.review_of(ev, "windtunnel review smoke")
    rule = next(part for part in found.parts if part.number == 12)
    assert (rule.fixed, rule.text) == (
        "",
        ["moved_turns_rate has no better side: no rule can rest on it. Name another first metric."],
    )
    assert "Decision rule" not in review.markdown(found)
    with pytest.raises(ScenarioError, match="moved_turns_rate has no better side"):
        campaign.make({"a": ev}, tmp_path / "seal", campaign.Choice(pairs=2, draws=2))
