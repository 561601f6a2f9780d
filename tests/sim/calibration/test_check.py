"""A measured run of a real engine against its replay; the importer and the score by hand."""

from pathlib import Path

import pytest

from sim.calibration.check import check, check_cell, locate
from sim.calibration.document import profile_yaml
from sim.calibration.fit import fit
from sim.calibration.runs import read_measured
from sim.calibration.score import score
from sim.cost import _profiles
from sim.errors import ScenarioError
from sim.log.frames import read_logs
from sim.metrics import measure
from sim.scenario import load_scenario
from tests.sim.calibration.shipped import RTX, RUN, SCENARIO, rtx_steps

HEAD = "request_id,input_toks,output_toks,queued_s,scheduled_s,first_token_s,last_token_s\n"
TWO = f"{HEAD}a,100,11,0.0,0.1,0.5,1.5\nb,200,1,1.0,1.0,3.0,3.0\n"


def test_the_replay_meets_the_measured_run() -> None:
    """Cost of operator tables, 1 ms of host time: makespan and TPOT within 2 %, end to end and each within 3 %."""
    [scores] = check(str(SCENARIO)).scores.values()
    found = {each.quantity: each for each in scores}
    assert abs(found["makespan"].mean) < 0.02
    assert abs(found["tpot"].mean) < 0.02
    assert abs(found["e2e"].mean) < 0.03
    assert abs(found["e2e"].p99) < 0.03
    assert found["e2e"].per_request.mean() < 0.03
    assert abs(found["ttft"].mean) < 0.05


@pytest.mark.parametrize(
    ("host0", "makespan", "ttft", "tpot", "e2e", "each"),
    [(0.0, -4.3, -11.0, -3.4, -5.4, 5.3), (1.0, -0.8, -3.7, -0.2, -1.1, 1.7), (2.0, 2.7, 3.5, 3.0, 3.1, 3.1)],
)
def test_errors_by_host_time(host0: float, makespan: float, ttft: float, tpot: float, e2e: float, each: float) -> None:
    """Published errors of such a replay, in percent, by the host time of a step: within half a point."""
    [scores] = check(str(SCENARIO), (f"fleet.engine.cost={{kind: form_d, host0_ms: {host0}}}",)).scores.values()
    found = [100 * one.mean for one in scores]
    assert found == pytest.approx([makespan, ttft, tpot, e2e], abs=0.5)
    assert 100 * scores[-1].per_request.mean() == pytest.approx(each, abs=0.3)


def test_asynchronous_scheduling_is_what_the_engine_did() -> None:
    """The step between arrival and admission that overlap costs is there in the measured times to first token."""
    off = check(str(SCENARIO), ("fleet.engine.overlap=false",)).scores
    on = check(str(SCENARIO)).scores
    each = [next(s for s in found["base"] if s.quantity == "ttft").per_request.mean() for found in (on, off)]
    assert each[0] < 0.6 * each[1]


def test_the_shipped_profile_is_the_fit_of_the_shipped_tables() -> None:
    """What the profile says of its coefficients follows from the measurements beside the tests."""
    shipped = _profiles.load(_profiles.FOLDER / f"{RTX}.yaml")
    found = fit(rtx_steps(), resamples=0)
    assert dict(shipped.times) == pytest.approx(found.linear(found.values), rel=1e-3)
    assert dict(shipped.token_ms) == pytest.approx(found.token_ms(found.values), rel=1e-3, abs=1e-7)
    for phase, pair in found.error_percent.items():
        assert (shipped.error_percent or {})[phase] == pytest.approx(pair, abs=0.06)


def test_a_written_profile_reads_back(tmp_path: Path) -> None:
    """A fit as YAML is a profile: coefficients to five figures, region, resamples, error, figures."""
    found = fit(rtx_steps().select(slice(None, None, 40)), resamples=4)
    path = tmp_path / "mine.yaml"
    path.write_text(profile_yaml(found, source="a test: of everything", figures={"host0_ms": 1.0}))
    profile = _profiles.load(path)
    assert dict(profile.times) == pytest.approx(found.linear(found.values), rel=1e-4)
    assert len(profile.resamples) == 4
    assert (profile.host0_ms, profile.source, profile.status) == (1.0, "a test: of everything", "measured")
    assert profile.region is not None
    assert profile.region["tokens"][1] <= 2048
    assert set(profile.error_percent or {}) == {"prefill", "decode", "mixed"}


