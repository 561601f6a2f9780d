"""``windtunnel workload``: presets, scenarios and traces described; wrong names and values are one line."""

import json
from pathlib import Path

import pytest

from sim import charts
from sim.scenario import presets
from tests.sim.cli.test_commands import call


def described(capsys, *arguments):
    code, out, err = call(capsys, "workload", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_described(capsys, name):
    """By name, its fields overridden as a scenario's are."""
    size = "sessions" if name == "tool-chat-serving" else "groups"
    (found,) = described(capsys, name, "--set", f"workload.{size}=4", "--engines", "8")
    assert found["totals"]["groups"] == 4
    assert set(found["reuse_ceiling"]) == {"1", "16", "64", "2080"}
    assert found["keys"][-1]["max_over_mean"] == pytest.approx(3.297, abs=1e-3), "4 keys on 8 engines"


def test_a_recorded_population_is_what_was_measured(capsys):
    """The 610 sessions of the replay campaign: prompt tokens, and the ceilings at blocks of 16 and 2,080."""
    (found,) = described(capsys, "nemo_gym_12_engines")
    assert found["totals"]["prompt_tokens"] == 1_570_738_525
    assert found["reuse_ceiling"]["16"] == pytest.approx(0.960, abs=5e-4)
    assert found["reuse_ceiling"]["2080"] == pytest.approx(0.948, abs=5e-4)
    assert found["percentiles"]["turns of a session"]["p50"] == 29
    assert found["percentiles"]["turns of a session"]["max"] == 99
    (keys,) = found["keys"]
    assert (keys["keys"], keys["engines"]) == (610, 12)


def test_a_trace_file_is_replayed_as_it_is(capsys):
    """The shipped half of the Mooncake conversation trace: rows and reuse of the recording."""
    trace = Path(__file__).parents[3] / "scenarios" / "traces" / "mooncake" / "conversation_first_half.jsonl.gz"
    (found,) = described(capsys, str(trace))
    assert found["totals"]["requests"] == 5606
    assert found["reuse_ceiling"]["1"] == pytest.approx(0.347, abs=5e-4)
    assert found["keys"] == [], "one engine leaves nothing to place"


def test_the_tables_say_what_the_document_says(capsys):
    """Percentiles, ceiling and closed form as text."""
    code, out, _ = call(capsys, "workload", "slime_group_affinity")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "first prompt, tokens 16 8,192 8,192 8,192 8,192 8,192" in lines
    assert "one key a keys engines keys per engine E[max/mean] 95 % below" in lines
    assert "group 4 2 2 1.38 2.00" in lines
    assert any("75.0% in blocks of 2,080" in line for line in lines)


def test_arms_with_workloads_of_their_own_are_told_apart(capsys, tmp_path):
    """Each workload once, with the arms that have it."""
    path = tmp_path / "two.yaml"
    path.write_text(
        "name: two\nfleet: {engines: 3, engine: {preset: vllm, kv_tokens: 9000, cost: {kind: constant, step_ms: 1}}}\n"
        "workload: {kind: rollout, groups: 2, samples_per_group: 2, prompt: {group_tokens: 9}, output_tokens: 5,"
        " max_tokens: 5}\nrouter: {policy: {kind: round_robin}}\n"
        "arms: {a: {}, b: {router: {policy: {kind: random}}}, c: {workload: {groups: 7}}}\n"
    )
    assert [(each["arms"], each["totals"]["groups"]) for each in described(capsys, str(path))] == [
        (["a", "b"], 2),
        (["c"], 7),
    ]


def test_draws_follow_seed_and_replication(capsys):
    """The same document twice; another one for another seed or replication."""
    ask = ("search-agent", "--set", "workload.groups=2")
    one = described(capsys, *ask)
    assert one == described(capsys, *ask)
    assert one != described(capsys, *ask, "--seed", "2")
    assert one != described(capsys, *ask, "--replication", "1")


def test_a_chart_is_written(capsys, tmp_path):
    """PNG and HTML, both told."""
    code, _, err = call(capsys, "workload", "smoke", "--chart", str(tmp_path / "shape"))
    assert code == 0
    assert (tmp_path / "shape.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "shape.html").exists()
    assert err.count("wrote") == 2


def test_a_curve_is_the_distribution_function():
    """Shares up to each value; zeros are the share that the curve starts from."""
    chart = charts.shapes({"a": [0.0, 1.0, 1.0, 4.0], "b": [7.0]}, "title").to_dict()
    (one, two) = [chart["datasets"][panel["data"]["name"]] for panel in chart["vconcat"]]
    assert [(row["value"], row["share"]) for row in one] == [(1.0, 0.75), (4.0, 1.0)]
    assert [(row["value"], row["share"]) for row in two] == [(7.0, 1.0)]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("math-grop",), 1, "did you mean 'math-grpo'?"),
        (("math-grpo", "--set", "workload.group=3"), 1, "workload.group: unknown key; did you mean 'groups'?"),
        (("math-grpo", "--blocks", "0"), 2, "a block has 1 token or more"),
        (("math-grpo", "--blocks", "x"), 2, "tokens of a block, as in 1,16,64"),
        (("math-grpo", "--engines", "0"), 2, "engines"),
        (("nowhere.yaml",), 1, "no scenario"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, arguments, code, said):
    """Exit 1 for what a user wrote, 2 for how the command is called; nothing on stdout."""
    found, out, err = call(capsys, "workload", *arguments)
    assert (found, out) == (code, "")
    assert said in err
    assert len(err.splitlines()) == 1 or code == 2
