"""Flags of the routers and engines, held against the published programs and against what the sources say."""

import json
import subprocess
import types
import typing

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim import registry
from sim.errors import ScenarioError
from sim.export import starts
from sim.export._arms import configure, facts_of
from sim.export._engines import engine
from sim.export._facts import candidates
from sim.scenario import load_scenario
from tests.sim.export.arms import ENGINES, POLICIES, arm, cell, configured, flags, refused

EVERY = [
    pytest.param(kind, each, id=f"{kind} {each.product} {each.version}")
    for kind, cls in POLICIES.items()
    for each in candidates({"kind": kind, **{f.name: registry.default(f) for f in registry.fields(cls)}})
]
FULL_ROUTER = (
    "router.retries={attempts: 4, backoff_s: 0.1, factor: 2.0, max_backoff_s: 10, jitter_share: 0.1}",
    "router.health={period_s: 30, timeout_s: 3, fall: 2, rise: 1}",
    "router.breaker={failures: 5, window_s: 60, half_open_s: 20, successes: 2}",
    "router.limit={concurrency: 256, queue_requests: 50, wait_s: 20}",
    "router.telemetry={period_s: 5}",
)
"""A router with everything around its policy."""
AROUND = {
    "retry-max-retries": "4",
    "retry-initial-backoff-ms": "100",
    "retry-backoff-multiplier": "2.0",
    "retry-max-backoff-ms": "10000",
    "retry-jitter-factor": "0.1",
    "health-check-interval-secs": "30",
    "health-check-timeout-secs": "3",
    "health-failure-threshold": "2",
    "health-success-threshold": "1",
    "cb-failure-threshold": "5",
    "cb-window-duration-secs": "60",
    "cb-timeout-duration-secs": "20",
    "cb-success-threshold": "2",
    "max-concurrent-requests": "256",
    "queue-size": "50",
    "queue-timeout-secs": "20",
}


@pytest.mark.parametrize("around", [(), FULL_ROUTER], ids=["plain", "full"])
@pytest.mark.parametrize(("kind", "chosen"), EVERY)
def test_every_flag_is_one_of_the_program(kind, chosen, around):
    """No flag is invented, and each value is of its type and among its choices, for every policy a product ships."""
    preset = "vllm" if chosen.product in ("vllm-router", "nemo-gym") else "sglang"
    made = configured(f"{{kind: {kind}}}", *around, preset=preset, product=chosen.product)
    given = flags(made.files[made.router])
    if chosen.product == "slime":
        router = {flag: value for flag, value in given.items() if flag.startswith("--router-")}
        engines = {flag: value for flag, value in given.items() if flag.startswith("--sglang-")}
        rest = given.keys() - router.keys() - engines.keys()
        del engines["--sglang-server-concurrency"]
        # slime takes the name, and a gateway after 0.3.2 does.
        assert router.pop("--router-policy", None) or "--use-slime-router" in given
        assert not list(refused("sglang-router-0.3.2", router, "--router-"))
        assert not list(refused("sglang-0.5.23", engines, "--sglang-"))
        assert not list(refused("slime", {flag: given[flag] for flag in rest}))
    elif chosen.product != "nemo-gym":
        found = list(refused(f"{chosen.product}-{chosen.version}", given))
        assert bool(found) == chosen.is_refused, found
        assert any("refuses" in each or "alone" in each for each in made.impossible) == chosen.is_refused


