"""slime, which starts the engines and the gateway itself: the arguments that its training script is given.

Source: THUDM/slime ``slime/backends/sglang_utils/arguments.py``, ``slime/ray/rollout.py``,
``slime/rollout/sglang_rollout.py`` and ``slime/utils/arguments.py`` at v0.3.1. Options of the gateway have the prefix
``--router-``, those of the engines ``--sglang-``. From 0.2.3 on slime's own defaults of the balance thresholds are 10
and 1.2, not the gateway's 64 and 1.5, so all of them are written out. It switches the gateway's circuit breaker and
health checks off. One semaphore of ``--sglang-server-concurrency`` times the engines holds a sample for all its turns.

A sample that has a ``session_id`` keeps it, and it is the routing key: the code that loads the trace sets it to the key
of the row. That is how siblings share one without the scope that pull request 2206 proposes.
"""

import shlex
from typing import Any, Final

from sim.export._engines import others, sglang
from sim.export._facts import Facts
from sim.export._program import Program, Settings, flat
from sim.export.products import _gateway as gateway
from sim.export.products import sglang_router
from sim.export.products.smg import defaults_of

NAME: Final = "slime"
ARGUMENTS: Final = "slime_args.sh"
_THRESHOLDS: Final = ("balance_abs_threshold", "balance_rel_threshold")
_NO_CAP: Final = 1_000_000
"""Samples an engine that no batch reaches."""


class Arguments(Program):
    """A file to be sourced: an array of arguments for slime's training script."""

    def script(self) -> str:
        """The array, as slime's own scripts write theirs."""
        lines = ["# shellcheck shell=bash", *self.head()]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()]
        for each in self.settings.errors():
            lines.append(f"echo {shlex.quote(f'cannot run as simulated: {each}')} >&2")
        if self.settings.impossible:
            lines.append("return 1")
        return "\n".join([*lines, "WINDTUNNEL_ARGS=(", *self.arguments(), ")"]) + "\n"


def configure(facts: Facts) -> dict[str, Program]:
    """The arguments of the router, the engines and what of the client is slime's."""
    assert facts.chosen is not None
    values = flat(dict(facts.router), "router") | flat(dict(facts.fleet), "fleet")
    caps = ("max_sessions_in_flight", "max_sessions_per_engine")
    values |= {f"client.{name}": facts.client[name] for name in caps}
    values |= flat(facts.training and dict(facts.training), "training")
    program = Arguments(f"{NAME} {facts.chosen.version}", "", Settings(values))
    program.notes.append('Source this file, and give "${WINDTUNNEL_ARGS[@]}" to train.py.')
    if facts.chosen.policy == "slime_router":
        _set_old_router(program, facts)
    else:
        _set_gateway(program, facts)
    _set_engines(program, facts)
    _set_cap(program, facts)
    _set_training(program, facts)
    return {ARGUMENTS: program}


def _set_gateway(program: Program, facts: Facts) -> None:
    settings, prefix = program.settings, "--router-"
    kind, parameters, place = facts.kind, facts.policy, gateway.POLICY
    if kind == "slime.gateway":
        kind = facts.policy["over"]
        settings.place("router.policy.kind", "slime with the gateway that it starts")
        adapter = "the agent adapters" if facts.policy["agent_adapter"] else "the built-in generation"
        settings.place("router.policy.agent_adapter", f"--custom-generate-function-path: {adapter}")
        given = {name: value for name, value in facts.policy.items() if name in _THRESHOLDS and value is not None}
        for name in _THRESHOLDS:
            flag = prefix + sglang_router.FLAGS[name]
            settings.place(f"router.policy.{name}", flag if name in given else "that of the policy below")
        parameters, place = defaults_of(kind) | given, "router.policy.over"
        settings.values |= {f"{place}.{name}": value for name, value in parameters.items()}
    sglang_router.set_rule(program, facts, prefix, parameters, place)
    if facts.chosen and facts.chosen.policy == "consistent_hashing":
        program.notes.append(
            "The rule is that of sglang-router 0.3.2, whose command line refuses its name: install one"
        )
        program.notes.append("after it, and see that its rule is the same.")
    gateway.set_retries(program, facts, prefix)
    gateway.set_limit(program, facts, none=-1, prefix=prefix)
    gateway.set_polling(program, facts, f"{prefix}worker-startup-check-interval", kind == "power_of_two")
    gateway.set_index(settings, facts, reads_content="cache_threshold" in parameters)
    gateway.set_run(settings, facts)
    settings.built_in("router.replicas", 1)
    for part in ("health", "breaker"):
        _only_absent(settings, f"router.{part}", "slime switches it off")


