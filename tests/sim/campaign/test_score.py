"""Results against a seal: what is foreign, missing or broken is refused, gates and guardrails act, verdicts follow."""

import json
import re
import shutil
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim import campaign
from sim.campaign._results import NEEDED, TIMES
from sim.cli._main import run_command
from sim.errors import ScenarioError
from sim.scenario import load_scenario
from tests.sim.campaign.conftest import PAIRS, gathered

CELL = "slime-group-affinity"


def rewrite(path, header=None, **each):
    """The header's fields, and fields of every request, otherwise; a function is called with the request."""
    head, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row | {name: value(row) if callable(value) else value for name, value in each.items()} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in (head | (header or {}), *rows)))


def of(results, pair, arm):
    return results / f"{CELL}-{pair}-{arm}.jsonl"


def test_the_scenarios_own_world_is_as_predicted(seal, results):
    """Nothing is off but the noise of runs: every interval holds, nothing is to be calibrated anew."""
    found = campaign.score(seal, results)
    assert found.coverage[0] == found.coverage[1] >= 4
    assert found.cells[0].pairs == list(range(PAIRS))
    assert found.cells[0].recalibrate == []
    assert found.excluded == found.notes == []
    assert found.look == 0
    primary = found.primary(CELL)
    for pair, predicted, measured in found.cells[0].by_pair:
        assert measured / predicted == pytest.approx(1, abs=0.08), pair
    assert primary.error == pytest.approx(0, abs=0.05)
    assert found.guardrails["group"] == {"failed_share": 0, "preempted_share": 0, "cold_hit_rate": 0}


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"seal": "0" * 64}, "is of another campaign: its seal is 0000000000000000"),
        ({"seal": ""}, "is of another campaign: its seal is empty"),
        ({"cell": "other"}, "cell other, pair 1, arm group is no run of this seal"),
        ({"pair": 77}, "pair 77, arm group is no run of this seal"),
        ({"arm": "grup"}, "arm grup is no run of this seal"),
        ({"trace_sha256": "0" * 64}, "was run on another trace than the one sealed for pair 1"),
        ({"engines": 3}, "was run on 3 engines, the sealed fleet of arm group has [0-9]+"),
        ({"config_sha256": "0" * 64}, "arm group was configured otherwise than sealed: the campaign stops"),
    ],
)
def test_foreign_results_are_refused(seal, results, header, says):
    """One line, with the file."""
    rewrite(of(results, 1, "group"), header)
    with pytest.raises(ScenarioError, match=says) as found:
        campaign.score(seal, results)
    assert str(of(results, 1, "group")) in str(found.value)
    assert "\n" not in str(found.value)


def test_results_of_another_pair_are_refused(seal, results):
    """Renamed, or relabelled with the trace of the pair that it claims to be."""
    shutil.copy(of(results, 0, "group"), of(results, 1, "group"))
    with pytest.raises(ScenarioError, match="the same run as"):
        campaign.score(seal, results)
    trace = seal.files[f"cells/{CELL}/windtunnel-1.jsonl"]
    rewrite(of(results, 1, "group"), {"pair": 1, "trace_sha256": trace}, rid=lambda row: row["rid"] + 1)
    with pytest.raises(ScenarioError, match="request 16 is not in the trace of pair 1"):
        campaign.score(seal, results)
    rewrite(of(results, 1, "group"), rid=lambda row: row["rid"] - 1)
    lines = of(results, 1, "group").read_text().splitlines(keepends=True)
    of(results, 1, "group").write_text("".join(lines[:-2]))
    with pytest.raises(ScenarioError, match=r"request \d+ of the trace is missing, 2 in all"):
        campaign.score(seal, results)


def test_a_missing_run_is_told(seal, results):
    """And so are those of a look that has begun."""
    of(results, 2, "sample").unlink()
    with pytest.raises(ScenarioError, match="no results of cell slime-group-affinity, pair 2, arm sample: all runs"):
        campaign.score(seal, results)


def test_a_second_look_needs_all_its_runs_and_holds_to_its_own_level(seal, cells, tmp_path):
    """Pairs 0 to 5; at 99 %."""
    campaign.rehearse(seal, cells, tmp_path / "r", campaign.World(1), looks=2)
    found = campaign.score(seal, tmp_path / "r")
    assert (found.look, found.ruling.level) == (1, 0.99)
    assert found.cells[0].pairs == list(range(2 * PAIRS))
    of(tmp_path / "r", 5, "group").unlink()
    with pytest.raises(ScenarioError, match="pair 5, arm group"):
        campaign.score(seal, tmp_path / "r")


