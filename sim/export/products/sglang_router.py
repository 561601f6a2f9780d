"""sglang-router, the SGLang model gateway: ``python3 -m sglang_router.launch_router``.

Source: ``sglang_router/router_args.py`` of the packages 0.2.3 and 0.3.2; smg-project/smg ``src/policies`` at c7f9bf9f5.
Its parser knows no flags of ``prefix_hash``, whose two numbers stand in the code.
"""

from typing import Final

from sim.export._facts import Facts
from sim.export._program import Program
from sim.export.products import _gateway as gateway

NAME: Final = "sglang-router"
FLAGS: Final = {
    "cache_threshold": "cache-threshold",
    "balance_abs_threshold": "balance-abs-threshold",
    "balance_rel_threshold": "balance-rel-threshold",
    "bucket_adjust_interval_secs": "bucket-adjust-interval-secs",
    "eviction_interval_secs": "eviction-interval-secs",
    "max_tree_size": "max-tree-size",
    "max_idle_secs": "max-idle-secs",
    "assignment_mode": "assignment-mode",
}
BUILT_IN: Final = {
    "load": "reports_only",
    "prefix_token_count": 256,
    "prefix_hash_load_factor": 1.25,
}


def configure(facts: Facts) -> dict[str, Program]:
    """The router's script."""
    assert facts.chosen is not None
    version = facts.chosen.version
    program = Program(f"{NAME} {version}", "python3 -m sglang_router.launch_router", gateway.settings_of(facts))
    program.raw["--worker-urls"] = gateway.addresses(facts)
    set_rule(program, facts, "--", facts.policy, gateway.POLICY)
    gateway.set_around(program, facts, can_skip_health=version != "0.2.3")
    gateway.set_limit(program, facts, none=-1)
    reads_reports = facts.kind == "power_of_two"
    gateway.set_polling(program, facts, "--worker-startup-check-interval", reads_reports)
    gateway.set_index(program.settings, facts, reads_content="cache_threshold" in facts.policy)
    return {"router.sh": program}


def set_rule(program: Program, facts: Facts, prefix: str, parameters: dict[str, object], place: str) -> None:
    """The policy and its parameters."""
    chosen, settings = facts.chosen, program.settings
    assert chosen is not None
    kind = "router.policy.kind" if place == gateway.POLICY else place
    program.flags[f"{prefix}policy"] = chosen.policy
    if chosen.is_refused:
        settings.refuse(kind, f"the command line of {chosen.product} {chosen.version} refuses {chosen.policy!r}")
    else:
        settings.place(kind, f"{prefix}policy {chosen.policy}")
    gateway.set_policy(program, parameters, {name: prefix + flag for name, flag in FLAGS.items()}, place)
    for name in parameters:
        if name in BUILT_IN:
            settings.built_in(f"{place}.{name}", BUILT_IN[name])
        elif name == "miss":
            settings.built_in(f"{place}.{name}", "smallest_tree" if chosen.version == "0.2.3" else "least_loaded")
        elif name == "connection":
            settings.place(f"{place}.{name}", "the scheme of the engines' addresses")
