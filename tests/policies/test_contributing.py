"""A policy is one new file: CONTRIBUTING.md's own example, put into a copy of the project, with no other edit."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIO = """
name: example
fleet: {engines: 3, engine: {preset: vllm, kv_tokens: 100000, cost: {kind: constant, step_ms: 10}}}
workload: {kind: rollout, groups: 20, samples_per_group: 1, prompt: {system_tokens: 0, group_tokens: 100},
           output_tokens: 50, max_tokens: 50}
router: {policy: {kind: lowest_index, limit: 4}}
replications: {pairs: 1}
"""
USED = """
from pathlib import Path
from docs import generate
from sim import load_scenario, run
from sim.cli._policies import describe, listing

found = run(load_scenario("example.yaml"), out=Path("out"))
counts = found.arms["base"].tables().requests["engine"].value_counts()
print("requests", sorted(counts["count"].to_list()))
print("listed", sum(line.startswith("lowest_index ") for line in listing().splitlines()))
print("described", "Requests in flight from which an engine counts as full." in describe("lowest_index"))
print("documented", "## `lowest_index`" in generate.pages()["policies.md"])
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with one more file."""
    folder = tmp_path_factory.mktemp("project")
    skip = shutil.ignore_patterns("__pycache__", "traces", "vectors", "data")
    for name in ("policies", "sim", "docs", "tests", "scenarios"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    (folder / "policies" / "lowest_index.py").write_text(block, encoding="utf-8")
    (folder / "example.yaml").write_text(SCENARIO, encoding="utf-8")
    return folder


def python(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_runs_and_is_documented(copy: Path) -> None:
    """It routes 4, 4 and the rest by chance; the listing, its page and the reference have it."""
    out = dict(line.split(" ", 1) for line in python(copy, "-c", USED).splitlines())
    assert sum(json.loads(out["requests"])) == 20
    assert (out["listed"], out["described"], out["documented"]) == ("1", "True", "True")


def test_it_passes_the_contract(copy: Path) -> None:
    """The contract tests find it by themselves, and it is held to each."""
    out = python(copy, "-m", "pytest", "-q", "-p", "no:xdist", "tests/policies/test_contract.py", "-k", "lowest_index")
    assert re.search(r"\b[5-9]\d* passed", out), out
