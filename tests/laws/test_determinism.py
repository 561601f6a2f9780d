"""L4: the same scenario and seed give the same log, byte for byte, in any process and under any PYTHONHASHSEED."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from sim.log.record import TABLES
from sim.replication import replicate
from tests import strategies
from tests.strategies import POLICIES, cell_of, world

ROOT = Path(__file__).parents[2]


def worlds():
    """A small busy world for each policy, half of them on either preset."""
    for serial, kind in enumerate(POLICIES):
        yield world(
            engines=3,
            engine={"preset": ("vllm", "sglang")[serial % 2], "overlap": serial % 3 == 0, "kv_tokens": 2000},
            workload={
                "groups": 8,
                "samples_per_group": 3,
                "turns": 3,
                "prompt": {"group_tokens": 100, "system_tokens": 33},
                "output_tokens": {"kind": "lognormal", "median": 30, "sigma": 1.0},
                "max_tokens": 100,
                "observation_tokens": 20,
                "tool_delay_s": 0.05,
                "arrivals": {"kind": "poisson", "groups_per_s": 20.0},
            },
            noise={"engine_speed_sigma": 0.1, "step_sigma": 0.1},
            policy={"kind": kind},
        )


def digest(log):
    """All tables as text."""
    return "\n".join(getattr(log, table).data.hex() for table in TABLES)


def test_two_processes_with_different_hash_seeds(tmp_path):
    """L4: all four tables, for every policy, from two fresh processes; both run one copy of the sources."""
    for part in ("policies", "sim"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in (Path(__file__), Path(strategies.__file__)):
        copy = tmp_path / part.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(part, copy)
    program = (
        "from pathlib import Path\n"
        "from sim.replication import __file__ as file, replicate\n"
        "from tests.laws.test_determinism import cell_of, digest, worlds\n"
        "assert Path(file).is_relative_to(Path.cwd())\n"
        "for each in worlds(): print(digest(replicate(cell_of(each), 0)))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    one, other = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert one == other
    assert len(one.splitlines()) == len(TABLES) * len(POLICIES)


def test_no_replication_leaves_anything_behind():
    """L4: what ran before, and the state of the global generator, change nothing."""
    first = [digest(replicate(cell_of(each), 0)) for each in worlds()]
    random.seed(99)
    assert [digest(replicate(cell_of(each), 0)) for each in reversed(list(worlds()))] == first[::-1]


def test_seeds_and_replications_differ():
    """Another seed or another replication is another draw."""
    each = next(worlds())
    logs = [digest(replicate(cell_of({**each, "seed": seed}), pair)) for seed in (1, 2) for pair in (0, 1)]
    assert len(set(logs)) == 4