def file(folder: Path, text: str) -> Path:
    path = folder / "run.csv"
    path.write_text(text)
    return path


def test_a_measured_run_is_a_log(tmp_path: Path) -> None:
    """Its metrics are those of a simulated run: two requests by hand."""
    tables = read_logs([read_measured(file(tmp_path, TWO))], [0])
    found = measure(tables).row(0, named=True)
    assert found["makespan_s"] == pytest.approx(3.0)
    assert found["tpot_mean_s"] == pytest.approx(0.1)
    assert found["ttft_p50_s"] == pytest.approx((0.5 + 2.0) / 2)
    assert found["output_tokens_per_s"] == pytest.approx(12 / 3)
    assert tables.requests["scheduled_s"].to_list() == pytest.approx([0.1, 1.0])


def test_the_shipped_run_is_read_whole() -> None:
    """300 finished requests, 65.93 s."""
    found = measure(read_logs([read_measured(RUN)], [0])).row(0, named=True)
    assert found["makespan_s"] == pytest.approx(65.926441)
    assert found["requests_per_s"] == pytest.approx(300 / 65.926441)


def test_a_run_has_no_error_against_itself_and_the_right_one_against_another(tmp_path: Path) -> None:
    """The second request twice as late: makespan 5 against 3, its end to end time 4 against 2."""
    one = read_measured(file(tmp_path, TWO))
    assert all(each.mean == 0 for each in score(one, one))
    other = read_measured(file(tmp_path, TWO.replace("3.0,3.0", "5.0,5.0")))
    makespan, ttft, tpot, e2e = score(one, other)
    assert makespan.mean == pytest.approx(5 / 3 - 1)
    assert ttft.mean == pytest.approx(4.5 / 2.5 - 1)
    assert tpot.mean == 0
    assert e2e.per_request.tolist() == pytest.approx([0, 1])
    assert e2e.p50 == pytest.approx(2.75 / 1.75 - 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("output_toks", "output", "has no column output_toks"),
        ("first_token_s", "first", "has no column first_token_s: it can be replayed but not compared"),
        ("a,100", "a,0", r"run\.csv:2: input_toks must be a whole number from 1"),
        ("0.5,1.5", "0.5,0.4", r"run\.csv:2: last_token_s is 0.4 s, before first_token_s"),
        ("1.0,1.0", "x,1.0", r"run\.csv:3: queued_s must be a number"),
        ("3.0,3.0\n", "3.0\n", r"run\.csv:3: must have 7 fields"),
        (TWO.removeprefix(HEAD), "", "holds no requests"),
    ],
)
def test_a_wrong_run_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The file, the line and the rule."""
    with pytest.raises(ScenarioError, match=message):
        read_measured(file(tmp_path, TWO.replace(old, new)))


def test_only_a_measured_run_can_be_checked(tmp_path: Path) -> None:
    """A scenario of another workload has nothing to be compared with; a folder must hold one scenario."""
    [cell] = list(load_scenario("smoke").arms.values())[:1]
    with pytest.raises(ScenarioError, match="must be of kind serving_run"):
        check_cell(cell)
    assert locate(str(SCENARIO)) == str(SCENARIO)
    with pytest.raises(ScenarioError, match=r"must hold one scenario .* not 0"):
        locate(str(tmp_path))
    (tmp_path / "one.yaml").write_text("")
    assert locate(str(tmp_path)) == str(tmp_path / "one.yaml")


def test_a_run_that_does_not_fit_is_no_comparison() -> None:
    """An engine too small rejects requests: said, not averaged over."""
    with pytest.raises(ScenarioError, match=r"finished .* of the 300 measured requests"):
        check(str(SCENARIO), ("fleet.engine.kv_tokens=1600",))
