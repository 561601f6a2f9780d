"""Tuning a policy of a small scenario: stored and resumed, the same however dealt, clean errors, a chart."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sim import charts
from sim.errors import ScenarioError
from sim.log import store
from sim.scenario import load_scenario, load_sweep
from sim.scenario.tuning import load_tuning
from sim.sweep import sweep
from sim.sweep.tuning import TuneResult, tune

SCENARIO = """
name: tuned
fleet:
  engines: 4
  engine: {preset: sglang, kv_tokens: 8000, cost: {kind: constant, step_ms: 10, prefill_ms_per_token: 0.05}}
workload:
  kind: rollout
  groups: 8
  samples_per_group: 2
  prompt: {group_tokens: 400}
  turns: 2
  output_tokens: {kind: lognormal, median: 16, sigma: 0.8}
  max_tokens: 64
router: {policy: {kind: sglang.cache_aware}}
arms:
  robin: {router: {policy: {kind: round_robin}}}
  cache: {}
baseline: robin
metrics: [makespan_s, prefill_tokens]
"""
RANGE = "router.policy.cache_threshold=0.1..1.9"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tuned.yaml"
    path.write_text(SCENARIO)
    return path


def tuned(path: Path, out: Path, **options: object) -> TuneResult:
    return tune(load_tuning(path, [RANGE]), metric="prefill_tokens", budget=70, out=out, **options)  # type: ignore[arg-type]


def test_a_threshold_above_one_turns_the_cache_off(path: Path, tmp_path: Path) -> None:
    """No prompt matches by more than its whole length: above 1 siblings are spread, and more is prefilled."""
    result = tuned(path, tmp_path / "out")
    table = result.table
    off = table.filter(pl.col("router.policy.cache_threshold") > 1)["ratio"].to_numpy()
    on = table.filter(pl.col("router.policy.cache_threshold") < 0.9)["ratio"].to_numpy()
    assert result.found.optimum[0] < 1 < result.found.worst[0]
    assert on.max() < off.min()
    assert not any("flat" in warning for warning in result.warnings)
    assert result.runs <= 70
    assert result.to_worst is not None
    assert result.to_worst.hi is not None
    assert result.to_worst.hi < 1


def test_points_see_the_pairs_of_the_baseline(path: Path, tmp_path: Path) -> None:
    """A point's ratio is that of a run of the arm with this value, pair by pair."""
    result = tuned(path, tmp_path / "out")
    each = result.found.tried[0]
    scenario = load_scenario(path, [f"arms.cache.router.policy.cache_threshold={each.point[0]}"])
    folders = {arm: tmp_path / "out" / "tuned" / cell.hash for arm, cell in scenario.arms.items()}
    columns = {arm: store.read_values(folder)["prefill_tokens"].to_numpy() for arm, folder in folders.items()}
    count = len(each.values)
    assert each.values == pytest.approx(-np.log(columns["cache"][:count] / columns["robin"][:count]))


def test_stored_points_are_not_run_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command finds everything there, with the same answer; a larger budget goes on."""
    first = tuned(path, tmp_path / "out")
    with monkeypatch.context() as patched:
        patched.setattr("sim.sweep._pools.simulate", lambda *_: pytest.fail("something ran"))
        again = tuned(path, tmp_path / "out")
    assert again.table.equals(first.table)
    assert again.to_baseline == first.to_baseline
    larger = tune(load_tuning(path, [RANGE]), metric="prefill_tokens", budget=80, out=tmp_path / "out")
    fresh = tune(load_tuning(path, [RANGE]), metric="prefill_tokens", budget=80, out=tmp_path / "other")
    assert larger.table.equals(fresh.table)


def test_measures_that_kept_no_tables_can_grow(path: Path, tmp_path: Path) -> None:
    """A sweep that asks for more pairs than an earlier one measured has all of them, as if there had been none."""
    paths = {}
    for name, counts in (("grown", (2, 3)), ("fresh", (3,))):
        for pairs in counts:
            text = SCENARIO + f"replications: {{pairs: {pairs}}}\n"
            path.write_text(text)
            paths[name] = sweep(load_sweep(path, vary=["fleet.engines=2,3"]), out=tmp_path / name).table
    assert paths["grown"].equals(paths["fresh"])


def test_two_equal_ends_are_flat(path: Path, tmp_path: Path) -> None:
    """A parameter that decides nothing: the response is flat, and the present value stays."""
    made = load_tuning(path, ["router.policy.eviction_interval_secs=1000..2000"])
    result = tune(made, budget=64, out=tmp_path / "out")
    assert any("flat within the noise" in warning for warning in result.warnings)
    assert any("keep them" in warning for warning in result.warnings)


def test_the_chart_shows_the_table(path: Path, tmp_path: Path) -> None:
    """Dots and curve are the rows of the response table."""
    result = tuned(path, tmp_path / "out")
    points = result.table.rename({"router.policy.cache_threshold": "value"})
    chart = charts.response(points, "t", x="x", optimum=0.4, lo=0.2, hi=0.6)
    shown = [rows for rows in chart.to_dict()["datasets"].values() if len(rows) == points.height]
    assert shown
    assert all([row["ratio"] for row in rows] == points["ratio"].to_list() for rows in shown)


def test_whole_numbers_stay_whole(path: Path) -> None:
    """A point of a parameter that counts is a world that the scenario takes, the present value too."""
    made = load_tuning(path, ["router.policy.balance_abs_threshold=1..64:log"])
    for point in (made.start, (3.0,)):
        value = made.cell(point).resolved["router"]["policy"]["balance_abs_threshold"]
        assert isinstance(value, int)
        assert value == point[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["router.policy.cache_treshold=0..1"], "did you mean 'cache_threshold'"),
        (["router.policy.cache_threshold=0.9..0.1"], "low end must be below"),
        (["router.policy.cache_threshold=0..nan"], "low end must be below"),
        (["router.policy.cache_threshold=0..1:log"], "above 0"),
        (["router.policy.cache_threshold=0..1:lin"], ":log"),
        (["router.policy.cache_threshold"], "must be path=low..high"),
        (["router.policy.balance_abs_threshold=1.5..3"], "whole number"),
        (["router.policy.kind=1..2"], "only a number"),
        (["client.deadline_s=1..2"], "it is null here; give it a value to begin with"),
        (["seed=1..2"], "no 'seed'"),
        (["fleet.engines=0..4"], "fleet.engines"),
        ([RANGE, RANGE], "named twice"),
        ([], "nothing to tune"),
    ],
)
def test_what_cannot_be_tuned(path: Path, words: list[str], says: str) -> None:
    """One line that says what to put right."""
    with pytest.raises(ScenarioError) as caught:
        load_tuning(path, words)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_small_a_budget_and_a_metric_without_a_side(path: Path, tmp_path: Path) -> None:
    """Refused before anything runs."""
    made = load_tuning(path, [RANGE])
    with pytest.raises(ScenarioError, match="too small: this takes 64 or more"):
        tune(made, budget=63, out=tmp_path / "out")
    with pytest.raises(ScenarioError, match="no better side"):
        tune(made, metric="queries_per_prompt_token", out=tmp_path / "out")
    with pytest.raises(ScenarioError, match="did you mean 'makespan_s'"):
        tune(made, metric="makespan", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
