"""Stored results and measured logs compared pair by pair, and the real runs that they call for."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sim import load_scenario, run
from sim.errors import ScenarioError
from sim.log import store
from sim.report.contrast import Lines, contrast, shared_metrics
from sim.report.plan import plan
from sim.report.sides import read_side, results_below
from sim.stats.power import Spread, pairs_needed

WORLD = "slime_group_affinity"
PAIRS = 40


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Folders of the two arms of a small campaign, and its result."""
    out = tmp_path_factory.mktemp("results")
    result = run(load_scenario(WORLD), pairs=PAIRS, out=out)
    return result.arms["sample"].folder, result.arms["group"].folder, result


def test_stored_results_compare_as_the_run_did(sides) -> None:
    """Ratio, interval, share of worse pairs and classes are those that the run printed."""
    a, b, result = sides
    found = contrast(read_side(a), read_side(b), list(result.metrics), Lines())
    assert found.pairs == PAIRS
    for finding in found.findings:
        assert finding.paired == result.comparison("group", finding.metric).paired
    assert [found.baseline.name, found.candidate.name] == ["sample", "group"]
    first = found.findings[0]
    assert first.common.has_worked
    assert first.imbalance.rho < -0.5
    assert first.permutation_p < 0.05
    assert first.exact.ratio == pytest.approx(first.paired.ratio, rel=0.03)
    assert found.completion_p95[0].lo < found.completion_p95[0].value


def test_the_order_of_the_arms_turns_the_ratio(sides) -> None:
    """Candidate over baseline is one over baseline over candidate."""
    a, b, _ = sides
    there, back = (contrast(*each, ["samples_per_s"], Lines()) for each in _both(a, b))
    assert there.findings[0].paired.ratio == pytest.approx(1 / back.findings[0].paired.ratio)


def _both(a: Path, b: Path):
    return (read_side(a), read_side(b)), (read_side(b), read_side(a))


def test_an_arm_with_itself_is_one_exactly(sides) -> None:
    """Every pair equal, and a note that says why."""
    a, _, _ = sides
    found = contrast(read_side(a), read_side(a), ["samples_per_s"], Lines())
    assert found.findings[0].paired.is_tie
    assert (found.findings[0].paired.lo, found.findings[0].paired.hi) == (1.0, 1.0)
    assert "equal within 2 %" in str(found.findings[0].verdict)
    assert any("same cell" in note for note in found.notes)


def as_log(folder: Path, path: Path, columns: list[str]) -> Path:
    """A measured log made of a simulated one."""
    requests = store.read(folder).requests.select(columns)
    requests.write_csv(path) if path.suffix == ".csv" else requests.write_parquet(path)
    return path


def test_a_measured_log_has_the_metrics_of_its_columns(sides, tmp_path) -> None:
    """Times, session and group alone: throughput, latency and group completion are those of the full tables."""
    a, _, result = sides
    columns = [
        "pair",
        "session",
        "group",
        "submitted_s",
        "first_token_s",
        "ended_s",
        "output_tokens",
        "is_last",
        "status",
    ]
    log = read_side(as_log(a, tmp_path / "gpu.csv", columns))
    assert log.is_measured
    assert {"samples_per_s", "makespan_s", "ttft_p95_s", "e2e_p95_s", "group_completion_p95_s"} <= set(log.metrics)
    assert not {"prefix_hit_rate", "load_busy_cv", "prefill_tokens"} & set(log.metrics)
    mine = result.arms["sample"].values
    for name in log.metrics:
        assert log.values[name].to_list() == pytest.approx(mine[name].to_list(), rel=1e-6), name


def test_a_log_of_times_alone(tmp_path) -> None:
    """Two requests of one run: two samples in three seconds."""
    path = tmp_path / "log.parquet"
    pl.DataFrame({"submitted_s": [10.0, 11.0], "ended_s": [12.0, 13.0]}).write_parquet(path)
    side = read_side(path)
    assert side.values["samples_per_s"].to_list() == [pytest.approx(2 / 3)]
    assert side.values["makespan_s"].to_list() == [3.0]


def test_measured_against_simulated(sides, tmp_path) -> None:
    """One row a pair: pairs without a counterpart are left out and said, and so is the mixture."""
    a, _, result = sides
    speed = result.arms["sample"].values["samples_per_s"]
    path = tmp_path / "runs.csv"
    pl.DataFrame({"pair": range(10, 60), "samples_per_s": [1.1 * x for x in [*speed, *speed][10:60]]}).write_csv(path)
    found = contrast(read_side(a), read_side(path), ["samples_per_s"], Lines())
    assert (found.pairs, found.findings[0].paired.ratio) == (30, pytest.approx(1.1))
    assert [note.split(":")[0] for note in found.notes[:3]] == [
        "sample", "runs", "one side is simulated and the other measured",
    ]  # fmt: skip
    assert shared_metrics(read_side(a), read_side(path)) == ["samples_per_s"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "has neither submitted_s and ended_s"),
        ("pair,samples_per_s\n1,2\n1,3\n", "has a pair twice"),
        ("pair,samples_per_s\n1,fast\n", "holds what is no number"),
        ("submitted_s,ended_s\n1,late\n", "holds what is no number"),
        ("pair,samples_per_s\n", "has no rows"),
        ("", "cannot read"),
    ],
)
def test_files_that_are_no_measurements(tmp_path, text: str, says: str) -> None:
    """One clear line each."""
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=says) as error:
        read_side(path)
    assert "\n" not in str(error.value)


