"""smg, the successor of the SGLang model gateway: ``smg launch``.

Source: ``smg/router_args.py`` of the package 1.13.0; smg-project/smg ``model_gateway/src`` at f8daa8835. Three parts of
it change where requests go when engines report their load or join, and no policy here has them, so they are switched
off: overload protection, the warm-up slice, and the exclusion of workers that stall. ``--max-concurrent-requests 0`` is
no limit; the default of -1 is a limit by the cores of the host.
"""

from pathlib import Path
from typing import Any, Final

from policies._products import PRODUCTS
from sim import registry
from sim.export._facts import STICKY, Facts
from sim.export._program import Program
from sim.export.products import _gateway as gateway

NAME: Final = "smg"
FLAGS: Final = {
    "cache_threshold": "--cache-threshold",
    "balance_abs_threshold": "--balance-abs-threshold",
    "balance_rel_threshold": "--balance-rel-threshold",
    "bucket_adjust_interval_secs": "--bucket-adjust-interval-secs",
    "eviction_interval_secs": "--eviction-interval-secs",
    "max_tree_size": "--max-tree-size",
    "max_idle_secs": "--max-idle-secs",
    "assignment_mode": "--assignment-mode",
    "prefix_token_count": "--prefix-token-count",
    "prefix_hash_load_factor": "--prefix-hash-load-factor",
    "prefix_hash_balance_abs_threshold": "--prefix-hash-balance-abs-threshold",
    "kv_pressure_weight": "--least-load-kv-pressure-weight",
    "mean_prefill_tokens": "--least-load-mean-prefill-tokens",
    "default_throughput": "--least-load-default-throughput",
    "max_waiting_requests": "--least-load-max-waiting-requests",
    "power_of_two_load_metric": "--power-of-two-load-metric",
}
_AT_LEAST_ONE: Final = ("prefix_hash_load_factor", "balance_rel_threshold")
"""Parameters for which the product takes 1 and more."""
_OFF: Final = {
    "--disable-worker-overload-protection": None,
    "--worker-warmup-secs": 0,
    "--worker-warmup-divert-every": 0,
    "--worker-stall-secs": 86_400,
    "--worker-wedge-secs": 86_400,
}
"""What would change where requests go beside the policy."""
_READ_REPORTS: Final = ("smg.power_of_two", "smg.least_load")


def configure(facts: Facts) -> dict[str, Program]:
    """The router's script."""
    assert facts.chosen is not None
    program = Program(f"{NAME} {facts.chosen.version}", "smg launch", gateway.settings_of(facts))
    program.raw["--worker-urls"] = gateway.addresses(facts)
    kind, parameters = facts.kind, facts.policy
    if kind == STICKY:
        kind, parameters = _set_sticky(program, facts)
    else:
        _set_rule(program, facts, facts.chosen.policy, parameters)
    gateway.set_around(program, facts)
    gateway.set_limit(program, facts, none=0)
    gateway.set_polling(program, facts, "--load-monitor-interval", kind in _READ_REPORTS)
    gateway.set_index(program.settings, facts, reads_content="cache_threshold" in parameters)
    for flag, value in _OFF.items():
        program.constant(flag) if value is None else program.constant(flag, value)
    return {"router.sh": program}


def _set_rule(program: Program, facts: Facts, policy: str, parameters: dict[str, Any]) -> None:
    chosen, settings = facts.chosen, program.settings
    assert chosen is not None
    program.flags["--policy"] = policy
    if chosen.is_refused:
        settings.refuse("router.policy.kind", f"the command line takes {policy!r} for a prefill pool alone")
    else:
        settings.place("router.policy.kind", f"--policy {policy}")
    gateway.set_policy(program, parameters, FLAGS)
    for name, value in parameters.items():
        if name in _AT_LEAST_ONE and value < 1:
            settings.refuse(f"{gateway.POLICY}.{name}", f"{FLAGS[name]} takes 1 and more")
        if name == "connection":
            settings.place(f"{gateway.POLICY}.{name}", "the scheme of the engines' addresses")


def _set_sticky(program: Program, facts: Facts) -> tuple[str, dict[str, Any]]:
    """Sticky sessions over another policy, which has its defaults; that policy's kind and parameters."""
    settings, over = program.settings, facts.policy["over"]
    settings.place("router.policy.kind", "--routing-key-override")
    program.constant("--routing-key-override")
    program.constant("--routing-key-headers", facts.header)
    program.flag("router.policy.assignment", "--assignment-mode")
    settings.built_in("router.policy.max_in_flight", 2)
    names = {offer.kind: name for name, offer in PRODUCTS[NAME].policies.items() if offer.versions}
    if over not in names:
        settings.refuse("router.policy.over", f"{NAME} has no policy with this rule")
        return over, {}
    settings.place("router.policy.over", f"--policy {names[over]}")
    program.flags["--policy"] = names[over]
    defaults = defaults_of(over)
    for name, value in defaults.items():
        if name in FLAGS:
            program.flags[FLAGS[name]] = str(value)
    return over, defaults


def defaults_of(kind: str) -> dict[str, Any]:
    """The parameters of a shipped policy as they stand in its class."""
    return {each.name: registry.default(each) for each in registry.fields(registry.find(registry.POLICY, kind, Path()))}
