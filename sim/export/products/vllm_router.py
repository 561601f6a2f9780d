"""vllm-router: ``vllm-router``.

Source: ``vllm_router/router_args.py`` of the package 0.1.17; vllm-project/router ``src/policies`` at 335c57e2e. It has
no switch for health checks, and takes a number of requests where others take -1 for no limit.
"""

from typing import Final

from sim.export._facts import Facts
from sim.export._program import Program
from sim.export.products import _gateway as gateway

NAME: Final = "vllm-router"
FLAGS: Final = {
    "cache_threshold": "--cache-threshold",
    "balance_abs_threshold": "--balance-abs-threshold",
    "balance_rel_threshold": "--balance-rel-threshold",
    "eviction_interval_secs": "--eviction-interval-secs",
    "max_tree_size": "--max-tree-size",
}
BUILT_IN: Final = {"load": "reports", "session_expiration_s": 7200.0}
_NO_LIMIT: Final = 1_000_000
"""More requests under way than any campaign has."""


def configure(facts: Facts) -> dict[str, Program]:
    """The router's script."""
    assert facts.chosen is not None
    program = Program(f"{NAME} {facts.chosen.version}", "vllm-router", gateway.settings_of(facts))
    program.raw["--worker-urls"] = gateway.addresses(facts)
    settings = program.settings
    program.flags["--policy"] = facts.chosen.policy
    settings.place("router.policy.kind", f"--policy {facts.chosen.policy}")
    gateway.set_policy(program, facts.policy, FLAGS)
    for name in facts.policy:
        if name in BUILT_IN:
            settings.built_in(f"{gateway.POLICY}.{name}", BUILT_IN[name])
        elif name == "can_tokenize":
            settings.built_in(f"{gateway.POLICY}.{name}", True, "engines of vLLM answer its requests to tokenize")
    gateway.set_around(program, facts, can_skip_health=False)
    gateway.set_limit(program, facts, none=_NO_LIMIT)
    gateway.set_polling(program, facts, "--worker-startup-check-interval", facts.kind == "power_of_two")
    gateway.set_index(settings, facts, reads_content="cache_threshold" in facts.policy)
    return {"router.sh": program}
