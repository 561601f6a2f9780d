"""Whatever is wrong with a scenario is one line with file, line, key and what was meant."""

import re
from pathlib import Path

import pytest

from sim.errors import ScenarioError
from sim.scenario import check, load_scenario

GOOD = """\
# A question.
name: small
fleet:
  engines: 2
  engine: {preset: sglang, cost: {kind: form_d, slowdown: 1.25}}
workload:
  kind: rollout
  groups: 2
  samples_per_group: 2
  prompt: {group_tokens: 64}
  output_tokens: {kind: lognormal, median: 16, sigma: 0.3}
  max_tokens: 32
client: {key_scope: sample}
router:
  policy: {kind: sglang.consistent_hashing}
arms:
  sample: {}
  group: {client: {key_scope: group}}
metrics: [samples_per_s]
"""


ALIASES = [f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]" for below, name in zip("abcde", "bcdef", strict=True)]
BOMB = "\n".join(["a: &a [x, x, x, x, x, x, x, x, x, x]", *ALIASES])


def failure(tmp_path: Path, text: str, overrides: tuple[str, ...] = ()) -> str:
    """The one line of the error, without the folder."""
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        check(load_scenario(file, overrides))
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_the_good_one_is_good(tmp_path: Path) -> None:
    """The text that the others change passes."""
    (tmp_path / "s.yaml").write_text(GOOD)
    check(load_scenario(tmp_path / "s.yaml"))