def test_gates_leave_pairs_out_with_their_reasons(seal, results):
    """An engine that was started anew, a clock that runs backwards; the prediction is that of the pairs left."""
    rewrite(of(results, 0, "sample"), {"engine_restarts": 2})
    found = campaign.score(seal, results)
    assert found.excluded == [(CELL, 0, "sample: 2 engine restarts")]
    assert found.cells[0].pairs == [1, 2]
    centre = seal.prediction["cells"][CELL]["metrics"]["samples_per_s"]["campaign"]["pairs"]
    assert found.primary(CELL).predicted[0] == pytest.approx(2.718281828 ** ((centre[1] + centre[2]) / 2))
    rewrite(of(results, 1, "group"), last_s=lambda row: row["first_s"] - 1)
    found = campaign.score(seal, results)
    assert found.excluded[1] == (CELL, 1, "group: clock skew, the times of 16 requests run backwards")
    rewrite(of(results, 2, "group"), {"engine_restarts": 1})
    with pytest.raises(ScenarioError, match="the gates leave no pair"):
        campaign.score(seal, results)


@pytest.mark.parametrize(
    ("header", "each", "says"),
    [
        ({}, {"status": lambda row: "failed" if row["rid"] < 2 else "finished"}, "group: failures 4.2%, the guardrail"),
        ({}, {"preempted": lambda row: int(row["rid"] < 4)}, "group: preempted requests 8.3%, the guardrail is 5%"),
        ({"cold_hit_rate": 0.02}, {}, "group: cold-cache hit rate 2.0%, the guardrail is 1%"),
        ({}, {"cached": lambda row: row["input_tokens"] // 2}, "group: cold-cache hit rate 50.0%"),
    ],
)  # fmt: skip
def test_guardrails_stop(seal, results, header, each, says):
    """Whatever the ratios; shares are over an arm's requests of all pairs; 48 requests."""
    rewrite(of(results, 1, "group"), header, **each)
    found = campaign.score(seal, results)
    assert found.ruling.word == "STOPPED"
    assert any(says in each for each in found.ruling.because)


def test_one_request_below_a_guardrail_does_not(seal, results):
    """1 of 48 failed is 2.1 %, 2 of 48 preempted 4.2 %."""
    rewrite(of(results, 1, "group"), preempted=lambda row: int(row["rid"] < 2))
    assert campaign.score(seal, results).ruling.word != "STOPPED"


def test_lengths_and_order_that_are_not_the_sealed_ones_are_noted(seal, results):
    """They are no reason to refuse, and are said."""
    rewrite(
        of(results, 1, "group"),
        {"position": 5, "cold_hit_rate": None},
        output_tokens=lambda row: row["output_tokens"] + 1,
    )
    notes = "\n".join(campaign.score(seal, results).notes)
    assert "1 runs were not run in the sealed order" in notes
    assert "16 finished requests have other lengths" in notes
    assert "no check of cold caches" in notes


@pytest.mark.parametrize("fields", [("output_tokens",), ("input_tokens", "cached")])
def test_other_work_than_the_traces_is_no_pair(seal, results, fields):
    """Every finished request of one arm without its tokens: the pair is left out, on page one and in the terminal."""
    rewrite(of(results, 1, "group"), **dict.fromkeys(fields, 0))
    found = campaign.score(seal, results)
    [(cell, pair, why)] = found.excluded
    assert (cell, pair) == (CELL, 1)
    assert re.fullmatch(r"group: other work, \d+% of its tokens are not the trace's", why)
    assert found.cells[0].pairs == [0, 2]
    assert f"left out: pair 1 of {CELL}: {why}" in list(campaign.lines(found))
    campaign.write_score(found, results)
    assert f"pair 1 of {CELL} ({why})" in (results / "score.md").read_text(encoding="utf-8")


def test_a_run_in_which_everything_failed_stops_the_campaign(seal, results, capsys):
    """No ratio can be formed, and that is a verdict: a guardrail speaks before."""
    rewrite(of(results, 1, "group"), status="failed")
    assert run_command(["score", str(results), "--seal", str(seal.folder)]) == 0
    assert capsys.readouterr().out.startswith("STOPPED by a guardrail\n  group: failures 33.3%, the guardrail is 2%")
    assert json.loads((results / "score.json").read_bytes())["verdict"] == "STOPPED"


def test_results_may_lie_in_the_sealed_folder_with_the_order_of_runs_ticked_off(seal, results, capsys):
    """A seal is no result, nor a copy of the order of runs, nor another table; requests without a header are named."""
    shutil.copytree(results, seal.folder / "measured")
    order = (seal.folder / "cells" / CELL / "run_order.csv").read_text().splitlines()
    (seal.folder / "measured" / "ticked.csv").write_text(
        f"{order[0]},done\n" + "".join(f"{x},yes\n" for x in order[1:])
    )
    assert run_command(["score", str(seal.folder)]) == 0
    assert "sealed intervals hold" in capsys.readouterr().out
    (seal.folder / "measured" / "notes.csv").write_text("rid,remark\n0,slow\n")
    (seal.folder / "measured" / "a.csv").write_text(",".join(NEEDED) + "\n")
    assert run_command(["score", str(seal.folder)]) == 1
    assert "a.csv: its header is missing: a.header.json beside it" in capsys.readouterr().err


@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_a_clock_of_another_unit_is_no_measurement(seal, results, factor):
    """One arm in milliseconds would be a ratio of a thousand; where all runs are, no pair is left and that is said."""

    def in_unit(path):
        rewrite(path, **{name: lambda row, name=name: row[name] and factor * row[name] for name in TIMES})

    in_unit(of(results, 1, "group"))
    found = campaign.score(seal, results)
    [(_, pair, said)] = found.excluded
    assert (pair, found.cells[0].pairs) == (1, [0, 2])
    assert "group: its clock counts no seconds, a decoded token takes " in said
    for path in sorted(results.glob("*.jsonl")):
        if path != of(results, 1, "group"):
            in_unit(path)
    with pytest.raises(ScenarioError, match="the gates leave no pair; .* its clock counts no seconds"):
        campaign.score(seal, results)


def test_a_clock_that_stands_still_is_no_time(seal, results):
    """All times of a run alike: the pair is left out, and nothing is divided by zero."""
    rewrite(of(results, 1, "group"), **dict.fromkeys(TIMES, 0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = campaign.score(seal, results)
    assert found.excluded == [(CELL, 1, "group: its clock stands still, the whole run took no time")]
    assert found.cells[0].pairs == [0, 2]


def test_a_turn_before_the_one_that_it_follows_is_no_pair(tmp_path):
    """Sessions of several turns: the second is sent when the first has ended, whatever its own times say."""
    evidence = gathered(tmp_path / "out", "smoke", pairs=3)
    seal = campaign.make({"smoke": evidence}, tmp_path / "seal", campaign.Choice(2, extension=False, draws=2))
    campaign.rehearse(seal, {"smoke": evidence.scenario}, tmp_path / "measured", campaign.World(1))
    assert campaign.score(seal, tmp_path / "measured").excluded == []
    trace = [json.loads(each) for each in (seal.folder / "cells/smoke/windtunnel-0.jsonl").read_text().splitlines()[1:]]
    second = next(each for each in trace if each["arrive"]["mode"] == "after")
    first = trace[second["arrive"]["after_rid"]]["rid"]
    path = tmp_path / "measured" / f"smoke-0-{evidence.candidate}.jsonl"
    start = {row["rid"]: row["arrive_s"] for row in map(json.loads, path.read_text().splitlines()[1:])}[first]
    rewrite(path, arrive_s=lambda row: start if row["rid"] == second["rid"] else row["arrive_s"])
    said = f"{evidence.candidate}: 1 requests were sent before the one that they follow had ended"
    assert campaign.score(seal, tmp_path / "measured").excluded == [("smoke", 0, said)]


def test_nothing_but_a_seal_writes_into_a_sealed_folder(seal, results, tmp_path, capsys):
    """Reviews, exports and scores of other campaigns go elsewhere; every byte stays."""
    other = tmp_path / "other"
    shutil.copytree(seal.folder, other)
    before = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    small = ["--pairs", "2", "--out", str(tmp_path / "out")]
    for command in (
        ["review", CELL.replace("-", "_"), "-o", str(other), *small],
        ["review", CELL.replace("-", "_"), "-o", str(other / "cells" / "new"), *small],
        ["export", CELL.replace("-", "_"), "-o", str(other / "cells" / CELL)],
        ["score", str(results), "--seal", str(seal.folder), "-o", str(other)],
    ):
        assert run_command(command) == 1, command
        assert f"lies in a sealed folder, {other}" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == before


def test_a_broken_seal_scores_nothing(seal, results, capsys):
    """Through the command: one line, exit 1, nothing written."""
    path = seal.folder / f"cells/{CELL}/windtunnel-0.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"output_len": 1', b'"output_len": 2', 1))
    assert run_command(["score", str(results), "--seal", str(seal.folder)]) == 1
    assert "windtunnel-0.jsonl: broken seal: it was changed" in capsys.readouterr().err
    assert not list(results.glob("score.*"))


def test_the_command_writes_part_17(seal, results, capsys):
    """A page that loads nothing, Markdown, JSON; every verdict exits 0; the seal is not touched."""
    assert run_command(["score", str(results), "--seal", str(seal.folder), "--digest", seal.digest]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[0] in ("ADOPT", "RECOMMEND", "REJECT", "SMALL", "INCONCLUSIVE")
    assert err.count("wrote") == 3
    page, text = (results / "score.html").read_text(), (results / "score.md").read_text()
    assert "17.2" in page
    assert "17.6" in text
    assert seal.digest in text
    assert "samples_per_s" in text
    assert "src=" not in page.split("<script")[0]
    document = json.loads((results / "score.json").read_bytes())
    assert document["verdict"] in out
    assert document["cells"][CELL]["metrics"]["samples_per_s"]["inside"] is True
    assert campaign.verify(seal.folder).digest == seal.digest
    before = page
    assert run_command(["score", str(results), "--seal", str(seal.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document
    assert (results / "score.html").read_text() == before
    assert run_command(["score", str(results), "--seal", str(seal.folder), "--digest", "0" * 64]) == 1


def test_seal_and_score_by_command(tmp_path, capsys):
    """From a scenario to a verdict, results inside the sealed folder; sealing again is the same."""
    out, folder = ["--out", str(tmp_path / "results")], tmp_path / "seal"
    command = ["seal", "slime_group_affinity", "--pairs", "4", "--real-pairs", "2", "--no-extension", "--draws", "2",
               "-o", str(folder), *out]  # fmt: skip
    assert run_command(command) == 0
    told = capsys.readouterr()
    digest = told.out.split()[0]
    assert f"warning: {CELL}: the review of what is sealed says: No recommendation; the interval of " in told.err
    again = "--real-pairs 2 --draws 2 --no-extension"
    assert f"windtunnel seal slime_group_affinity --baseline sample --candidate group --pairs 4 --seed 1 {again}" in (
        folder / "review.md"
    ).read_text(encoding="utf-8")
    assert run_command(command) == 0
    assert capsys.readouterr().out.split()[0] == digest
    assert (folder / "review.html").exists()
    assert run_command([*command[:-4], "--draws", "3", *command[-4:]]) == 1
    assert "holds another seal" in capsys.readouterr().err
    seal = campaign.verify(folder, digest)
    assert seal.rule.looks == (0.05,)
    scenario = load_scenario("slime_group_affinity")
    campaign.rehearse(seal, {CELL: scenario}, folder / "measured", campaign.World(2))
    before = (folder / "review.html").read_text()
    assert run_command(["score", str(folder / "measured")]) == 0
    assert "sealed intervals hold the measured ratio" in capsys.readouterr().out
    page = (folder / "measured" / "review.html").read_text()
    assert (folder / "review.html").read_text() == before
    assert "Empty until the real run." in before
    assert "Empty until the real run." not in page
    assert page.count('id="part17"') == before.count('id="part17"') == 1
    assert "17.2 Prediction and result" in page
    assert page.split('<section id="part17"')[0] == before.split('<section id="part17"')[0]


@pytest.mark.parametrize("options", [["--real-pairs", "1"], ["--draws", "1"]])
def test_too_few_is_wrong_usage(options):
    """One pair has no interval, one draw no spread."""
    assert run_command(["seal", "slime_group_affinity", *options]) == 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_one_byte_of_a_result_scores_or_is_told_in_one_line(made, measured, data):
    """Whatever byte is changed: a score, of other numbers perhaps, or one line that names the file; never a fault."""
    path = data.draw(st.sampled_from(sorted(measured.glob("*.jsonl"))))
    whole = path.read_bytes()
    at = data.draw(st.one_of(st.integers(0, len(whole) - 1), st.integers(0, whole.index(b"\n"))))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != whole[at]))
    said = ""
    try:
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        said = campaign.score(made, measured).ruling.word
    except ScenarioError as error:
        said = str(error)
    finally:
        path.write_bytes(whole)
    is_word = said in ("ADOPT", "RECOMMEND", "REJECT", "SMALL", "INCONCLUSIVE", "STOPPED")
    assert is_word or path.stem in said or f"pair {path.stem.split('-')[-2]}" in said
    assert "\n" not in said
