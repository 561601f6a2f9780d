"""The checker: an export as it was written passes; whatever is changed by hand is found, with the file and the flag."""

import hashlib
import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import ScenarioError
from sim.export import Plan, check_export, export
from sim.export._arms import configure, facts_of
from sim.export._manifest import digest_of, files_of
from sim.export._order import run_order
from sim.scenario import load_scenario


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def resign(folder, manifest, *changed):
    """Write a manifest whose digests fit the files, as who covers a change up would."""
    for file in manifest["files"]:
        if file["name"] in changed:
            data = (folder / file["name"]).read_bytes()
            file |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "rows": data.count(b"\n")}
    manifest["digest"] = digest_of(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def found(folder):
    """The line that the checker ends with."""
    with pytest.raises(ScenarioError) as caught:
        check_export(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def copy(exported, tmp_path):
    """The export, to be changed."""
    return shutil.copytree(exported, tmp_path / "copy")


def test_an_export_passes(exported, manifest):
    """Its manifest comes back; files that are not of the export are nobody's business."""
    assert check_export(exported) == manifest
    assert {"manifest.json", *(file["name"] for file in manifest["files"])} == set(names(exported))


def test_other_files_may_stand_beside_it(copy):
    """Notes of an operator are no part of the experiment; a file among those of an arm is."""
    (copy / "notes.txt").write_text("run 3 was repeated")
    check_export(copy)
    (copy / "arms" / "group" / "engine.sh").write_text("#!/bin/sh\n")
    assert found(copy) == "arms/group/engine.sh: not a file of this export: take it away"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_change_of_any_file_is_found(exported, tmp_path_factory, data):
    """A byte changed, a line doubled or taken away, in any file: the line names the file."""
    folder = shutil.copytree(exported, tmp_path_factory.mktemp("changed") / "copy")
    name = data.draw(st.sampled_from(names(folder)))
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    how = data.draw(st.sampled_from(["byte", "double", "drop"]))
    line = lines[at]
    if how == "byte":
        place = data.draw(st.integers(0, len(line) - 1))
        lines[at] = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
    else:
        lines[at : at + 1] = [line, line] if how == "double" else []
    changed = b"".join(lines)
    (folder / name).write_bytes(changed)
    if name == "manifest.json" and _same_values(changed, (exported / name).read_bytes()):
        check_export(folder)
        return
    assert name in found(folder)


def _same_values(one, other):
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_change_is_found_though_the_digests_fit(exported, tmp_path_factory, data):
    """Files of arms and the order of runs are made again, so a new digest covers nothing up."""
    folder = shutil.copytree(exported, tmp_path_factory.mktemp("covered") / "copy")
    manifest = json.loads((folder / "manifest.json").read_text())
    made = sorted(file["name"] for file in manifest["files"] if "format" not in file)
    name = data.draw(st.sampled_from(made))
    lines = (folder / name).read_text().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = data.draw(st.sampled_from([lines[at].replace("\n", " 7\n"), "", lines[at] * 2]))
    (folder / name).write_text("".join(lines))
    resign(folder, manifest, name)
    assert found(folder).startswith(f"{name}: ")


def test_a_changed_flag_is_named(copy):
    """The file, the flag as it stands, and the flag as it was exported."""
    file = copy / "arms" / "group" / "slime_args.sh"
    file.write_text(file.read_text().replace("--sglang-page-size 1\n", "--sglang-page-size 16\n"))
    line = "arms/group/slime_args.sh: '--sglang-page-size 16' stands where '--sglang-page-size 1' was exported"
    assert found(copy) == line
    file.write_text(file.read_text().replace("  --sglang-page-size 16\n", ""))
    assert found(copy) == "arms/group/slime_args.sh: '--sglang-page-size 1' was taken away"
    file.write_text(file.read_text().replace("ARGS=(\n", "ARGS=(\n  --sglang-page-size 1\n  --sglang-tf32\n"))
    assert "'--sglang-page-size 1 | --sglang-tf32' was added" in found(copy)


def test_a_missing_file_is_named(copy, manifest):
    """Whichever it is."""
    for file in manifest["files"]:
        (copy / file["name"]).rename(copy / "away")
        assert found(copy) == f"{file['name']}: No such file or directory"
        (copy / "away").rename(copy / file["name"])
    (copy / "manifest.json").unlink()
    assert found(copy).endswith("manifest.json: No such file or directory: no export is here")


@pytest.mark.parametrize("edit", [("fleet", "engine", "max_num_seqs"), ("router", "replicas"), ("client", "turn_s")])
def test_an_undeclared_difference_is_found_though_everything_fits(copy, manifest, edit):
    """An arm configured otherwise, with files, hashes and digests made anew: nothing declared accounts for it."""
    arm = manifest["arms"][1]
    place = arm
    for key in edit[:-1]:
        place = place[key]
    place[edit[-1]] = 3
    made = configure(facts_of(arm))
    arm |= {"router_config_hash": made.router_hash, "impossible": made.impossible}
    for name, text in files_of(arm["name"], made).items():
        (copy / name).write_text(text)
    resign(copy, manifest, *files_of(arm["name"], made))
    field = ".".join(edit)
    assert found(copy) == f"manifest.json: arm group differs from sample in {field}, which is not as declared"


def test_two_changes_of_an_arm_are_refused(tmp_path):
    """What is measured would have two causes: the export is written, and does not pass."""
    over = ("workload.groups=2", "arms.group.router.replicas=2")
    export(load_scenario("slime_group_affinity", over), tmp_path, Plan(("windtunnel",), 1, 512))
    line = found(tmp_path)
    assert line.startswith(
        "manifest.json: arm group differs from sample in 2 fields (client.key_scope, router.replicas)"
    )


def test_the_order_cannot_be_chosen(copy, manifest):
    """It is the one of the seed: an operator who prefers another one is found out."""
    for pair in range(2):
        manifest["order"][pair] = manifest["order"][pair][::-1]
    resign(copy, manifest)
    assert "run_order.csv" in found(copy)
    rows = run_order(manifest["order"], manifest["placements"], "windtunnel")
    (copy / "run_order.csv").write_text("".join(rows))
    resign(copy, manifest, "run_order.csv")
    assert found(copy) == "manifest.json: order is not the one that seed 1 gives"


def test_what_the_manifest_says_of_files_is_held(copy, manifest):
    """A hash of a router that no file has, a trace that says other arms, pairs that nobody exported."""
    arm = manifest["arms"][1]
    good, arm["router_config_hash"] = arm["router_config_hash"], "0" * 64
    resign(copy, manifest)
    assert found(copy) == "manifest.json: router_config_hash of arm group is not that of its files"
    arm["router_config_hash"] = good
    trace = copy / "windtunnel-1.jsonl"
    head, *rows = trace.read_text().splitlines(keepends=True)
    trace.write_text("".join([head.replace('"key_rule": "group"', '"key_rule": "session"'), *rows]))
    resign(copy, manifest, trace.name)
    assert found(copy) == "windtunnel-1.jsonl: says other arms, or another order, than manifest.json"
    manifest["files"] = [file for file in manifest["files"] if file["name"] != "mooncake-2.jsonl"]
    resign(copy, manifest)
    assert found(copy) == "manifest.json: pairs of mooncake traces are [0, 1], of 3 in order"


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_value_of_the_manifest_is_held(exported, tmp_path_factory, data):
    """Whatever value is changed, deep inside or not, the digest or what the digest stands for does not fit."""
    folder = shutil.copytree(exported, tmp_path_factory.mktemp("manifest") / "copy")
    changed = json.loads((folder / "manifest.json").read_text())
    place, path = changed, []
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        path.append(key)
        parent, place = place, place[key]
    parent[path[-1]] = data.draw(st.sampled_from(["other", 12345, None, [], {}]).filter(lambda new: new != place))
    (folder / "manifest.json").write_text(json.dumps(changed))
    assert found(folder)