def test_a_case_for_validate_says_so(tmp_path: Path) -> None:
    """It lies beside scenarios, and is none."""
    message = failure(tmp_path, "question: Is it?\nscenario: smoke\nrows: []\n")
    assert message == "s.yaml:1: question: this is a case of published values: windtunnel validate s.yaml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fleet:", "fleett:", "s.yaml:3: fleett: unknown key; did you mean 'fleet'?"),
        ("  engines: 2", "  engins: 2", "s.yaml:4: fleet.engins: unknown key; did you mean 'engines'?"),
        ("  engines: 2", "  engines: 0", "s.yaml:4: fleet.engines: must be 1 or more, not 0"),
        ("  engines: 2", "  engines: two", "s.yaml:4: fleet.engines: must be an integer, not 'two'"),
        ("  engines: 2", "  engines: 2.5", "s.yaml:4: fleet.engines: must be an integer, not 2.5"),
        ("  engines: 2", "  engines: true", "s.yaml:4: fleet.engines: must be an integer, not true"),
        ("  engines: 2\n", "", "s.yaml:3: fleet.engines: required key is missing"),
        ("slowdown", "slowdwn", "s.yaml:5: fleet.engine.cost.slowdwn: unknown key; did you mean 'slowdown'?"),
        ("form_d", "form_e", "s.yaml:5: fleet.engine.cost.kind: unknown cost model 'form_e'; did you mean 'form_d'?"),
        ("preset: sglang", "preset: sglan", "did you mean 'sglang'?"),
        (
            "preset: sglang",
            "preset: sglang, kv_tokens: -5",
            "s.yaml:5: fleet.engine.kv_tokens: must be 0 or more, not -5",
        ),
        (
            "preset: sglang",
            "preset: sglang, max_num_seqs: 0",
            "fleet.engine.max_num_seqs: must be 1 or more",
        ),
        (
            "preset: sglang",
            "preset: sglang, memory_share: 1.5",
            "fleet.engine.memory_share: must be 1 or less, not 1.5",
        ),
        (
            "kind: rollout",
            "kind: rolout",
            "s.yaml:7: workload.kind: unknown workload 'rolout'; did you mean 'rollout'?",
        ),
        (
            "group_tokens: 64",
            "group_tokens: -64",
            "s.yaml:10: workload.prompt.group_tokens: must be 0 or more, not -64",
        ),
        ("group_tokens: 64", "group_tokens: [64]", "s.yaml:10: workload.prompt.group_tokens"),
        ("group_tokens: 64", "group_token: 64", "unknown key; did you mean 'group_tokens'?"),
        ("kind: lognormal", "kind: lognorml", "workload.output_tokens.kind: unknown kind 'lognorml'"),
        ("median: 16", "median: -16", "s.yaml:11: workload.output_tokens.median"),
        ("median: 16", "median: .nan", "s.yaml:11: workload.output_tokens.median: must be a finite number"),
        ("median: 16", "median: .inf", "s.yaml:11: workload.output_tokens.median: must be a finite number"),
        ("median: 16", "median: 1e999", "s.yaml:11: workload.output_tokens.median: must be a finite number"),
        ("median: 16", "median: '16'", "s.yaml:11: workload.output_tokens.median: must be a number, not '16'"),
        (", sigma: 0.3", "", "s.yaml:11: workload.output_tokens.sigma: required key is missing"),
        ("key_scope: sample", "key_scope: smaple", "s.yaml:13: client.key_scope: must be 'request'"),
        ("key_scope: sample", "scope: sample", "s.yaml:13: client.scope: unknown key; did you mean 'key_scope'?"),
        ("sglang.consistent_hashing}", "sglang.consistent_hash}", "did you mean 'sglang.consistent_hashing'?"),
        (
            "sglang.consistent_hashing}",
            "sglang.consistent_hashing, points: 3}",
            "s.yaml:15: router.policy.points: unknown key",
        ),
        (
            "sglang.consistent_hashing}",
            "./none.py:P}",
            "s.yaml:15: router.policy.kind: cannot read ./none.py: No such file",
        ),
        (
            "{client: {key_scope: group}}",
            "{clent: {}}",
            "s.yaml:18: arms.group.clent: not a key of an arm; did you mean 'client'?",
        ),
        (
            "key_scope: group",
            "key_scop: group",
            "s.yaml:18: arms.group.client.key_scop: unknown key; did you mean 'key_scope'?",
        ),
        ("key_scope: group", "key_scope: 3", "s.yaml:18: arms.group.client.key_scope: must be"),
        ("key_scope: group", "key_scope: session", "s.yaml:18: arms.group: resolves to the same cell as arm 'sample'"),
        ("{client: {key_scope: group}}", "{null_control: 3}", "arms.group.null_control: must be true or false, not 3"),
        (
            "[samples_per_s]",
            "[samples_per_sec]",
            "s.yaml:19: metrics.0: unknown metric 'samples_per_sec'; did you mean 'samples_per_s'?",
        ),
        ("[samples_per_s]", "[samples_per_s, samples_per_s]", "is named twice"),
        ("[samples_per_s]", "[]", "s.yaml:19: metrics: must hold 1 or more, not 0"),
        (
            "metrics:",
            "baseline: smple\nmetrics:",
            "s.yaml:19: baseline: no arm is named 'smple'; did you mean 'sample'?",
        ),
        ("metrics:", "replications: {pairs: 0}\nmetrics:", "s.yaml:19: replications.pairs: must be 1 or more, not 0"),
        ("metrics:", "replications: {seed: -1}\nmetrics:", "s.yaml:19: replications.seed: must be 0 or more, not -1"),
        ("name: small", "name: ../up", "s.yaml:2: name: must be a plain name"),
        ("name: small\n", "", "s.yaml:1: name: required key is missing"),
        ("  groups: 2\n", "  groups: 2\n  groups: 3\n", "s.yaml:9: workload.groups: the key is written twice (line 8)"),
        ("  groups: 2\n", "  groups: !!python/name:os.system 2\n", "s.yaml:8: workload.groups: the tag"),
        ("  groups: 2\n", "  groups: !mine 2\n", "s.yaml:8: workload.groups: the tag '!mine' is not known here"),
        ("  groups: 2\n", "  groups: &a [*a]\n", "s.yaml:8: workload.groups.0: an alias cannot contain itself"),
        ("  groups: 2\n", "  <<: {groups: 2}\n", "s.yaml:8: workload: merge keys (<<) are not supported"),
        ("  groups: 2\n", "  groups: *nowhere\n", "s.yaml:8: not YAML: found undefined alias"),
        ("  groups: 2\n", "  groups: [2\n", "not YAML"),
        ("  groups: 2\n", "\tgroups: 2\n", "s.yaml:8: not YAML"),
    ],
)
def test_one_line_with_place_and_rule(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Each slip is found where it stands."""
    assert GOOD.count(old) >= 1
    assert message in failure(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml:1: a scenario is made of keys (name: ..., fleet: ...), this is empty"),
        ("# nothing\n", "a scenario is made of keys (name: ..., fleet: ...), this is empty"),
        ("- a\n- b\n", "this is a list"),
        ("hello", "this is a text"),
        ("{a: b}: c", "a key must be a name"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("[" * 5000, "s.yaml"),
        (BOMB, "more than 100000 values"),
        ("a: \x07", "not YAML"),
        ("a: " + "9" * 5000, "a number of that many digits"),
    ],
)
def test_what_is_no_scenario_at_all(tmp_path: Path, text: str, message: str) -> None:
    """Texts that YAML or a scenario cannot be."""
    assert message in failure(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are told apart."""
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff\xfe")
    cases = {
        str(tmp_path / "slime_group_afinity"): "neither a file nor the name of a shipped one; "
        "did you mean 'slime_group_affinity'?",
        str(tmp_path): "is not a scenario file",
        "a\0b": "is not a scenario file",
        str(tmp_path / "bytes.yaml"): "not a UTF-8 text",
        "": "is not a scenario file",
    }
    for name, message in cases.items():
        with pytest.raises(ScenarioError, match=re.escape(message)):
            load_scenario(name)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("fleet.enginez=3", "--set fleet.enginez: unknown key; did you mean 'engine'?"),
        ("fleet.engines=0", "--set fleet.engines: must be 1 or more, not 0"),
        ("arms.group.client.key_scope=sample", "--set arms.group: resolves to the same cell"),
        ("arms.grup.client.key_scope=request", "--set arms.grup"),
        ("fleet.engines", "--set fleet.engines: must be path=value"),
        ("fleet.engine={}", "--set fleet.engine: {} would change nothing, as mappings are merged"),
        ("arms.group={}", "--set arms.group: {} would change nothing"),
        ("fleet.engine.tp=0", "--set fleet.engine.tp: must be 1 or more, not 0"),
        ("fleet.engine.device=tpu", "--set fleet.engine.device: no shipped cost profile has device 'tpu'"),
        ("fleet.engine.model=gwen3-8b", "--set fleet.engine.model: no shipped cost profile on a100-80gb has model"),
        ("fleet.engine.tp=3", "--set fleet.engine.tp: no shipped cost profile for qwen3-8b on a100-80gb has tp 3"),
        ("fleet.engines=null", "--set fleet.engines: must be an integer, not null"),
        (f"name={'n' * 81}", "--set name: must be 80 characters or fewer, not"),
        ("router.policy={kind: ./mine}", "--set router.policy.kind: './mine' is no file of Python"),
        ("router.policy={kind: './a.yaml:P'}", "--set router.policy.kind: './a.yaml:P' is no file of Python"),
        ("replications.pairs=1000001", "--set replications.pairs: must be 1,000,000 or less, not 1000001"),
        ("=3", "--set =3: must be path=value"),
        ("workload.groups=[1", "--set workload.groups: not YAML"),
        ("router.policy.kind=round_robin", "s.yaml:18: arms.group.client.key_scope: group needs a policy that reads"),
    ],
)
def test_overrides_of_the_command_line_are_named_as_such(tmp_path: Path, override: str, message: str) -> None:
    """What the command line set wrong is not blamed on the file."""
    if override.startswith("arms.grup"):
        override += "x"
    assert failure(tmp_path, GOOD, (override,)).startswith(message)


