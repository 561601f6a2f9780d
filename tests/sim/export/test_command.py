"""``windtunnel export``: products, addresses of engines, placement classes, warnings, and the check."""

import csv
import json
from collections import Counter

from policies._hashes import blake3_u64
from sim.cli._main import run_command as main
from sim.export import export, warnings
from sim.export._write import Plan
from sim.scenario import load_scenario

SMALL = ("--set", "workload.groups=4", "--set", "workload.samples_per_group=2")


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def products(folder):
    return {arm["name"]: arm["product"] and arm["product"]["product"] for arm in manifest_of(folder)["arms"]}


def test_a_folder_is_checked(tmp_path, capsys):
    """Exit code 0 and one line; 1 and one line that names the file after a change; 2 where an option means nothing."""
    assert main(["export", "slime_group_affinity", "-o", str(tmp_path), *SMALL]) == 0
    capsys.readouterr()
    assert main(["export", "--check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 6 files as exported; arms differ as declared\n"
    (tmp_path / "windtunnel-0.jsonl").write_bytes(b"{}\n")
    assert main(["export", str(tmp_path), "--check"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("error: windtunnel-0.jsonl: not the trace that was exported")
    assert main(["export", "--check", str(tmp_path), "--pairs", "2"]) == 2
    assert main(["export", "slime_group_affinity"]) == 2
    assert main(["export", "--check", str(tmp_path / "nothing")]) == 1


def test_the_product_is_the_one_of_most_arms(tmp_path, capsys):
    """Two arms are two settings of one program where they can be; another one may be asked for, if it has the rules."""
    arms = ("--set", "arms.aware.router.policy={kind: sglang.cache_aware}")
    assert main(["export", "slime_group_affinity", "-o", str(tmp_path / "a"), *SMALL, *arms]) == 0
    assert set(products(tmp_path / "a").values()) == {"slime"}
    assert main(["export", "smoke", "-o", str(tmp_path / "b"), "--product", "smg", "--arm", "round_robin"]) == 1
    assert "smg has no policy with the rule of round_robin as it is set here; those that have it: " in (
        capsys.readouterr().err
    )
    override = ("--set", "arms.sticky_least_loaded.router.policy={kind: random}")
    assert main(["export", "smoke", "-o", str(tmp_path / "c"), *override]) == 0
    assert products(tmp_path / "c") == {"round_robin": "vllm-router", "sticky_least_loaded": "vllm-router"}
    assert main(["export", "smoke", "-o", str(tmp_path / "d"), *override, "--product", "sglang-router"]) == 0
    assert products(tmp_path / "d") == {"round_robin": "sglang-router", "sticky_least_loaded": "sglang-router"}


def test_slime_is_not_taken_for_engines_that_it_cannot_start(tmp_path):
    """A rule of slime and of the gateway goes to the gateway where engines are of vLLM, unless slime is asked for."""
    override = ("--set", "arms.sticky_least_loaded.router.policy={kind: sglang.cache_aware}")
    assert main(["export", "smoke", "-o", str(tmp_path / "a"), *override]) == 0
    assert products(tmp_path / "a")["sticky_least_loaded"] == "sglang-router"
    assert main(["export", "smoke", "-o", str(tmp_path / "b"), *override, "--product", "slime"]) == 0
    lines = [arm["impossible"] for arm in manifest_of(tmp_path / "b")["arms"]]
    assert lines == [["fleet.engine.preset = vllm: slime runs SGLang alone"]] * 2


def test_a_scenario_names_its_product_and_version(tmp_path):
    """``router: {product, version}`` is what is configured, an old version with its own defaults."""
    router = "router={product: sglang-router, version: 0.2.3, policy: cache_aware}"
    other = "arms.sticky_least_loaded.router.policy={kind: round_robin}"
    assert main(["export", "smoke", "-o", str(tmp_path), "--set", router, "--set", other]) == 0
    chosen = [arm["product"] for arm in manifest_of(tmp_path)["arms"]]
    assert {(each["product"], each["version"]) for each in chosen} == {("sglang-router", "0.2.3")}
    script = (tmp_path / "arms" / "round_robin" / "router.sh").read_text()
    assert "--eviction-interval-secs 120" in script
    assert "router.policy.miss = smallest_tree: built in" in script
    assert "--disable-health-check" not in script  # this version has no such switch


def test_what_cannot_be_had_is_a_warning(tmp_path, capsys):
    """One line on stderr for each, and in the manifest."""
    assert main(["export", "smoke", "-o", str(tmp_path)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: arm sticky_least_loaded cannot be run as simulated: router.policy.kind = ")
    assert [arm["impossible"] == [] for arm in manifest_of(tmp_path)["arms"]] == [True, False]


def test_the_order_of_runs_says_the_planned_class(tmp_path):
    """Of the arm whose few keys are hashed: the class that the keys of the trace fall into, hashed here by hand."""
    over = ("workload.groups=4", "workload.samples_per_group=3", "client.blocking=placement")
    export(load_scenario("slime_group_affinity", over), tmp_path, Plan(("windtunnel",), 8, 512))
    rows = list(csv.DictReader((tmp_path / "run_order.csv").read_text().splitlines()))
    assert [int(row["run"]) for row in rows] == list(range(16))
    assert [row["arm"] for row in rows] == [arm for pair in manifest_of(tmp_path)["order"] for arm in pair]
    assert all(row["cache"].startswith("cold: flush") and "below 1 %" in row["cache"] for row in rows)
    for row in rows:
        assert (row["trace"], row["block"]) == (f"windtunnel-{row['pair']}.jsonl", str(int(row["pair"]) // 2))
        _, *requests = map(json.loads, (tmp_path / row["trace"]).read_text().splitlines())
        keys = {each["key"][row["arm"]] for each in requests}
        held = Counter(blake3_u64(key) % 2 for key in keys)
        fallen = ":".join(str(held[engine]) for engine in sorted((0, 1), key=lambda engine: -held[engine]))
        assert row["placement"] == (fallen if row["arm"] == "group" else "")
    assert {row["placement"] for row in rows} == {"", "2:2", "3:1", "4:0"}


def test_keys_are_planned_for_the_engines_that_are_named(tmp_path, capsys):
    """A ring hashes addresses: without the real ones the classes hold for the simulated ones alone, which is said."""
    ring = ("--set", "router.policy={kind: smg.consistent_hashing}", "--set", "client.blocking=placement", *SMALL)
    assert main(["export", "slime_group_affinity", "-o", str(tmp_path / "a"), *ring]) == 0
    assert "--engine" in capsys.readouterr().err
    named = ("--engine", "http://node-1:30000", "--engine", "http://node-2:30000")
    assert main(["export", "slime_group_affinity", "-o", str(tmp_path / "b"), *ring, *named]) == 0
    assert capsys.readouterr().err == ""
    script = (tmp_path / "b" / "arms" / "group" / "router.sh").read_text()
    assert "--worker-urls http://node-1:30000 http://node-2:30000 \\\n" in script
    assert (tmp_path / "a" / "windtunnel-0.jsonl").read_text() != (tmp_path / "b" / "windtunnel-0.jsonl").read_text()
    assert {arm["keys_planned_for"] for arm in manifest_of(tmp_path / "b")["arms"]} == {"named"}
    modulo = [each for each in ring if "smg" not in each][1:]
    assert main(["export", "slime_group_affinity", "-o", str(tmp_path / "c"), *modulo]) == 0
    assert not list(warnings(manifest_of(tmp_path / "c")))
    assert manifest_of(tmp_path / "c")["arms"][0]["keys_planned_for"] == "any"


def test_addresses_are_as_many_as_engines_and_addresses(tmp_path, capsys):
    """One clear line each, and no folder."""
    for given, line in (
        (("http://a",), "has 2 engines, and 1 addresses are given"),
        (("http://a", "http://a"), "two engines have the same address"),
        (("http://a", "$(reboot)"), "begins with http://, https:// or grpc://"),
    ):
        named = [word for url in given for word in ("--engine", url)]
        assert main(["export", "slime_group_affinity", "-o", str(tmp_path / "x"), *SMALL, *named]) == 1
        assert line in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_an_export_of_any_shipped_scenario_passes(tmp_path):
    """Hybrid models, memory by device, trainers, rules in the client, arms that change the fleet."""
    prompts = "prompt: {group_tokens: 64}, output_tokens: 8, max_tokens: 8"
    small = f"workload={{kind: rollout, groups: 2, samples_per_group: 1, {prompts}}}"
    for name, over in (("nemo_gym_12_counter", (small,)), ("rollout_steps", ()), ("slime_multi_turn", (small,))):
        export(load_scenario(name, over), tmp_path / name, Plan(("mooncake",), 1, 512))
        changes = manifest_of(tmp_path / name)["changes"]
        assert main(["export", "--check", str(tmp_path / name)]) == any(len(each) > 1 for each in changes.values())


def test_an_export_is_not_mixed_with_files_of_others(tmp_path, capsys):
    """A folder is new, empty or of an earlier export; anything else stays as it is."""
    command = ["export", "slime_group_affinity", *SMALL, "-o", str(tmp_path)]
    (tmp_path / "notes.txt").write_text("mine")
    assert main(command) == 1
    assert "is not empty and holds no export: choose another folder" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "notes.txt").unlink()
    assert main(command) == 0
    assert main([*command, "--pairs", "2"]) == 0
    assert (tmp_path / "windtunnel-1.jsonl").exists()


def test_one_pair_alone(tmp_path, capsys):
    """Pair 3 without those before it: the bytes of the whole export, its order of runs, and a folder that holds."""
    whole, alone = tmp_path / "whole", tmp_path / "alone"
    assert main(["export", "slime_group_affinity", "-o", str(whole), *SMALL, "--pairs", "4"]) == 0
    assert main(["export", "slime_group_affinity", "-o", str(alone), *SMALL, "--first-pair", "3"]) == 0
    assert [each.name for each in alone.glob("*.jsonl")] == ["windtunnel-3.jsonl"]
    assert (alone / "windtunnel-3.jsonl").read_bytes() == (whole / "windtunnel-3.jsonl").read_bytes()
    said = [list(csv.reader((each / "run_order.csv").read_text().splitlines())) for each in (alone, whole)]
    assert [row[1:] for row in said[0][1:]] == [row[1:] for row in said[1][1:] if row[2] == "3"]
    capsys.readouterr()
    assert main(["export", "--check", str(alone)]) == 0
    changed = manifest_of(alone) | {"first_pair": "3"}
    (alone / "manifest.json").write_text(json.dumps(changed))
    assert main(["export", "--check", str(alone)]) == 1
    assert "Traceback" not in capsys.readouterr().err