def test_places_that_hold_no_result(sides, tmp_path) -> None:
    """Nothing there, an empty folder, another kind of file, a folder of two results, a broken manifest."""
    a, _, _ = sides
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for path, says in (
        (tmp_path / "nowhere", "no result and no file"),
        (tmp_path / "empty", "holds no result"),
        (tmp_path / "notes.txt", "neither a folder nor a .csv"),
        (a.parent, "holds 2 results, name one"),
        (tmp_path / "broken", "is not the manifest of a result"),
    ):
        with pytest.raises(ScenarioError, match=says):
            read_side(path)
    assert len(results_below(a.parent)) == 2


def test_results_that_are_no_pairs(sides, tmp_path) -> None:
    """Another seed; no pair in common; a metric that one side lacks."""
    a, b, _ = sides
    other = run(load_scenario(WORLD), pairs=2, seed=9, out=tmp_path).arms["group"].folder
    with pytest.raises(ScenarioError, match="ran with seed 1, .* with 9: their pairs are not pairs"):
        contrast(read_side(a), read_side(other), ["samples_per_s"], Lines())
    path = tmp_path / "far.csv"
    path.write_text("pair,samples_per_s\n1000,2.0\n")
    with pytest.raises(ScenarioError, match="no pair is in both"):
        contrast(read_side(a), read_side(path), ["samples_per_s"], Lines())
    with pytest.raises(ScenarioError, match=r"far\.csv has no values of makespan_s"):
        contrast(read_side(b), read_side(path), ["makespan_s"], Lines()) if path.write_text(
            "pair,samples_per_s\n1,2.0\n"
        ) else None


def planned(a: Path, b: Path, **changed):
    usual = {"effect": 0.05, "wanted": 0.8, "noise": None, "overhead_h": 0.0, "failure_rate": 0.0}
    return plan(read_side(a), read_side(b), "samples_per_s", **(usual | changed))


def test_a_plan_adds_the_real_noise_and_gains_by_blocking(sides) -> None:
    """Pairs follow from the printed spreads; blocked ones are fewer; without noise there would be fewer still."""
    a, b, _ = sides
    found = planned(a, b)
    logs = np.log(read_side(b).values["samples_per_s"] / read_side(a).values["samples_per_s"])
    assert found.spread == Spread(pytest.approx(logs.std()), 0.018)
    assert found.blocked.simulated < 0.7 * found.spread.simulated
    need = next(each for each in found.needs if each.effect == 0.05)
    assert need.real == pairs_needed(0.05, found.spread.real)
    assert need.blocked == found.design(is_blocked=True).needed(0.05)
    assert abs(need.blocked - pairs_needed(0.05, found.blocked.real)) <= 2  # whole pairs, degrees of freedom
    assert need.blocked < need.simulated_alone <= need.real < need.noisiest
    assert [each[0] for each in found.classes] == ["2:2", "3:1", "4:0"]


def test_every_choice_of_a_plan_moves_it(sides) -> None:
    """Effect, power, noise, overhead and failures each change what they should."""
    a, b, _ = sides
    usual = planned(a, b)
    need = {each.effect: each for each in usual.needs}[0.05]
    assert {each.effect for each in planned(a, b, effect=0.07).needs} == {0.03, 0.05, 0.07, 0.08, 0.10, 0.15}
    more = {name: {e.effect: e for e in planned(a, b, **{name: value}).needs}[0.05] for name, value in (
        ("wanted", 0.9), ("noise", 0.1), ("overhead_h", 1.0), ("failure_rate", 0.5))}  # fmt: skip
    assert more["wanted"].real > need.real
    assert more["noise"].real > need.real
    assert more["failure_rate"].gpu_hours == pytest.approx(1.5 * need.gpu_hours)
    hours = usual.cost.run_h
    assert more["overhead_h"].gpu_hours == pytest.approx(need.gpu_hours * (hours + 1) / hours, rel=0.01)
    assert usual.cost.gpus == 2


def test_the_scenario_names_the_noise(tmp_path) -> None:
    """``real_run_noise`` reaches the plan, also when the result was stored before it was changed."""
    for noise in (None, 0.07):
        overrides = [] if noise is None else [f"real_run_noise={noise}"]
        result = run(load_scenario(WORLD, overrides), pairs=3, out=tmp_path)
        folders = [result.arms[name].folder for name in ("sample", "group")]
        assert planned(*folders).spread.run_noise == (noise or 0.018)
    with pytest.raises(ScenarioError, match="must be more than 0"):
        load_scenario(WORLD, ["real_run_noise=0"])