@pytest.mark.parametrize(
    ("policy", "product", "file", "expected"),
    [
        (
            "{kind: sglang.cache_aware, balance_abs_threshold: 32}",
            "sglang-router",
            "router.sh",
            {"policy": "cache_aware", "cache-threshold": "0.3", "balance-abs-threshold": "32"}
            | {"balance-rel-threshold": "1.5", "eviction-interval-secs": "60", "max-tree-size": "67108864"},
        ),
        (
            "{kind: sglang.manual, assignment_mode: min_load, max_idle_secs: 600}",
            "sglang-router",
            "router.sh",
            {"policy": "manual", "assignment-mode": "min_load", "max-idle-secs": "600", "eviction-interval-secs": "60"},
        ),
        ("{kind: power_of_two, load: reports_only}", "sglang-router", "router.sh", {"policy": "power_of_two"}),
        (
            "{kind: smg.cache_aware}",
            "smg",
            "router.sh",
            {"policy": "cache_aware", "cache-threshold": "0.3", "balance-abs-threshold": "64"}
            | {"balance-rel-threshold": "1.5", "eviction-interval-secs": "60", "max-tree-size": "67108864"},
        ),
        (
            "{kind: smg.least_load, max_waiting_requests: 8}",
            "smg",
            "router.sh",
            {"policy": "least_load", "least-load-kv-pressure-weight": "0.15", "least-load-mean-prefill-tokens": "1024"}
            | {"least-load-default-throughput": "2000.0", "least-load-max-waiting-requests": "8"},
        ),
        (
            "{kind: smg.sticky_override, assignment: min_group, over: smg.round_robin}",
            "smg",
            "router.sh",
            {"policy": "round_robin", "routing-key-override": "", "assignment-mode": "min_group"}
            | {"routing-key-headers": "x-smg-routing-key"},
        ),
        (
            "{kind: vllm.cache_aware}",
            "vllm-router",
            "router.sh",
            {"policy": "cache_aware", "cache-threshold": "0.3", "balance-abs-threshold": "64"}
            | {"balance-rel-threshold": "1.5", "eviction-interval-secs": "120", "max-tree-size": "33554432"},
        ),
        ("{kind: vllm.consistent_hash}", "vllm-router", "router.sh", {"policy": "consistent_hash"}),
        ("{kind: vllm.sticky_least_loaded}", "vllm-router", "router.sh", {"policy": "sticky_least_loaded"}),
    ],
)
def test_routers_are_started_as_their_documentation_says(policy, product, file, expected):
    """Values of the specification, not of the code: policy, thresholds, and everything around the policy."""
    made = configured(policy, *FULL_ROUTER, product=product)
    given = flags(made.files[file])
    assert {name: given.get(f"--{name}") for name in expected | AROUND} == expected | AROUND
    poll = "--load-monitor-interval" if product == "smg" else "--worker-startup-check-interval"
    assert given[poll] == "5"
    assert given["--worker-urls"].startswith("${ENGINES")
    assert made.impossible == []


def test_slime_writes_out_what_its_own_defaults_would_change():
    """Its defaults of the balance thresholds are 10 and 1.2, the simulated gateway's 64 and 1.5."""
    for policy in ("{kind: slime.gateway, over: sglang.cache_aware}", "{kind: sglang.cache_aware}"):
        made = configured(policy, "client.max_sessions_in_flight=64", preset="sglang", product="slime")
        given = flags(made.files["slime_args.sh"])
        assert given["--router-policy"] == "cache_aware"
        assert given["--router-balance-abs-threshold"] == "64"
        assert given["--router-balance-rel-threshold"] == "1.5"
        assert given["--sglang-server-concurrency"] == "32"  # of 64, on 2 engines
        assert given["--rollout-num-gpus"] == "2"
        assert given["--sglang-max-total-tokens"] == "100000"
        assert made.impossible == []
    named = ("router={product: slime, policy: cache_aware}", "arms.sticky_least_loaded.router.policy=round_robin")
    named += ("fleet.engine=" + ENGINES["sglang"],)
    given = flags(starts(load_scenario("smoke", named))["round_robin"].files["slime_args.sh"])
    assert given["--router-balance-abs-threshold"] == "10"
    assert given["--router-balance-rel-threshold"] == "1.2"


def test_slime_trains_as_the_scenario_does():
    """Groups of a batch, over-sampling and partial rollouts have flags of their own."""
    training = "training={groups_per_step: 2, steps: 3, oversampling_batch: 4, unfinished: resume}"
    policy = "{kind: sglang.consistent_hashing}"
    given = flags(configured(policy, training, preset="sglang", product="slime").files["slime_args.sh"])
    assert given["--router-policy"] == "consistent_hashing"
    wanted = {"--rollout-batch-size": "2", "--num-rollout": "3", "--over-sampling-batch-size": "4"}
    assert given | wanted | {"--partial-rollout": ""} == given


def test_nemo_gym_is_told_its_engines_and_processes():
    """The rule has no option: the version has it; the number of processes is ``num_workers``."""
    urls = ["http://a:8000", "http://b:8000"]
    server = configured("{kind: gym.counter, processes: 4}", urls=urls).files["nemo_gym.yaml"]
    assert "NeMo Gym 0.5.0" in server
    assert "num_workers: 4" in server
    assert "- http://a:8000\n" in server
    hashed = configured("{kind: gym.sha256_mod}")
    assert "NeMo Gym c84b7ed4b" in hashed.files["nemo_gym.yaml"]
    assert "num_workers" not in hashed.files["nemo_gym.yaml"]
    assert json.loads(hashed.files["client.json"])["headers"] == {}


