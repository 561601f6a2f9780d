"""A start-up that is left out of a measurement."""

from pathlib import Path

import polars as pl
import pytest

from sim import load_scenario, run
from sim.errors import ScenarioError
from sim.scenario import load_sweep
from sim.sweep import sweep

WORLD = """
name: small-world
fleet: {engines: 1, engine: {preset: sglang, max_num_seqs: 4, kv_tokens: 200000, cost: {kind: constant, step_ms: 10}}}
workload:
  kind: rollout
  groups: 400
  samples_per_group: 1
  prompt: {group_tokens: 64}
  output_tokens: {kind: lognormal, median: 30, sigma: 0.5}
  max_tokens: 200
  arrivals: ARRIVALS
router: {policy: {kind: round_robin}}
arms:
  first: {}
  other: {router: {policy: {kind: least_load}}, client: {deadline_s: 5}}
replications: {pairs: 6, seed: 3WARM}
metrics: [e2e_p95_s, requests_per_s, goodput_per_s]
"""
POISSON = "{kind: poisson, groups_per_s: 9}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "small.yaml"


def world(path: Path, arrivals: str = POISSON, warm: str = "", arms: tuple[str, ...] = ()):
    path.write_text(WORLD.replace("ARRIVALS", arrivals).replace("WARM", warm))
    return load_scenario(path).select(arms=arms)


def test_a_fixed_cut(path: Path, tmp_path: Path) -> None:
    """Requests of the first ten seconds count nowhere; the rate is over what is left of the makespan."""
    result = run(world(path, warm=", warm_up_s: 10"), out=tmp_path / "out")
    arm = result.arms["first"]
    tables = arm.tables()
    for pair in range(6):
        seen = tables.requests.filter(pl.col("pair") == pair)
        start = seen["submitted_s"].min()
        kept = seen.filter(pl.col("submitted_s") >= start + 10)
        rate = kept.height / (seen["ended_s"].max() - start - 10)
        assert arm.values["requests_per_s"][pair] == pytest.approx(rate)


def test_another_cut_measures_anew_and_runs_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored tables serve every cut, and the files are those of a run that had it from the beginning."""
    run(world(path), out=tmp_path / "out")
    monkeypatch.setattr("sim.worker.replicate", lambda *_: pytest.fail("it ran again"))
    result = run(world(path, warm=", warm_up_s: 5"), out=tmp_path / "out")
    monkeypatch.undo()
    calm = run(world(path, warm=", warm_up_s: 5"), out=tmp_path / "calm")
    assert result.values.equals(calm.values)
    for arm in ("first", "other"):
        mine, its = (each.arms[arm].folder / "values.parquet" for each in (result, calm))
        assert mine.read_bytes() == its.read_bytes()


def test_values_of_another_cut_are_not_believed(path: Path, tmp_path: Path) -> None:
    """A sweep that kept values alone runs again for another cut."""
    world(path)
    one = sweep(load_sweep(path, (), ["workload.groups=300,400"]), out=tmp_path / "out")
    world(path, warm=", warm_up_s: 5")
    two = sweep(load_sweep(path, (), ["workload.groups=300,400"]), out=tmp_path / "out")
    fresh = sweep(load_sweep(path, (), ["workload.groups=300,400"]), out=tmp_path / "fresh")
    assert two.table.equals(fresh.table)
    assert not one.table.equals(two.table)


def test_a_cut_that_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """Said once, of the key, instead of once a metric."""
    with pytest.raises(ScenarioError, match=r"replications.warm_up_s: no replication is longer than 1e\+06 s"):
        run(world(path, warm=", warm_up_s: 1000000"), out=tmp_path / "out")


def test_a_rule_that_ends_before_it_begins(path: Path) -> None:
    """The most pairs are at least those to begin with."""
    with pytest.raises(ScenarioError, match=r"stop.most_pairs: must be at least the pairs to begin with \(6\), not 2"):
        world(path, warm=", stop: {kind: precision, most_pairs: 2}")