def test_mixed_fleets_count_their_gpus(tmp_path) -> None:
    """Two engines of one GPU and one of two: four."""
    engine = "{preset: sglang, device: a100-80gb, model: qwen3-8b, tp: %d}"
    fleet = f"fleet.engines={{a: {{count: 2, engine: {engine % 1}}}, b: {{count: 1, engine: {engine % 1}}}}}"
    result = run(load_scenario(WORLD, ["fleet.engine=null", fleet]), pairs=3, out=tmp_path)
    found = planned(*(result.arms[name].folder for name in ("sample", "group")))
    assert found.cost.gpus == 3


def test_too_little_for_a_plan(sides, tmp_path) -> None:
    """Two pairs have no spread worth the name; an effect that would take millions of pairs is refused."""
    a, b, _ = sides
    result = run(load_scenario(WORLD), pairs=2, out=tmp_path)
    with pytest.raises(ScenarioError, match="a spread needs 3"):
        planned(*(result.arms[name].folder for name in ("sample", "group")))
    with pytest.raises(ScenarioError, match="more than 1,000,000 pairs"):
        planned(a, b, effect=1e-5)


def test_measured_pairs_make_a_plan_too(tmp_path) -> None:
    """Two files of runs: no classes, no makespan, one GPU."""
    draw = np.random.default_rng(3)
    for name in ("a", "b"):
        frame = pl.DataFrame({"pair": range(30), "samples_per_s": np.exp(draw.normal(0, 0.1, 30))})
        frame.write_csv(tmp_path / f"{name}.csv")
    found = planned(tmp_path / "a.csv", tmp_path / "b.csv")
    assert found.blocked is None
    assert found.needs[0].blocked is None
    assert (found.cost.gpus, found.cost.run_h) == (1, 0.0)


def test_values_of_another_version_are_refused(sides, tmp_path) -> None:
    """A result without what this version keeps of each pair."""
    a, _, _ = sides
    old = tmp_path / "old"
    old.mkdir()
    (old / "manifest.json").write_text(json.dumps(json.loads((a / "manifest.json").read_text())))
    pl.DataFrame({"pair": [0], "samples_per_s": [1.0]}).write_parquet(old / "values.parquet")
    with pytest.raises(ScenarioError, match="stored by another version"):
        read_side(old)


def test_blocked_results_are_compared_by_exact_weights(tmp_path) -> None:
    """As the run that stored them did; a measured twin of the baseline is weighted by the same classes."""
    result = run(load_scenario(WORLD, ["client.blocking=placement"]), pairs=24, out=tmp_path)
    a, b = (read_side(result.arms[name].folder) for name in ("sample", "group"))
    found = contrast(a, b, ["samples_per_s"], Lines()).findings[0]
    assert found.paired == result.comparison("group", "samples_per_s").paired
    assert found.exact.ratio == pytest.approx(found.paired.ratio)


def two(first: list[float], second: list[float], tmp_path: Path, metric: str = "samples_per_s"):
    """Two measured sides with these values."""
    for name, values in (("a", first), ("b", second)):
        pl.DataFrame({"pair": range(len(values)), metric: values}).write_csv(tmp_path / f"{name}.csv")
    return contrast(read_side(tmp_path / "a.csv"), read_side(tmp_path / "b.csv"), [metric], Lines()).notes


def test_what_the_notes_say_of_the_pairs(tmp_path) -> None:
    """Few pairs, skewed ratios, two humps, arms that do not vary together; and nothing where nothing is wrong."""
    draw = np.random.default_rng(5)
    shared = np.exp(draw.normal(0, 0.3, 60))
    fine = (shared * np.exp(draw.normal(0.1, 0.05, 60))).tolist()
    assert two(shared.tolist(), fine, tmp_path) == []
    assert two(shared.tolist()[:10], fine[:10], tmp_path) == [
        "fewer than 20 pairs: Student's t alone, a bootstrap would be too sure"
    ]
    [skewed] = two(shared.tolist(), (shared * np.exp(0.1 * draw.exponential(1, 60) ** 2)).tolist(), tmp_path)
    assert skewed.startswith("samples_per_s: skewed ratios")
    split = np.where(np.arange(60) % 3 == 0, 0.7, 1.4) * np.exp(draw.normal(0, 0.02, 60))
    [humps] = two(shared.tolist(), (shared * split).tolist(), tmp_path)
    assert humps.startswith("samples_per_s: two humps, around 0.7")
    assert "(67% in the upper one)" in humps
    [apart] = two(shared.tolist(), (1 / np.array(fine)).tolist(), tmp_path)
    assert "do not vary together" in apart


def test_notes_on_what_was_stored(sides, tmp_path) -> None:
    """Another workload, and a policy that decides alike."""
    a, _, _ = sides
    other = run(load_scenario(WORLD, ["workload.max_tokens=900"]), pairs=4, out=tmp_path).arms["sample"].folder
    notes = contrast(read_side(a), read_side(other), ["samples_per_s"], Lines()).notes
    assert any("workloads differ" in note for note in notes)
    alike = run(load_scenario(WORLD, ["client.deadline_s=5"]), pairs=4, out=tmp_path).arms["sample"].folder
    notes = contrast(read_side(a), read_side(alike), ["samples_per_s"], Lines()).notes
    assert any("no decision differs" in note for note in notes)