@pytest.mark.parametrize(
    ("policy", "header"),
    [
        ("{kind: sglang.manual}", "X-SMG-Routing-Key"),
        ("{kind: vllm.consistent_hash}", "X-Session-ID"),
        ("{kind: vllm.sticky_least_loaded}", "X-Session-ID"),
    ],
)
def test_requests_carry_the_header_that_the_product_reads(policy, header):
    """One key a session or a group; under request scope one a request."""
    client = json.loads(configured(policy).files["client.json"])
    assert client["headers"] == {header: "{key}"}
    client = json.loads(configured(policy, "client.key_scope=request").files["client.json"])
    assert client["headers"] == {header: "request-{rid}"}


def test_an_sglang_engine():
    """Defaults of the preset, what the scenario sets, and the variables that have no flag."""
    given = "kv_tokens: 5000, queue_order: lpm, overlap: false, tp: 2, in_batch_check_tokens: 8"
    cost = "fleet.engine.cost={kind: constant, step_ms: 5}"
    text = configured("{kind: sglang.manual}", f"fleet.engine={{{given}}}", cost, preset="sglang").files["engine.sh"]
    given = flags(text)
    assert not list(refused("sglang-0.5.23", given))
    expected = {
        "--tp-size": "2", "--page-size": "1", "--max-running-requests": "2048", "--max-prefill-tokens": "16384",
        "--chunked-prefill-size": "8192", "--schedule-policy": "lpm", "--schedule-conservativeness": "1.0",
        "--max-total-tokens": "5000", "--disable-overlap-schedule": "", "--enable-cache-report": "",
    }  # fmt: skip
    assert given | expected == given
    assert "--enable-mixed-chunk" not in given
    assert "export SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION=4096\n" in text
    assert "export IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD=8\n" in text
    assert "export IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD=32\n" in text


def test_a_vllm_engine():
    """An A100 has 2,048 tokens a step and 256 sequences; a pool of tokens becomes whole blocks."""
    over = "fleet.engine={preset: vllm, kv_tokens: 5000, reserve_full_prompt: false, watermark_share: 0.01}"
    given = flags(configured("{kind: random}", over).files["engine.sh"])
    assert not list(refused("vllm-serve", given))
    expected = {
        "--tensor-parallel-size": "1", "--block-size": "16",
        "--max-num-seqs": "256", "--max-num-batched-tokens": "2048",
        "--num-gpu-blocks-override": "312", "--no-scheduler-reserve-full-isl": "", "--watermark": "0.01",
        "--async-scheduling": "", "--enable-prefix-caching": "", "--long-prefill-token-threshold": "0",
    }  # fmt: skip
    assert given | expected == given
    assert "--gpu-memory-utilization" not in given


def test_prefix_caching_off():
    """Each product has a flag for it, in place of the one for caching."""
    off = "fleet.engine={preset: %s, kv_tokens: 5000, visibility: never}"
    for preset, program, flag in (
        ("sglang", "sglang-0.5.23", "--disable-radix-cache"),
        ("vllm", "vllm-serve", "--no-enable-prefix-caching"),
    ):
        made = configured("{kind: random}", off % preset)
        given = flags(made.files["engine.sh"])
        assert not list(refused(program, given))
        assert given[flag] == ""
        assert "--enable-prefix-caching" not in given
        assert not [each for each in made.impossible if "visibility" in each]


def test_engines_by_memory_and_of_several_types():
    """Without a pool in tokens the share of memory is the flag; each type has a script of its own."""
    types = "old: {count: 1, engine: {preset: vllm}}, new: {count: 2, engine: {preset: vllm, kv_bits: 8}}"
    made = configured("{kind: random}", f"fleet.engines={{{types}}}", "fleet.engine=null")
    assert {"engine-new.sh", "engine-old.sh"} <= made.files.keys()
    given = flags(made.files["engine-new.sh"])
    assert (given["--gpu-memory-utilization"], given["--kv-cache-dtype"]) == ("0.9", "fp8")
    assert "${ENGINES:?addresses of the 3 engines" in made.files["router.sh"]


