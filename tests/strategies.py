"""Random small worlds for property tests: resolved cells, with everything the engines can do at small sizes.

Values are chosen so that the interesting happens: pools that hold a few requests, budgets below a prompt, delays and
step times that are multiples of each other, so that arrivals fall exactly on the ends of steps.
"""

from pathlib import Path

from hypothesis import strategies as st

from sim.registry import POLICY, scan
from sim.scenario import Cell

GRID_MS = 10.0
MEMBERS = scan(POLICY)
# sglang.prefix_hash refuses every request over HTTP: it takes no part in laws about requests that are served.
POLICIES = tuple(kind for kind in MEMBERS if kind != "sglang.prefix_hash")
KEYED = tuple(kind for kind in POLICIES if MEMBERS[kind].key_headers)


def world(**parts):
    """A resolved cell of one plain engine and one request; ``parts`` replaces or extends blocks of it."""
    engine = {
        "preset": "vllm",
        "overlap": False,
        "kv_tokens": 100_000,
        "cost": {"kind": "constant", "step_ms": GRID_MS},
    }
    workload = {
        "kind": "rollout",
        "groups": 1,
        "samples_per_group": 1,
        "prompt": {"group_tokens": 100, "system_tokens": 0},
        "output_tokens": 5,
        "max_tokens": 5,
    }
    return {
        "fleet": {"engines": parts.get("engines", 1), "engine": engine | parts.get("engine", {}), **_noise(parts)},
        "workload": workload | parts.get("workload", {}),
        "client": {"key_scope": "session"} | parts.get("client", {}),
        "router": {"policy": parts.get("policy", {"kind": "round_robin"}), "overhead_s": parts.get("overhead_s", 0.0)}
        | parts.get("router", {}),
        "seed": parts.get("seed", 1),
    }


def _noise(parts):
    return {"noise": {"engine_speed_sigma": 0.0, "step_sigma": 0.0} | parts.get("noise", {})}


def cell_of(resolved, base=Path(), arm="arm"):
    """The cell of a resolved world."""
    return Cell.from_resolved(resolved, base, arm)


@st.composite
def engine_specs(draw, *, preset=None, pool=None):
    """Fields of a small engine."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    preset = preset or one("vllm", "sglang")
    engine = {
        "preset": preset,
        "overlap": one(False, True),
        "visibility": one("at_schedule", "after_prefill", "never"),
        "kv_tokens": pool or one(100_000, 4000, 2000, 1000, 600),
        "max_num_seqs": one(64, 16, 4, 2),
        **draw(OWN_FIELDS[preset]()),
        "cost": one(
            {"kind": "constant", "step_ms": GRID_MS},
            {"kind": "constant", "step_ms": 8.0, "prefill_ms_per_token": 0.05, "per_sequence_ms": 0.1},
            {"kind": "form_d"},
        ),
    }
    if engine["visibility"] == "never" and preset == "vllm":
        engine["align_chunks"] = False
    return engine


@st.composite
def vllm_fields(draw):
    """Fields that only vLLM has, and its block; chunks that are aligned must be able to reach the end of a block."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    block, threshold = one(16, 4, 64), one(0, 0, 32)
    return {
        "block_tokens": block,
        "max_num_batched_tokens": one(2048, 512, 128, 64),
        "long_prefill_token_threshold": threshold,
        "reserve_full_prompt": one(True, False),
        "watermark_share": one(0.0, 0.0, 0.02),
        "state_tokens_per_seq": one(0, 0, 70),
        "align_chunks": one(False, False, True) and (not threshold or threshold >= block),
    }


@st.composite
def sglang_fields(draw):
    """Fields that only SGLang has, and its page."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    return {
        "block_tokens": one(1, 4, 16, 64),
        "chunked_prefill_tokens": one(512, 128, 64),
        "max_prefill_tokens": one(2048, 512, 128),
        "clip_max_new_tokens": one(4096, 64, 16),
        "schedule_conservativeness": one(1.0, 0.3),
        "new_token_ratio_decay_steps": one(600, 20),
    }


OWN_FIELDS = {"vllm": vllm_fields, "sglang": sglang_fields}


@st.composite
def workloads(draw):
    """Small rollouts of one or several turns, growing or replayed."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    return {
        "kind": "rollout",
        "groups": one(1, 3, 8),
        "samples_per_group": one(1, 2, 4),
        "prompt": {
            "group_tokens": one(32, 100, 256, {"kind": "lognormal", "median": 100, "sigma": 0.5}),
            "system_tokens": one(0, 20, 33, 64),
        },
        "turns": one(1, 3, {"kind": "uniform", "low": 1, "high": 4}),
        "output_tokens": one(
            1, 16, {"kind": "uniform", "low": 1, "high": 60}, {"kind": "lognormal", "median": 30, "sigma": 1.0}
        ),
        "max_tokens": one(60, 16, 100),
        "observation_tokens": one(0, 20, {"kind": "uniform", "low": 0, "high": 40}),
        "tool_delay_s": one(0, 0.01, 0.02, 0.5, {"kind": "lognormal", "median": 0.1, "sigma": 1.0}),
        "mode": one("live", "replay"),
        "arrivals": one({"kind": "at_once"}, *({"kind": "poisson", "groups_per_s": rate} for rate in (1, 5, 50))),
    }


