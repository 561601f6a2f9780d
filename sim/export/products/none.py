"""A policy that none of the products here ships: what it is, and where its rule comes from, in place of flags."""

import inspect
from pathlib import Path
from typing import Final

from policies._products import said_of
from sim import registry
from sim.export._facts import Facts
from sim.export._program import Program
from sim.export.products import _gateway as gateway

FILE: Final = "router.txt"


class Rule(Program):
    """A text."""

    def script(self) -> str:
        """What there is to say."""
        return "\n".join(line.removeprefix("# ").removeprefix("#") for line in self.head()) + "\n"


def configure(facts: Facts) -> dict[str, Program]:
    """The text."""
    program = Rule(
        f"No configuration: none of slime, sglang-router, smg, vllm-router and NeMo Gym ships {facts.kind}",
        "",
        gateway.settings_of(facts),
    )
    program.settings.refuse("router.policy.kind", "no product here ships this rule with these parameters")
    known = list(said_of(facts.kind))
    program.notes += [f"The rule with other parameters: {each}" for each in known]
    program.notes += source_of(facts.kind)
    for name in program.settings.left():
        program.settings.place(name, "set it in the router that you run")
    return {FILE: program}


def source_of(kind: str) -> list[str]:
    """Where a shipped policy was read; of a user's own, its file."""
    if registry.is_file(kind):
        return [f"The rule is the reader's own: {kind}"]
    doc = inspect.cleandoc(registry.find(registry.POLICY, kind, Path()).__doc__ or "")
    _, found, after = doc.partition("Source: ")
    return [f"Source of the rule: {' '.join(after.split('Known pathologies')[0].split())}"] if found else []