def test_requests_that_cannot_fit(tmp_path: Path) -> None:
    """All requests larger than the pool: an error; some: a warning."""
    assert "workload: no request fits: the smallest needs 96 tokens" in failure(
        tmp_path, GOOD, ("fleet.engine.kv_tokens=95",)
    )
    some = (
        "workload.prompt.group_tokens={kind: uniform, low: 10, high: 1000}",
        "workload.groups=40",
        "fleet.engine.kv_tokens=500",
    )
    found = check(load_scenario(tmp_path / "s.yaml", some)).warnings
    assert any("some requests will be rejected" in each for each in found)


def test_missing_trace(tmp_path: Path) -> None:
    """A trace that is not there, or ends in the middle of a line, is found without a run."""
    message = failure(tmp_path, GOOD, ("workload={kind: requests, file: ./none.jsonl}",))
    assert message.startswith("--set workload")
    assert "none.jsonl" in message
    line = '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}'
    (tmp_path / "cut.jsonl").write_text(f"{line}\n{line}\n{line[:40]}")
    message = failure(
        tmp_path, GOOD, ("workload={kind: requests, file: ./cut.jsonl}", "arms.group.client.key_scope=request")
    )
    assert "cut.jsonl:3" in message


def test_rules_between_parts(tmp_path: Path) -> None:
    """What a product refuses to start with is refused here."""
    two = ("fleet.engines=1", "arms.group=", "arms.group.router.policy.kind=power_of_two")
    assert "power_of_two" not in failure(tmp_path, GOOD, two)
    assert "needs 2 engines or more, the fleet has 1" in failure(tmp_path, GOOD, two)
    vllm = ("fleet.engine={preset: vllm, max_num_seqs: 300, max_num_batched_tokens: 256}",)
    assert "fleet.engine.max_num_seqs: vLLM refuses 300" in failure(tmp_path, GOOD, vllm)


def test_keys_of_the_users_own(tmp_path: Path) -> None:
    """Two keys in one group fail closed, as does a key of a session that is not there."""
    message = failure(tmp_path, GOOD, ("client.keys={0: a, 1: b}",))
    assert message.startswith("--set client.keys: session 1 of group 0 has the explicit key 'b'")
    assert "no such session: they are 0 to 3" in failure(tmp_path, GOOD, ("client.keys={4: a}",))
    load_scenario(tmp_path / "s.yaml", ("client.keys={0: a, 1: a, 2: b}",))
    header = failure(tmp_path, GOOD, ("client.header=x-other",))
    assert "the policy does not read 'x-other'; it reads x-smg-routing-key" in header


def test_queues_that_sort_by_keys_are_enough_for_a_group_scope(tmp_path: Path) -> None:
    """The policy reads no key, the queues of the engines do, in one header."""
    sorts = ("router.policy.kind=round_robin", "fleet.engine.preset=sglang", "fleet.engine.queue_order=routing-key")
    with_file = failure(tmp_path, GOOD, ("router.policy.kind=round_robin",))
    assert "group needs a policy that reads a routing key" in with_file
    scenario = load_scenario(tmp_path / "s.yaml", sorts)
    assert not any("key_scope" in each for each in check(scenario).warnings)
    refused = failure(tmp_path, GOOD, (*sorts, "client.header=x-session-id"))
    assert "group needs a policy that reads a routing key" in refused
