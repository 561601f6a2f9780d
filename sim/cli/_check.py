"""``windtunnel check``: the resolved scenario as YAML, differences and facts as comments in it, warnings on stderr."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from sim.scenario import Checked, Scenario, check, differences, dump, load_scenario, load_sweep, resolved_document


def check_scenario(name: str, overrides: Sequence[str]) -> None:
    """Print what a scenario means; raise what is wrong with it."""
    scenario = load_scenario(name, overrides)
    checked = check(scenario)
    if scenario.has_sweep:
        load_sweep(name, overrides)
    click.echo(dump(resolved_document(scenario)), nl=False)
    for line in (*_differences(scenario), *_facts(scenario, checked)):
        click.echo(f"# {line}")
    for warning in checked.warnings:
        click.echo(f"warning: {warning}", err=True)


def _differences(scenario: Scenario) -> Iterator[str]:
    for arm, found in differences(scenario).items():
        yield f"arm {arm} against {scenario.baseline}:{'' if found else ' no difference'}"
        for path, (base, own) in found.items():
            yield f"  {path}: {_short(base)} -> {_short(own)}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _facts(scenario: Scenario, checked: Checked) -> Iterator[str]:
    """Facts of the baseline, and of each arm that has others."""
    base = checked.facts[scenario.baseline]
    for arm, facts in checked.facts.items():
        if arm == scenario.baseline or facts != base:
            totals = ", ".join(f"{name} {value:,}" for name, value in facts.workload.items())
            for name, each in facts.engines.items():
                who = f"an engine of type {name}" if name else "an engine"
                yield f"arm {arm}: {who} holds {each.kv_tokens:,} tokens; step cost: {each.cost}"
            yield f"arm {arm}, first replication: {totals}"