@st.composite
def resolved_worlds(draw, *, preset=None, pool=None, engines=None, policies=POLICIES, noisy=True):
    """A random resolved cell."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    kind = one(*policies)
    noise = {"engine_speed_sigma": one(0.0, 0.1), "step_sigma": one(0.0, 0.1)} if noisy else {}
    return world(
        engines=engines or max(one(2, 1, 3), MEMBERS[kind].min_engines),
        engine=draw(engine_specs(preset=preset, pool=pool)),
        noise=noise,
        workload=draw(workloads()),
        client={"key_scope": one("session", "group") if kind in KEYED else "session", **draw(caps())},
        policy={"kind": kind},
        overhead_s=one(0.0, 0.0, 0.01, 0.001),
        seed=draw(st.integers(1, 1000)),
    )


@st.composite
def crowded_worlds(draw, *, preset=None):
    """A world of one engine with a pool too short for those it runs.

    Chunks and reserves are so small that requests are preempted, or retracted, as soon as they have begun to decode.
    """
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    preset = preset or one("vllm", "vllm", "sglang")
    resolved = draw(resolved_worlds(preset=preset, pool=one(112, 160, 256), engines=1, policies=("round_robin",)))
    engine = resolved["fleet"]["engine"]
    engine["max_num_seqs"] = one(3, 8, 16)
    if preset == "vllm":
        engine["block_tokens"] = one(4, 16, 16)
        engine["long_prefill_token_threshold"] = threshold = one(0, 8, 24)
        engine["align_chunks"] &= not 0 < threshold < engine["block_tokens"]
        engine["max_num_batched_tokens"] = one(40, 64, 512)
    else:
        engine["block_tokens"] = one(1, 4)
        engine["chunked_prefill_tokens"] = one(32, 64)
        engine["clip_max_new_tokens"] = one(1, 4, 16)
        engine["schedule_conservativeness"] = one(0.1, 0.3)
    resolved["workload"] |= {
        "groups": one(4, 8),
        "samples_per_group": one(2, 4),
        "prompt": {"group_tokens": one(16, 32, 50), "system_tokens": one(0, 16, 20)},
        "turns": one(1, 1, 2),
        "output_tokens": one(2, {"kind": "uniform", "low": 1, "high": 20}),
        "max_tokens": one(20, 24),
        "observation_tokens": one(0, 8),
    }
    resolved["client"] = {"key_scope": "session"}
    return resolved


@st.composite
def caps(draw):
    """No cap on sessions under way, or one of the two ways to give one."""
    return draw(st.sampled_from(({}, {}, {"max_sessions_in_flight": 3}, {"max_sessions_per_engine": 2})))


@st.composite
def on_the_grid(draw, *, preset=None):
    """A world in which every step takes 10 ms and everybody waits whole steps: arrivals fall on the ends of steps."""
    resolved = draw(resolved_worlds(preset=preset, noisy=False))
    resolved["fleet"]["engine"]["cost"] = {"kind": "constant", "step_ms": GRID_MS}
    workload = resolved["workload"]
    workload["arrivals"] = {"kind": "at_once"}
    workload["tool_delay_s"] = draw(st.sampled_from((0.01, 0.02, 0.03, 0.1)))
    workload["turns"] = draw(st.sampled_from((2, 3, 5)))
    resolved["router"]["overhead_s"] = draw(st.sampled_from((0.0, 0.01)))
    return resolved


@st.composite
def arounds(draw, *, loses=True):
    """What is around a policy, but for policies that see all: every block on or off, at small sizes.

    ``loses``: also what refuses requests that a plain router serves.
    """
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    timing = lambda: {"period_s": one(0.01, 0.05, 0.5), "delay_s": one(0.0, 0.01), "loss_share": one(0.0, 0.3)}  # noqa: E731
    in_flight = one({}, {"visibility": one("delivery", "first_token")}, {"visibility": "report", **timing()})
    telemetry = {
        **timing(),
        "jitter_s": one(0.0, 0.01),
        "running": {"visibility": one("report", "choice", "first_token")},
        "waiting": {"unit": one("requests", "tokens"), "visibility": one("report", "choice", "delivery")},
        "kv_share": one({}, {"period_s": 0.02}),
        "in_flight": {**in_flight, "unit": one("requests", "tokens")},
    }
    router = {
        "overhead_s": one(0.0, 0.001, 0.01),
        "replicas": one(1, 2, 5),
        "assignment": one("random", "session", "connection"),
        "decision": one(None, {"fixed_s": 0.002, "per_token_s": 1e-5, "per_candidate_s": 0.001, "cores": one(1, 2)}),
        "telemetry": one(None, telemetry),
        "cache_index": one("approximate", "none", {"kind": "exact", "lag_s": one(0.0, 0.02)}),
        "retries": one(None, {"attempts": 3, "backoff_s": 0.01}),
        "health": one(None, {"period_s": 0.05, "timeout_s": 0.01}),
        "breaker": one(None, {"failures": 2, "half_open_s": 0.05}),
        "limit": one(None, {"concurrency": one(2, 5), "queue_requests": 100_000, "wait_s": 1e6}),
    }
    if loses:
        router["limit"] = one(None, {"concurrency": one(1, 3), "queue_requests": one(0, 2), "wait_s": one(0.02, 0.5)})
    return router


@st.composite
def changing(draw):
    """Keys of a fleet of two or more engines that fail, leave and join within the short life of a small world."""
    one = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    if one(True, False):
        return {"failures": {"mean_between_s": one(0.1, 0.5), "mean_repair_s": one(0.0, 0.02, 0.2)}}
    when = lambda: one(0.01, 0.05, 0.1, 0.2, 0.5)  # noqa: E731
    changes = [
        {"what": "fail", "at_s": when(), "engine": 0, "restart_after_s": one(None, 0.01, 0.1)},
        {"what": "leave", "at_s": when(), "engine": 1, "drain_s": one(None, 0.0, 0.03)},
        {"what": "join", "at_s": when(), "count": one(1, 2)},
    ]
    return {"changes": draw(st.lists(st.sampled_from(changes), min_size=1, max_size=3, unique_by=id))}
