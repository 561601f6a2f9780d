"""What the sglang gateway, its successor smg and vllm-router have in common: they are forks of one program.

Source: the argument parsers of sglang-router 0.2.3 and 0.3.2, smg 1.13.0 and vllm-router 0.1.17, as published
(``router_args.py`` of each package). ``--retry-max-retries`` counts all tries: ``--disable-retries`` is the same as 1.
"""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from sim.export._facts import Facts
from sim.export._program import Program, Settings, flat

POLICY: Final = "router.policy"
WHOLE: Final = frozenset(
    {
        "balance_abs_threshold",
        "bucket_adjust_interval_secs",
        "eviction_interval_secs",
        "max_idle_secs",
        "max_tree_size",
        "prefix_hash_balance_abs_threshold",
    }
)
"""Parameters whose flags take whole numbers, and which may be broken ones here."""


def settings_of(facts: Facts) -> Settings:
    """The parameters of a router."""
    return Settings(flat(dict(facts.router), "router"))


def addresses(facts: Facts) -> str:
    """The engines, in one order for all runs: as named, or named when the router starts."""
    return (
        " ".join(map(shlex.quote, facts.urls))
        or f"${{ENGINES:?addresses of the {facts.engines} engines, with blanks between}}"
    )


def set_policy(program: Program, parameters: Mapping[str, Any], flags: Mapping[str, str], place: str = POLICY) -> None:
    """Flags of the parameters of a policy, those that have one."""
    for name in parameters:
        if name in flags:
            set_by = program.whole if name in WHOLE else program.flag
            set_by(f"{place}.{name}", flags[name])


def set_around(program: Program, facts: Facts, prefix: str = "--", *, can_skip_health: bool = True) -> None:
    """Retries, health checks, circuit breaker and limit, and what no router has flags for."""
    set_retries(program, facts, prefix)
    _set_health(program, facts, prefix, can_skip_health)
    _set_breaker(program, facts, prefix)
    set_run(program.settings, facts)


def set_retries(program: Program, facts: Facts, prefix: str) -> None:
    """Further tries after a failure."""
    if facts.router["retries"] is None:
        program.settings.place("router.retries", f"{prefix}disable-retries")
        program.constant(f"{prefix}disable-retries")
        return
    program.flag("router.retries.attempts", f"{prefix}retry-max-retries")
    program.whole("router.retries.backoff_s", f"{prefix}retry-initial-backoff-ms", 1000, "whole milliseconds")
    program.flag("router.retries.factor", f"{prefix}retry-backoff-multiplier")
    program.whole("router.retries.max_backoff_s", f"{prefix}retry-max-backoff-ms", 1000, "whole milliseconds")
    program.flag("router.retries.jitter_share", f"{prefix}retry-jitter-factor")


def _set_health(program: Program, facts: Facts, prefix: str, can_skip: bool) -> None:
    if facts.router["health"] is not None:
        program.whole("router.health.period_s", f"{prefix}health-check-interval-secs", unit="whole seconds")
        program.whole("router.health.timeout_s", f"{prefix}health-check-timeout-secs", unit="whole seconds")
        program.flag("router.health.fall", f"{prefix}health-failure-threshold")
        program.flag("router.health.rise", f"{prefix}health-success-threshold")
    elif can_skip:
        program.settings.place("router.health", f"{prefix}disable-health-check")
        program.constant(f"{prefix}disable-health-check")
    else:
        program.settings.place("router.health", f"no switch: {prefix}health-check-interval-secs of a day")
        program.constant(f"{prefix}health-check-interval-secs", 86_400)


def _set_breaker(program: Program, facts: Facts, prefix: str) -> None:
    if facts.router["breaker"] is None:
        program.settings.place("router.breaker", f"{prefix}disable-circuit-breaker")
        program.constant(f"{prefix}disable-circuit-breaker")
        return
    program.flag("router.breaker.failures", f"{prefix}cb-failure-threshold")
    program.whole("router.breaker.window_s", f"{prefix}cb-window-duration-secs", unit="whole seconds")
    program.whole("router.breaker.half_open_s", f"{prefix}cb-timeout-duration-secs", unit="whole seconds")
    program.flag("router.breaker.successes", f"{prefix}cb-success-threshold")


def set_limit(program: Program, facts: Facts, none: int, prefix: str = "--") -> None:
    """The limit on requests under way; ``none`` is the product's value for no limit."""
    if facts.router["limit"] is None:
        program.settings.place("router.limit", f"{prefix}max-concurrent-requests")
        program.constant(f"{prefix}max-concurrent-requests", none)
        return
    program.flag("router.limit.concurrency", f"{prefix}max-concurrent-requests")
    program.flag("router.limit.queue_requests", f"{prefix}queue-size")
    program.whole("router.limit.wait_s", f"{prefix}queue-timeout-secs", unit="whole seconds")


def set_polling(program: Program, facts: Facts, flag: str, reads_reports: bool) -> None:
    """How often engines are asked for their load."""
    settings = program.settings
    if facts.router["telemetry"] is None:
        if reads_reports:
            settings.refuse("router.telemetry", "the product asks engines for their load, and real ones answer")
        else:
            settings.place("router.telemetry", "no poll is needed: the policy reads no report")
        return
    for name in settings.names("router.telemetry"):
        if name == "router.telemetry.period_s":
            program.whole(name, flag, unit="whole seconds")
        else:
            settings.place(name, "of the engines and the network: measured, not set")


def set_index(settings: Settings, facts: Facts, reads_content: bool) -> None:
    """What the policy knows of the engines' caches."""
    for name in ["router.cache_index", *settings.names("router.cache_index")]:
        if name not in settings.values:
            continue
        if not reads_content:
            settings.place(name, "the policy does not ask")
        elif facts.router["cache_index"] == "approximate":
            settings.place(name, "built in: the router's own index")
        else:
            settings.refuse(name, "the policy has its own index alone")


def set_run(settings: Settings, facts: Facts) -> None:
    """What the operator sees to, and what is measured."""
    many = facts.router["replicas"] > 1
    settings.place("router.replicas", "start as many, each on a port of its own" if many else "start one")
    settings.place("router.assignment", "of what stands before the routers" if many else "there is one router")
    for name in ("router.overhead_s", "router.decision", *settings.names("router.decision")):
        if name in settings.values:
            settings.place(name, "of the router: measured, not set")
    settings.place("router.record_regret", "of the simulation")
