"""Worker processes of a sweep: nothing outlives them, and nobody waits for what will never come."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sim import load_scenario
from sim.scenario import Cell
from sim.sweep._pools import DIED, MOST_DEATHS, UNSTARTED, Processes, Task, processes
from sim.worker import simulate

SCENARIO = """
name: small-world
fleet: {engines: 2, engine: {preset: sglang, kv_tokens: 20000, cost: {kind: constant, step_ms: 10}}}
workload:
  kind: rollout
  groups: 60
  samples_per_group: 4
  prompt: {group_tokens: 64}
  turns: 1
  output_tokens: {kind: lognormal, median: 16, sigma: 0.5}
  max_tokens: 64
client: {key_scope: sample}
router: {policy: {kind: sglang.consistent_hashing}}
arms: {only: {}}
replications: {pairs: 3, seed: 3}
"""
PATIENCE_S = 600
"""Nothing takes so long, on a busy machine either: what is waited for has then failed to come."""
MANY = tuple(range(60))
"""Pairs of one task whose logs, 5 MB, are more than a pipe holds: its worker waits until somebody reads."""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    path = tmp_path_factory.mktemp("pools") / "small.yaml"
    path.write_text(SCENARIO)
    return load_scenario(path).arms["only"]


def pids(pool: Processes) -> list[int]:
    return [worker.process.pid for worker in pool._running if worker.process.pid]


def wait_until_a_result_waits(pool: Processes) -> None:
    """Until the first worker has begun to send: what is not read it cannot finish."""
    assert pool._running[0].pipe.poll(PATIENCE_S)


def test_a_worker_killed_within_a_message_is_replaced(cell: Cell) -> None:
    """Half a result is in the pipe; the task is dealt anew and comes back whole, and so does its neighbour's."""
    with processes(2) as pool:
        tasks = [Task(cell, MANY), Task(cell, (7,))]
        for task in tasks:
            pool.submit(task)
        wait_until_a_result_waits(pool)
        os.kill(pids(pool)[0], signal.SIGKILL)
        done = dict(pool.next() for _ in tasks)
    assert done[tasks[0]].logs == simulate(cell, MANY).logs
    assert done[tasks[1]].logs == simulate(cell, (7,)).logs


def test_large_tasks_pass_large_results(cell: Cell) -> None:
    """The parent gets rid of a task that no pipe holds while the worker cannot get rid of its result."""
    large = Cell.from_resolved(cell.resolved, cell.base, arm="x" * 2_000_000)
    with processes(1) as pool:
        pool.submit(Task(large, MANY))
        wait_until_a_result_waits(pool)
        sent = threading.Thread(target=pool.submit, args=(Task(large, (1,)),), daemon=True)
        sent.start()
        sent.join(PATIENCE_S)
        assert not sent.is_alive()
        assert [len(pool.next()[1].logs) for _ in range(2)] == [len(MANY), 1]


@pytest.mark.parametrize("reading", [False, True])
def test_nothing_outlives_the_pool(cell: Cell, reading: bool) -> None:
    """Left in the middle of its work it leaves no process and no thread: Python would wait for them at its exit."""
    threads = threading.enumerate()
    with processes(2) as pool:
        for _ in range(4):
            pool.submit(Task(cell, MANY))
        if reading:
            pool.next()
        started = pids(pool)
    assert len(started) == 2
    assert not set(started) & {child.pid for child in multiprocessing.active_children()}
    assert threading.enumerate() == threads


def test_a_task_that_kills_its_workers_fails_and_the_others_run(cell: Cell) -> None:
    """The one that each of them ran when it died is given up, what only waited behind it is not."""
    deadly, harmless = Task(cell, MANY), Task(cell, (3,))
    with processes(1) as pool:
        pool.submit(deadly)
        pool.submit(harmless)
        for _ in range(MOST_DEATHS):
            wait_until_a_result_waits(pool)
            os.kill(pids(pool)[0], signal.SIGKILL)
            pool._bury(pool._running[0])
        done = dict(pool.next() for _ in range(2))
    assert done[deadly].failures == dict.fromkeys(MANY, DIED)
    assert done[harmless].logs == simulate(cell, (3,)).logs


def test_workers_end_with_a_parent_that_is_killed(cell: Cell) -> None:
    """A pipe without a parent ends, and with it the worker."""
    pool = Processes(1)
    pool.submit(Task(cell, (1,)))
    pool.next()
    worker = pool._running[0]
    worker.pipe.close()
    worker.process.join(PATIENCE_S)
    assert worker.process.exitcode == 0


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """A worker imports the script that started it: one that would start workers in turn ends at once, in one line."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "script.py").write_text(
        "from sim import load_scenario, run\nrun(load_scenario('small.yaml'), jobs=2, pairs=4000, out='out')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith(UNSTARTED)