@pytest.mark.parametrize(
    ("policy", "product", "over", "line"),
    [
        ("{kind: sglang.cache_aware, eviction_interval_secs: 0.5}", "sglang-router", (), "takes whole numbers"),
        ("{kind: smg.sticky_override, max_in_flight: 3}", "smg", (), "the product has 2"),
        ("{kind: smg.prefix_hash, prefix_hash_load_factor: 0.9}", "smg", (), "takes 1 and more"),
        ("{kind: smg.bucket}", "smg", (), "for a prefill pool alone"),
        ("{kind: smg.least_load}", "smg", (), "asks engines for their load"),
        ("{kind: vllm.sticky_least_loaded, session_expiration_s: 60}", "vllm-router", (), "the product has 7200.0"),
        ("{kind: sglang.prefix_hash}", "sglang-router", (), "the command line of sglang-router 0.3.2 refuses"),
        ("{kind: round_robin}", "slime", ("router.health={}",), "slime switches it off"),
        ("{kind: round_robin}", "slime", ("client.max_sessions_in_flight=3",), "for each of 2 engines"),
        ("{kind: random}", "smg", ("router.retries={backoff_s: 0.0005}",), "whole milliseconds"),
        ("{kind: sglang.cache_aware}", "sglang-router", ("router.cache_index={kind: exact}",), "its own index alone"),
        ("{kind: gym.sha256_mod}", "nemo-gym", ("client.key_scope=group",), "draws session ids itself"),
        ("{kind: gym.sha256_mod}", "nemo-gym", ("router.breaker={}",), "it has none"),
        ("{kind: random}", "vllm-router", ("fleet.engine.visibility=after_prefill",), "the product has at_schedule"),
        ("{kind: kubeai.prefix_hash}", None, (), "no product here ships this rule"),
        ("{kind: power_of_two, load: requests}", None, (), "no product here ships this rule"),
    ],
)
def test_what_a_product_cannot_have_is_said(policy, product, over, line):
    """One line that names the parameter, in the configuration and for the manifest; nothing is rounded or dropped."""
    product = product or None
    preset = "sglang" if product == "slime" else "vllm"
    made = configured(policy, *over, preset=preset, product=product)
    assert len(made.impossible) >= 1
    assert any(line in each for each in made.impossible), made.impossible
    for each in made.impossible:
        parameter, _, why = each.partition(": ")
        assert any(f"{parameter}: IMPOSSIBLE: {why}" in text for text in made.files.values()), each


def test_a_policy_that_nobody_ships_names_its_source():
    """No flags are made up: where the rule was read, and every parameter."""
    text = configured("{kind: kubeai.prefix_hash, replication: 64}").files["router.txt"]
    assert text.startswith(
        "No configuration: none of slime, sglang-router, smg, vllm-router and NeMo Gym ships kubeai."
    )
    assert "substratusai/kubeai" in text
    assert "router.policy.replication = 64: set it in the router that you run" in text
    assert "--" not in text
    near = configured("{kind: power_of_two, load: requests}").files["router.txt"]
    assert (
        "The rule with other parameters: sglang-router power_of_two: 0.3.0, 0.3.1, 0.3.2 with load reports_only" in near
    )