def _set_old_router(program: Program, facts: Facts) -> None:
    """The router that slime had of its own, up to 0.2.3."""
    settings = program.settings
    program.constant("--use-slime-router")
    settings.place("router.policy.kind", "--use-slime-router")
    program.switch("router.policy.radix_tree_middleware", "--slime-router-middleware-paths")
    if facts.policy["radix_tree_middleware"]:
        path = "slime.router.middleware_hub.radix_tree_middleware.RadixTreeMiddleware"
        program.constant("--slime-router-middleware-paths", path)
    gateway.set_run(settings, facts)
    settings.built_in("router.replicas", 1)
    for part in ("retries", "health", "breaker", "limit", "telemetry"):
        _only_absent(settings, f"router.{part}", "slime's own router has none, or a rule of its own")
    gateway.set_index(settings, facts, reads_content=False)


def _only_absent(settings: Settings, name: str, why: str) -> None:
    for each in [name, *settings.names(name)]:
        if each in settings.values:
            settings.built_in(each, None, why)


def _set_engines(program: Program, facts: Facts) -> None:
    settings = program.settings
    others(settings)
    kinds = facts.types
    [name, kind] = next(iter(kinds.items()))
    if len(kinds) > 1 or name:
        for each in [*settings.names("fleet.engines"), "fleet.engine"]:
            settings.place(each, "of engines that slime cannot start")
        settings.refuse(settings.names("fleet.engines")[0], "engines of several types need a file of --sglang-config")
        return
    spec = kind["engine"]
    settings.place("fleet.engines", "--rollout-num-gpus")
    program.constant("--rollout-num-gpus", kind["count"] * spec["tp"])
    if spec["preset"] != "sglang":
        for each in settings.names("fleet.engine"):
            settings.place(each, "of an engine that slime cannot start")
        settings.refuse("fleet.engine.preset", "slime runs SGLang alone")
        return
    program.flag("fleet.engine.tp", "--rollout-num-gpus-per-engine")
    sglang(program, spec, facts.kv_tokens[name], "fleet.engine", "--sglang-")
    program.constant("--sglang-enable-cache-report")


def _set_cap(program: Program, facts: Facts) -> None:
    """Samples under way, which slime caps for each engine."""
    settings, flag = program.settings, "--sglang-server-concurrency"
    whole, engine = "client.max_sessions_in_flight", "client.max_sessions_per_engine"
    if settings.values[whole] is None:
        settings.place(whole, flag)
        settings.place(engine, flag)
        program.constant(flag, settings.values[engine] or _NO_CAP)
        return
    settings.place(engine, "client.max_sessions_in_flight instead")
    each, over = divmod(settings.values[whole], facts.engines)
    if over:
        settings.refuse(whole, f"{flag} is for each of {facts.engines} engines")
        return
    settings.place(whole, f"{flag}, for each engine")
    program.constant(flag, each)


def _set_training(program: Program, facts: Facts) -> None:
    settings, training = program.settings, facts.training
    if training is None:
        settings.place("training", "one rollout of the trace")
        return
    program.flag("training.groups_per_step", "--rollout-batch-size")
    if training["steps"] is not None:
        program.flag("training.steps", "--num-rollout")
    else:
        settings.place("training.steps", "as many as the trace gives")
    program.flag("training.oversampling_batch", "--over-sampling-batch-size")
    settings.built_in("training.samples_needed", None, "a group is complete with all its samples")
    settings.built_in("training.max_staleness", 0, "train.py trains between rollouts")
    settings.built_in("training.update.cache", "flush")
    _set_unfinished(program, training)
    for name in settings.names("training"):
        if name not in settings.places and name not in settings.impossible:
            settings.place(name, "of the trainer and the data: measured, not set")


def _set_unfinished(program: Program, training: dict[str, Any] | Any) -> None:
    name, rule = "training.unfinished", training["unfinished"]
    over_sampled = training["oversampling_batch"] > 1
    if rule == "resume":
        program.settings.place(name, "--partial-rollout")
        program.constant("--partial-rollout")
    elif rule == "drop" or not over_sampled:
        program.settings.place(name, "without --partial-rollout")
    else:
        program.settings.refuse(name, "slime drops them, or resumes them with --partial-rollout")
