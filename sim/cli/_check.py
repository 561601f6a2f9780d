"""``windtunnel check``: the resolved scenario as YAML, differences and facts as comments in it, warnings on stderr."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sim.cli import _options

if TYPE_CHECKING:
    from sim.scenario import Checked, Scenario


@click.command(short_help="Check a scenario without running it.")
@_options.scenario
@_options.overrides
def check(scenario: str, overrides: tuple[str, ...]) -> None:
    """Check SCENARIO without running it.

    Prints it with every default filled in (as YAML that can be run), what its arms differ in, and warnings.
    """
    from sim.scenario import check as check_cells
    from sim.scenario import dump, load_scenario, load_sweep, resolved_document

    made = load_scenario(scenario, overrides)
    checked = check_cells(made)
    if made.sweep is not None:
        load_sweep(scenario, overrides)
    click.echo(dump(resolved_document(made)), nl=False)
    for line in (*_differences(made), *_facts(made, checked)):
        click.echo(f"# {line}")
    for warning in checked.warnings:
        click.echo(f"warning: {warning}", err=True)


def _differences(scenario: "Scenario") -> Iterator[str]:
    from sim.scenario import differences

    for arm, found in differences(scenario).items():
        yield f"arm {arm} against {scenario.baseline}:{'' if found else ' no difference'}"
        for path, (base, own) in found.items():
            yield f"  {path}: {_short(base)} -> {_short(own)}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _facts(scenario: "Scenario", checked: "Checked") -> Iterator[str]:
    """Facts of the baseline, and of each arm that has others."""
    base = checked.facts[scenario.baseline]
    for arm, facts in checked.facts.items():
        if arm == scenario.baseline or facts != base:
            totals = ", ".join(f"{name} {value:,}" for name, value in facts.workload.items())
            for name, each in facts.engines.items():
                who = f"an engine of type {name}" if name else "an engine"
                yield f"arm {arm}: {who} holds {each.kv_tokens:,} tokens; step cost: {each.cost}"
            yield f"arm {arm}, first replication: {totals}"
