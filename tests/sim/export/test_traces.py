"""Exported scenarios: the same requests for all arms, the keys of each, files that say what they are."""

import hashlib
import json
from pathlib import Path

import pytest

from sim.cli._main import run_command as main
from sim.export import Plan, export
from sim.replication import keys_of, replicate
from sim.rng import Streams
from sim.scenario import load_scenario
from sim.workload.trace import Trace

SCENARIO = "slime_group_affinity"
SMALL = ("workload.groups=3",)


def exported(folder, *arguments):
    code = main(["export", SCENARIO, "-o", str(folder), "--set", SMALL[0], *arguments])
    assert code == 0
    return json.loads((folder / "manifest.json").read_text())


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_files_are_those_of_the_manifest(tmp_path, capsys):
    """Every file with its size, rows and digest; the order of runs alternates; exporting again gives the same bytes."""
    manifest = exported(tmp_path / "a", "--pairs", "2", "--format", "windtunnel", "--format", "mooncake")
    assert len(capsys.readouterr().out.splitlines()) == 10
    assert {each["name"] for each in manifest["files"]} | {"manifest.json"} == names(tmp_path / "a")
    for each in manifest["files"]:
        data = (tmp_path / "a" / each["name"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == each["sha256"]
        assert (len(data), data.count(b"\n")) == (each["bytes"], each["rows"])
    arms = [arm["name"] for arm in manifest["arms"]]
    assert manifest["order"] in ([arms, arms[::-1]], [arms[::-1], arms])
    exported(tmp_path / "b", "--pairs", "2", "--format", "windtunnel", "--format", "mooncake")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_an_earlier_export_goes(tmp_path):
    """What the manifest before named and this one does not is taken away; other files stay."""
    exported(tmp_path / "a", "--pairs", "3", "--format", "windtunnel", "--format", "mooncake")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    manifest = exported(tmp_path / "a", "--pairs", "1", "--format", "windtunnel")
    assert names(tmp_path / "a") == {each["name"] for each in manifest["files"]} | {"manifest.json", "notes.txt"}


def test_the_manifest_says_how_steps_are_trained(tmp_path):
    """Steps, batches and updates of an arm are no part of the traces, so they stand beside them; else nothing does."""
    assert not any("training" in arm for arm in exported(tmp_path / "plain")["arms"])
    assert main(["export", "rollout_steps", "-o", str(tmp_path / "steps")]) == 0
    cells = load_scenario("rollout_steps").arms
    said = {
        arm["name"]: arm["training"] for arm in json.loads((tmp_path / "steps" / "manifest.json").read_text())["arms"]
    }
    assert said == {name: cell.resolved["training"] for name, cell in cells.items()}
    assert all(said.values())


def test_an_export_runs_as_the_scenario_did(tmp_path):
    """The simulator on the exported file gives the log that it gave on the scenario, bit for bit."""
    exported(tmp_path)
    scenario = load_scenario(SCENARIO, SMALL)
    file = tmp_path / "windtunnel-0.jsonl"
    replayed = load_scenario(SCENARIO, (f"workload={{kind: trace, file: {file}}}",))
    for name in scenario.arms:
        one, other = (replicate(each.arms[name], 0) for each in (scenario, replayed))
        assert bytes(one.requests.data) == bytes(other.requests.data)
        assert bytes(one.decisions.data) == bytes(other.decisions.data)
        assert one.prefill_ideal == other.prefill_ideal


def test_each_arm_sends_its_own_keys_and_else_the_same(tmp_path):
    """Keys are those of the replication; under group scope siblings share one."""
    exported(tmp_path)
    scenario = load_scenario(SCENARIO, SMALL)
    _, *rows = map(json.loads, (tmp_path / "windtunnel-0.jsonl").read_text().splitlines())
    for name, cell in scenario.arms.items():
        workload = cell.workload.generate(Streams(cell.seed, 0), cell.base)
        keys = keys_of(cell, workload, Streams(cell.seed, 0))
        assert [row["key"].get(name, "") for row in rows] == [keys[row["session"]] for row in rows]
    assert all(set(row["key"]) <= set(scenario.arms) for row in rows)


def test_pairs_are_replications(tmp_path):
    """File i is replication i, whatever the number of files."""
    exported(tmp_path / "two", "--pairs", "2")
    texts = [(tmp_path / "two" / f"windtunnel-{pair}.jsonl").read_text() for pair in (0, 1)]
    assert texts[0] != texts[1]
    exported(tmp_path / "one")
    assert (tmp_path / "one" / "windtunnel-0.jsonl").read_text() == texts[0]
    exported(tmp_path / "other", "--seed", "77")
    assert (tmp_path / "other" / "windtunnel-0.jsonl").read_text() != texts[0]


def test_the_block_size_and_what_is_left_out_are_said(tmp_path):
    """Blocks of 512 unless asked otherwise."""
    for more, block in (([], 512), (["--block-tokens", "64"], 64)):
        manifest = exported(tmp_path / str(block), "--format", "mooncake", *more)
        assert manifest["block_tokens"] == block
        rows = [json.loads(line) for line in (tmp_path / str(block) / "mooncake-0.jsonl").read_text().splitlines()]
        assert all(len(row["hash_ids"]) == -(-row["input_length"] // block) for row in rows)
        assert any("a group" in each for each in manifest["leaves_out"]["mooncake"])


def test_arms_with_other_workloads_are_exported_one_by_one(tmp_path, capsys):
    """A pair sends one workload; and what fails leaves no files."""
    scenario = load_scenario(SCENARIO, (*SMALL, "arms.more.workload.samples_per_group=2"))
    with pytest.raises(Exception, match="arm more has another workload than"):
        export(scenario, tmp_path / "x", Plan(("windtunnel",), 1, 512))
    code = main(["export", "mooncake_conversation", "-o", str(tmp_path / "y"), "--set", "workload.file=nowhere.jsonl"])
    assert code == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not any(path.is_file() for path in Path(tmp_path).rglob("*"))


def test_sub_agents_are_exported(tmp_path):
    """Forks are in the trace of this program, and a run of it is the run of what was exported."""
    data = Path(__file__).parents[2] / "data" / "traces" / "weka" / "plain"
    trace = {"kind": "trace", "file": str(data), "time_scale": 0.01}
    override = f"workload={json.dumps(trace)}"
    assert main(["export", "smoke", "-o", str(tmp_path), "--set", override, "--format", "windtunnel"]) == 0
    again = Trace("windtunnel-0.jsonl").generate(Streams(1), tmp_path)
    assert again.children == Trace(str(data), time_scale=0.01).generate(Streams(1), tmp_path).children != {}
    replayed = load_scenario("smoke", (f"workload={{kind: trace, file: {tmp_path / 'windtunnel-0.jsonl'}}}",))
    one, other = (replicate(each.arms[each.baseline], 0) for each in (load_scenario("smoke", (override,)), replayed))
    assert bytes(one.requests.data) == bytes(other.requests.data) != b""
