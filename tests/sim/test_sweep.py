"""Runs of small scenarios: stored whole, equal bytes however they are dealt, clean ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim import load_scenario, run
from sim.errors import ScenarioError
from sim.metrics import METRICS
from sim.report import to_json

SCENARIO = """
name: small-world
fleet: {engines: 2, engine: {preset: sglang, kv_tokens: 20000, cost: {kind: constant, step_ms: 10}}}
workload:
  kind: rollout
  groups: 4
  samples_per_group: 2
  prompt: {group_tokens: 64}
  turns: 1
  output_tokens: {kind: lognormal, median: 16, sigma: 0.5}
  max_tokens: 64
client: {key_scope: sample}
router: {policy: {kind: sglang.consistent_hashing}}
arms:
  sample: {}
  group: {client: {key_scope: group}}
  turns: {router: {policy: {kind: round_robin}}}
baseline: sample
replications: {pairs: 5, seed: 3}
metrics: [samples_per_s, prefill_tokens, prefix_hit_rate]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_result_of_a_run(path: Path, tmp_path: Path) -> None:
    """Arms, comparisons, classes of the one candidate that is placed by few keys, and progress to the end."""
    told: list[tuple[int, int]] = []
    result = run(load_scenario(path), out=tmp_path / "out", progress=lambda *state: told.append(state))
    assert list(result.arms) == ["sample", "group", "turns"]
    assert [(c.candidate, c.metric) for c in result.comparisons] == [
        (arm, metric) for arm in ("group", "turns") for metric in result.metrics
    ]
    assert {(p.candidate, p.name) for p in result.placements} == {("group", name) for name in ("2:2", "3:1", "4:0")}
    assert sum(p.pairs for p in result.placements) == 5
    assert told[-1] == (15, 15)
    assert result.arms["group"].values.columns == ["pair", *METRICS]


def test_a_stored_result_can_be_read_and_names_its_cell(path: Path, tmp_path: Path) -> None:
    """The manifest holds the resolved cell, hash, seed and versions; the tables hold every request of every pair."""
    result = run(load_scenario(path), out=tmp_path / "out")
    arm = result.arms["group"]
    manifest = json.loads((arm.folder / "manifest.json").read_text())
    assert (manifest["hash"], manifest["seed"], manifest["pairs"]) == (arm.folder.name, 3, 5)
    assert manifest["cell"]["client"]["key_scope"] == "group"
    assert manifest["versions"].keys() >= {"python", "polars", "simpy"}
    tables = arm.tables()
    assert tables.requests.height == 5 * 8
    assert tables.replications["pair"].to_list() == [0, 1, 2, 3, 4]


def test_same_bytes_whatever_the_jobs_and_the_hash_seed(path: Path, tmp_path: Path) -> None:
    """L4: two processes with other PYTHONHASHSEEDs and other numbers of workers write and print the same bytes."""
    program = (
        "import sys; from sim import load_scenario, run; from sim.report import to_json\n"
        "if __name__ == '__main__':\n"
        "    print(to_json(run(load_scenario(sys.argv[1]), jobs=int(sys.argv[2]), out=sys.argv[3])))"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    printed = []
    for jobs, seed in (("1", "1"), ("2", "2")):
        command = [sys.executable, str(script), str(path), jobs, str(tmp_path / f"out{jobs}")]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        printed.append(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert printed[0] == printed[1]
    assert tree(tmp_path / "out1") == tree(tmp_path / "out2")


def test_fewer_pairs_are_the_first_ones(path: Path, tmp_path: Path) -> None:
    """Pair i is the same replication however many there are."""
    few = run(load_scenario(path), pairs=2, out=tmp_path / "few")
    many = run(load_scenario(path), out=tmp_path / "many")
    assert few.arms["group"].values.equals(many.arms["group"].values.head(2))
    assert few.arms["group"].hash == many.arms["group"].hash


def test_the_baseline_always_runs(path: Path, tmp_path: Path) -> None:
    """One arm named: it and the baseline; another seed is another world."""
    result = run(load_scenario(path), arms=["turns"], seed=4, pairs=1, out=tmp_path / "out")
    assert list(result.arms) == ["sample", "turns"]
    assert result.arms["turns"].hash != load_scenario(path).arms["turns"].hash


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"arms": ["grup"]}, "unknown arm 'grup'"), ({"pairs": 0}, "pairs must be"), ({"jobs": 0}, "jobs must be")],
)
def test_what_cannot_be_run_is_one_line(path: Path, tmp_path: Path, arguments: dict, message: str) -> None:
    """A user's mistake raises ScenarioError and writes nothing."""
    with pytest.raises(ScenarioError, match=message):
        run(load_scenario(path), out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_an_output_folder_that_cannot_be_written(path: Path) -> None:
    """Known before anything is simulated."""
    with pytest.raises(ScenarioError, match="cannot write results in"):
        run(load_scenario(path), out=path)


def test_both_ways_to_name_it(path: Path, tmp_path: Path) -> None:
    """What the package exports is the function, also after its modules were imported."""
    import sim

    assert callable(sim.run)
    assert to_json(sim.run(sim.load_scenario(path), pairs=1, out=tmp_path / "out"))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_leaves_nothing_half_written(path: Path, tmp_path: Path, jobs: str) -> None:
    """Interrupted like a terminal does it, the whole process group: no draft, no traceback; what finished is kept."""
    program = (
        "import os, signal, sys; from sim import load_scenario, run\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it\n"
        "    say = lambda done, total: done > 20 and os.killpg(0, signal.SIGINT)\n"
        "    try:\n"
        "        run(load_scenario(sys.argv[1]), jobs=int(sys.argv[2]), pairs=20000, out=sys.argv[3], progress=say)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')"
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    command = [sys.executable, str(script), str(path), jobs, str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    printed, errors = child.communicate(timeout=300)
    assert (printed, errors) == ("interrupted\n", "")
    assert all(name.endswith(".part") for name in tree(tmp_path / "out"))
