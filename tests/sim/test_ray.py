"""Sweeps on a local Ray cluster of two nodes: the same bytes as on local processes, whatever is killed meanwhile.

Run where Ray is installed (windtunnel[ray]), in processes of their own: Ray leaves threads and warnings behind.
"""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.scenario import load_sweep
from sim.sweep import sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: windtunnel[ray]"),
]

ROOT = Path(__file__).parents[2]
WORLD = """
name: small-world
fleet: {engines: 4, engine: {preset: sglang, kv_tokens: 20000, cost: {kind: constant, step_ms: 4, per_sequence_ms: 2}}}
workload:
  kind: rollout
  groups: 40
  samples_per_group: 4
  prompt: {group_tokens: 64}
  turns: 3
  output_tokens: {kind: lognormal, median: 16, sigma: 0.5}
  max_tokens: 64
router: {policy: {kind: round_robin}}
arms:
  turns: {}
  hash: {router: {policy: {kind: sglang.consistent_hashing}}}
sweep: {vary: {workload.groups: [40, 60]}}
replications: {pairs: 12, seed: 3}
metrics: [samples_per_s]
"""
CLUSTER = """
import sys, time
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
DRIVER = """
import sys
from sim.scenario import load_sweep
from sim.sweep import sweep
from sim.sweep._ray import ray_pool
if __name__ == "__main__":
    with ray_pool(sys.argv[3], None) as pool:
        sweep(load_sweep(sys.argv[1]), out=sys.argv[2], pool=pool, progress=lambda *done: print(*done, flush=True))
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_DEDUP_LOGS": "0"}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


@pytest.fixture(scope="module")
def cluster():
    """The address of two nodes on this machine."""
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = ""
        while ":" not in address or " " in address:
            address = process.stdout.readline().strip()
        yield address
        process.communicate("")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(WORLD)
    return path


def start(path: Path, out: Path, address: str) -> subprocess.Popen[str]:
    program = out.parent / "driver.py"
    program.write_text(DRIVER)
    command = [sys.executable, str(program), str(path), str(out), address]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )


def calm(path: Path, tmp_path: Path) -> dict[str, bytes]:
    sweep(load_sweep(path), out=tmp_path / "calm")
    return tree(tmp_path / "calm")


def test_same_bytes_though_a_worker_is_killed(cluster: str, path: Path, tmp_path: Path) -> None:
    """A Ray worker that dies while it simulates is replaced, its task dealt anew."""
    killed = 0
    with start(path, tmp_path / "out", cluster) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            found = subprocess.run(["pgrep", "-f", "ray::simulate"], capture_output=True, text=True, check=False)
            if killed < 2 and found.stdout.split():
                os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
                killed += 1
    assert process.returncode == 0
    assert killed >= 1
    assert tree(tmp_path / "out") == calm(path, tmp_path)


def test_same_bytes_though_the_driver_is_killed(cluster: str, path: Path, tmp_path: Path) -> None:
    """Killed at 20 random moments; the same command goes on where it stopped."""
    chance = random.Random(4)
    for _ in range(20):
        process = start(path, tmp_path / "out", cluster)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    with start(path, tmp_path / "out", cluster) as process:
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert tree(tmp_path / "out") == calm(path, tmp_path)