def _values(hint):
    """Values of a parameter of this type."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of([_values(each) for each in typing.get_args(hint)])
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    numbers = st.floats(0, 1e6).map(lambda number: round(number, 3))
    known = {bool: st.booleans(), int: st.integers(0, 10_000), float: st.one_of(numbers, numbers.map(round))}
    return known.get(hint, st.none())


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_parameter_is_lost(data):
    """Every parameter of every shipped policy, whatever its value, is a flag, somewhere else by name, or impossible."""
    kind = data.draw(st.sampled_from(sorted(POLICIES)))
    cls = POLICIES[kind]
    hints = typing.get_type_hints(cls)
    drawn = {
        each.name: data.draw(_values(hints[each.name])) for each in registry.fields(cls) if hints[each.name] is not str
    }
    try:
        made = cell(f"router.policy={json.dumps({'kind': kind, **drawn})}", preset="sglang")
    except ScenarioError:
        assume(False)
    policy = made.resolved["router"]["policy"]
    products = [None, *[each.product for each in candidates(policy)]]
    configuration = configure(facts_of(arm(made, data.draw(st.sampled_from(products)))))
    text = configuration.files[configuration.router]
    given = flags(text) if configuration.router.endswith(".sh") else {}
    for name, value in policy.items():
        rows = [line for line in text.splitlines() if line.lstrip("# ").startswith(f"router.policy.{name} = ")]
        assert len(rows) == 1 or (name == "over" and rows), (name, rows)
        shown = value if isinstance(value, str) else json.dumps(value)
        row = next(each for each in rows if f"router.policy.{name} = {shown}: " in each)
        where = row.partition(f" = {shown}: ")[2]
        if where.startswith("--") and name not in ("kind", "over") and " " not in where:
            taken = given[where]
            assert isinstance(value, bool) or (taken if isinstance(value, str) else float(taken)) == value
    impossible = {line.lstrip("# ") for line in text.splitlines() if ": IMPOSSIBLE: " in line}
    assert {each.replace(": IMPOSSIBLE: ", ": ") for each in impossible} <= set(configuration.impossible)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_field_of_an_engine_is_lost(data):
    """Every field of the fleet is in the script of its engine, and what has a flag has its value there."""
    preset = data.draw(st.sampled_from(["vllm", "sglang"]))
    whole, share = st.integers(1, 50_000), st.floats(0.1, 0.9).map(lambda x: round(x, 2))
    drawn = {
        "preset": preset,
        "tp": data.draw(st.sampled_from([1, 2])),
        "cost": {"kind": "constant", "step_ms": 5.0},
        "overlap": data.draw(st.booleans()),
    }
    for name in ("block_tokens", "max_num_seqs"):
        drawn[name] = data.draw(st.integers(1, 64))
    name, kind = data.draw(st.sampled_from([("kv_tokens", whole), ("memory_share", share)]))
    drawn |= {"kv_tokens": None, name: data.draw(kind)}
    if preset == "vllm":
        drawn["max_num_batched_tokens"] = data.draw(st.integers(64, 9000))
        drawn["watermark_share"] = data.draw(share)
    else:
        drawn["max_prefill_tokens"], drawn["clip_max_new_tokens"] = data.draw(whole), data.draw(whole)
        drawn["queue_order"] = data.draw(st.sampled_from(["fcfs", "lpm", "lof", "random", "routing-key"]))
        drawn["enable_mixed_chunk"] = data.draw(st.booleans())
    made = cell("router.policy={kind: random}", f"fleet={json.dumps({'engines': 2, 'engine': drawn})}")
    facts = facts_of(arm(made))
    program = engine(facts, "")
    text = program.script()
    rows = [line for line in text.splitlines() if line.startswith("#   fleet.")]
    for field, value in facts.fleet["engine"].items():
        assert sum(f"fleet.engine.{field}" in row for row in rows) >= 1, field
        where = program.settings.places.get(f"fleet.engine.{field}", "")
        if field == "kv_tokens" and preset == "vllm" and value is not None:
            value //= drawn["block_tokens"]
        if program.flags.get(where):
            shown = str(value) if isinstance(value, str) else json.dumps(value)
            assert program.flags[where] == shown
    assert not list(refused("vllm-serve" if preset == "vllm" else "sglang-0.5.23", flags(text)))


def _run(script, tmp_path, **environment):
    file = tmp_path / "script.sh"
    file.write_text(script)
    for name in ("vllm-router", "smg", "vllm", "python3"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    return subprocess.run(["sh", str(file)], env=path | environment, capture_output=True, text=True, check=False)


def test_a_shell_gives_the_program_these_words(tmp_path):
    """What the script says is what the program is started with, engines one by one."""
    script = configured("{kind: vllm.cache_aware, cache_threshold: 0.5}").files["router.sh"]
    done = _run(script, tmp_path, ENGINES="http://a:1 http://b:2")
    words = done.stdout.splitlines()
    assert words[:3] == ["--worker-urls", "http://a:1", "http://b:2"]
    assert words[words.index("--cache-threshold") + 1] == "0.5"
    assert _run(script, tmp_path).returncode != 0  # nobody named the engines
    urls = ("http://a:1", "http://b:2")
    fixed = configured("{kind: vllm.cache_aware, cache_threshold: 0.5}", urls=urls).files["router.sh"]
    assert _run(fixed, tmp_path).stdout == done.stdout
    engine_script = configured("{kind: random}").files["engine.sh"]
    words = _run(engine_script, tmp_path, MODEL="a model", HOST="h", PORT="1").stdout.splitlines()
    assert words[:6] == ["serve", "a model", "--host", "h", "--port", "1"]


def test_a_script_that_cannot_run_as_simulated_does_not_run(tmp_path):
    """It says why and stops, so that nobody measures another rule by mistake."""
    script = configured("{kind: smg.cache_aware, eviction_interval_secs: 0.5}", product="smg").files["router.sh"]
    done = _run(script, tmp_path, ENGINES="http://a:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "router.policy.eviction_interval_secs = 0.5" in done.stderr


def test_equal_arms_have_equal_files():
    """Nothing in the files names the arm, the folder or the day."""
    assert configured("{kind: random}").files == configured("{kind: random}").files
