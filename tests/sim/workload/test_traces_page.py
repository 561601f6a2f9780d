"""docs/traces.md: every example loads as the format that it stands under, every command runs."""

import re
import shlex
from pathlib import Path

import pytest

from sim.cli._main import run_command
from sim.rng import Streams
from sim.scenario import check, load_scenario
from sim.workload._traces._formats import FORMATS, sniff
from sim.workload.trace import Trace

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"\n### (\w+)\n.*?```(?:json|csv)\n(.*?)```", PAGE, flags=re.DOTALL))


def test_every_format_has_its_example():
    """The page knows the formats that there are, and the schema of the kind as well."""
    assert set(EXAMPLES) == set(FORMATS)
    known = Trace.__annotations__["format"]
    assert set(FORMATS) | {"auto"} == set(known.__args__)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_loads_as_what_it_is(name, tmp_path):
    """Told by content alone, and replayed."""
    (tmp_path / "example").write_text(EXAMPLES[name], encoding="utf-8")
    assert sniff(tmp_path / "example").name == name
    workload = Trace("example").generate(Streams(1), tmp_path)
    assert workload.summary()["requests"] >= 1


def test_the_scenario_block_is_one(tmp_path):
    """The YAML of the page, in a scenario."""
    [block] = re.findall(r"```yaml\n(workload:.*?)```", PAGE, flags=re.DOTALL)
    text = (ROOT / "scenarios" / "nemo_gym_12_engines.yaml").read_text(encoding="utf-8")
    before, rest = text.split("\nworkload:\n")
    (tmp_path / "s.yaml").write_text(before + "\n" + block + "client:" + rest.split("\nclient:")[1], encoding="utf-8")
    (tmp_path / "traces").symlink_to(ROOT / "scenarios" / "traces")
    check(load_scenario(tmp_path / "s.yaml"))


def test_every_command_runs(tmp_path, monkeypatch, capsys):
    """Copied from the page into a folder that has the scenarios."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    [commands] = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in commands.splitlines():
        name, *arguments = shlex.split(line)
        assert name == "windtunnel"
        if "aiperf" in arguments:
            arguments += ["--set", "workload.groups=2"]
        assert run_command(arguments) == 0, capsys.readouterr().err
    assert (tmp_path / "codex.jsonl.gz").is_file()
    made = {path.name for path in (tmp_path / "real_run").iterdir()}
    assert {"manifest.json", "run_order.csv", "arms", "windtunnel-0.jsonl", "windtunnel-1.jsonl"} < made
    assert len(made) == 7  # and two of another format
