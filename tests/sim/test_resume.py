"""What is left when a run is killed, what a worker's death costs, and replications that raise."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from sim import load_scenario, run
from sim.cli import main
from sim.errors import ScenarioError
from sim.log import store
from sim.log.packed import pack, unpack
from sim.replication import replicate

ROOT = Path(__file__).parents[2]
WORLD = """
name: small-world
fleet: {engines: 2, engine: {preset: sglang, kv_tokens: 20000, cost: {kind: constant, step_ms: 10}}}
workload:
  kind: rollout
  groups: 40
  samples_per_group: 4
  prompt: {group_tokens: 64}
  turns: 2
  output_tokens: {kind: lognormal, median: 16, sigma: 0.5}
  max_tokens: 64
client: {key_scope: sample}
router: {policy: {kind: sglang.consistent_hashing}}
arms:
  sample: {}
  group: {client: {key_scope: group}}
replications: {pairs: 24, seed: 3}
metrics: [samples_per_s, prefill_tokens]
"""
PROGRAM = """
import os, sys
from sim import load_scenario, run
if __name__ == "__main__":
    def say(*done):
        print(*done, flush=True)
        sys.stdin.readline()
    run(load_scenario(sys.argv[1]), jobs=2, out=sys.argv[2], progress=say)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(WORLD)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def start(path: Path, out: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """The program, which reads a line after each that it prints: from a pipe it waits for one."""
    program = out.parent / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(path), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Worker processes of a run: its children that run Python's spawn."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout
    spawned = []
    for pid in map(int, found.split()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"spawn_main" in words:
            spawned.append(pid)
    return spawned


def kill_and_resume(path: Path, out: Path, kills: int, seed: int) -> None:
    """Kill the whole run at random moments, each while there is work to do; in the end let it be."""
    chance = random.Random(seed)
    found = []
    for kill in range(kills):
        process = start(path, out)
        assert process.stdout is not None
        found.append(int(process.stdout.readline().split()[0]))
        for _ in range(kill % 4):
            process.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    process = start(path, out)
    lines, _ = process.communicate(timeout=300)
    found.append(int(lines.split()[0]))
    assert process.returncode == 0
    assert found == sorted(found)
    assert found[-1] > 0


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(path: Path, tmp_path: Path, kills: int) -> None:
    """The same command resumes where it stopped, and the final files are those of an undisturbed run, byte for byte."""
    path.write_text(WORLD.replace("pairs: 24", f"pairs: {24 * kills}"))
    kill_and_resume(path, tmp_path / "out", kills, seed=kills)
    run(load_scenario(path), out=tmp_path / "calm")
    assert tree(tmp_path / "out") == tree(tmp_path / "calm")


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_workers(path: Path, tmp_path: Path, kills: int) -> None:
    """A worker that dies is replaced; the files are those of an undisturbed run, byte for byte."""
    chance = random.Random(kills)
    path.write_text(WORLD.replace("pairs: 24", f"pairs: {60 * (kills + 1)}"))
    killed = 0
    with start(path, tmp_path / "out", subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in process.stdout:
            if killed < kills and (workers := workers_of(process)) and (not killed or chance.random() < 0.6):
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed += 1
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == 0
    assert killed >= 1
    run(load_scenario(path), out=tmp_path / "calm")
    assert tree(tmp_path / "out") == tree(tmp_path / "calm")


def test_what_is_stored_is_not_run_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run reads; more pairs add to what is there; fewer show the first ones; ``fresh`` runs anew."""
    ran: list[int] = []

    def counted(cell, pair):
        ran.append(pair)
        return replicate(cell, pair)

    monkeypatch.setattr("sim.worker.replicate", counted)
    scenario = load_scenario(path)
    six = run(scenario, pairs=6, out=tmp_path / "out")
    assert sorted(ran) == sorted([*range(6)] * 2)
    again = run(scenario, pairs=6, out=tmp_path / "out")
    assert len(ran) == 12
    assert_frame_equal(six.values, again.values)
    more = run(scenario, pairs=8, out=tmp_path / "out")
    assert sorted(ran[12:]) == [6, 6, 7, 7]
    few = run(scenario, pairs=3, out=tmp_path / "out")
    assert len(ran) == 16
    assert_frame_equal(few.arms["group"].values, more.arms["group"].values.head(3))
    assert few.arms["group"].tables().replications["pair"].to_list() == [0, 1, 2]
    run(scenario, pairs=8, fresh=True, out=tmp_path / "out")
    assert len(ran) == 32
    run(scenario, pairs=8, out=tmp_path / "calm")
    assert tree(tmp_path / "out") == tree(tmp_path / "calm")


def test_results_of_other_code_are_not_believed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed program runs again what an earlier one stored."""
    scenario = load_scenario(path)
    run(scenario, pairs=2, out=tmp_path / "out")
    monkeypatch.setattr("sim.sweep._stored.code", lambda: "another")
    ran: list[int] = []
    monkeypatch.setattr("sim.worker.replicate", lambda cell, pair: ran.append(pair) or replicate(cell, pair))
    run(scenario, pairs=2, out=tmp_path / "out")
    assert sorted(ran) == [0, 0, 1, 1]


POLICY = """
from dataclasses import dataclass
from policies._protocol import Policy

@dataclass
class Sometimes(Policy):
    def choose(self, request, fleet, now, pick):
        if pick(range(40)) == 0:
            raise RuntimeError("boom")
        return fleet.available[0], "first", 0
"""


def test_a_replication_that_raises(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is recorded with its error and seed, the others go on, and the exit code says so."""
    (tmp_path / "own.py").write_text(POLICY.replace("range(40)", "range(1500)"))
    path.write_text(
        WORLD.replace(
            "  group: {client: {key_scope: group}}", "  own: {router: {policy: {kind: './own.py:Sometimes'}}}"
        )
    )
    result = run(load_scenario(path), out=tmp_path / "out")
    failed = result.arms["own"].values["samples_per_s"].null_count()
    assert 0 < failed < 24
    assert result.failures == failed
    assert result.comparison("own", "samples_per_s").paired.pairs == 24 - failed
    manifest = store.read_manifest(result.arms["own"].folder)
    assert manifest is not None
    assert len(manifest["failures"]) == failed
    assert all("boom" in text for text in manifest["failures"].values())
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "--out", str(tmp_path / "cli")])
    assert ended.value.code == 1
    out, _ = capsys.readouterr()
    assert f"{failed} of 24 replications failed" in " ".join(out.split())
    assert "seed 3" in out


def test_an_arm_of_which_nothing_runs(path: Path, tmp_path: Path) -> None:
    """Its error ends the run after a few replications, as one line."""
    (tmp_path / "own.py").write_text(POLICY.replace("range(40)", "[0]"))
    path.write_text(
        WORLD.replace(
            "  group: {client: {key_scope: group}}", "  own: {router: {policy: {kind: './own.py:Sometimes'}}}"
        )
    )
    with pytest.raises(ScenarioError, match=r"own.py:9: Sometimes.choose raised RuntimeError: boom"):
        run(load_scenario(path), out=tmp_path / "out")


def test_two_runs_into_one_folder(path: Path, tmp_path: Path) -> None:
    """The second is told that the first is there."""
    folder = tmp_path / "out" / "small-world"
    store.prepare(folder)
    with store.locked(folder), pytest.raises(ScenarioError, match="another run is writing into"):
        run(load_scenario(path), pairs=1, out=tmp_path / "out")


def test_bytes_that_are_not_whole(path: Path) -> None:
    """A packed log is the log again; one that was cut or changed is none, and nothing but a log is built from it."""
    log = replicate(load_scenario(path).arms["sample"], 0)
    data = pack(log)
    found = unpack(data)
    assert found is not None
    assert all(getattr(found, name) == getattr(log, name) for name in ("requests", "decisions", "engines", "branches"))
    assert unpack(data[:-1]) is None
    assert unpack(data[:40] + bytes([data[40] ^ 1]) + data[41:]) is None
    assert unpack(b"") is None
