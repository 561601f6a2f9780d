"""Arms for the tests of their configurations, and what programs take."""

import shlex
from functools import cache
from pathlib import Path

from sim import registry
from sim.export._arms import configure, facts_of
from sim.export._facts import candidates
from sim.scenario import load_scenario

FLAGS = Path(__file__).parents[2] / "data" / "flags"
ENGINES = {
    "sglang": "{preset: sglang, device: a100-80gb, model: qwen3-8b, kv_tokens: 100000}",
    "vllm": "{preset: vllm, device: a100-80gb, model: qwen3-8b, kv_tokens: 100000}",
}


def cell(*overrides, preset="vllm"):
    """The resolved cell of a scenario's first arm."""
    others = "arms.sticky_least_loaded.client.turn_s=9"  # whatever the first arm is, it equals no other
    scenario = load_scenario("smoke", (others, f"fleet.engine={ENGINES[preset]}", *overrides))
    return scenario.arms["round_robin"]


def arm(made, product=None, urls=()):
    """What a manifest says of a cell; ``product`` one of its candidates."""
    policy = made.resolved["router"]["policy"]
    found = [each for each in candidates(policy) if product in (None, each.product)]
    chosen = found[0] if found else None
    return {
        "client": made.resolved["client"],
        "key_header": made.client.header,
        "router": made.resolved["router"],
        "fleet": made.resolved["fleet"],
        "kv_tokens": {kind.name: 100_000 for kind in made.fleet},
        "training": made.resolved["training"],
        "product": chosen and {name: getattr(chosen, name) for name in ("product", "version", "policy", "is_refused")},
        "engines": list(urls),
    }


def configured(policy, *overrides, preset="vllm", product=None, urls=()):
    """The configuration of a scenario with a policy."""
    return configure(facts_of(arm(cell(f"router.policy={policy}", *overrides, preset=preset), product, urls)))


def flags(text):
    """The flags of a script with their values, joined by blanks; switches have none."""
    _, _, command = text.partition("exec ") if "exec " in text else text.partition("WINDTUNNEL_ARGS=(")
    found, last = {}, ""
    for word in shlex.split(command.replace("\\\n", " ").rstrip(")\n")):
        if word.startswith("--"):
            assert word not in found, word
            last, found[word] = word, ""
        elif last:
            found[last] = f"{found[last]} {word}".strip()
    return found


@cache
def known(program):
    """Flags of a published program: its own parser's, with type and choices."""
    lines = (FLAGS / f"{program}.txt").read_text().splitlines()
    return {flag: (kind, choices[0].split("|") if choices else []) for flag, kind, *choices in map(str.split, lines)}


def refused(program, given, prefix="", own=""):
    """Flags that a program would refuse, and why; flags of ``own`` are known beside those with the prefix."""
    kinds = {prefix + flag.removeprefix("--") if prefix else flag: kind for flag, kind in known(program).items()}
    kinds |= known(own) if own else {}
    for flag, value in given.items():
        kind, choices = kinds.get(flag) or kinds.get(flag.replace("--no-", "--", 1), ("", []))
        if not kind:
            yield f"{flag}: unknown"
        elif kind in ("switch", "bool"):
            if value:
                yield f"{flag} takes no value"
            if flag not in kinds and kind == "switch":
                yield f"{flag}: cannot be negated"
        elif choices and value not in choices:
            yield f"{flag} {value}: not one of {choices}"
        elif not value.startswith("$"):
            try:
                {"int": int, "float": float}.get(kind, str)(value)
            except ValueError:
                yield f"{flag} {value}: not {kind}"


POLICIES = registry.scan(registry.POLICY)
