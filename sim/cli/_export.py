"""``windtunnel export``: files for the real benchmark."""

from collections.abc import Sequence
from pathlib import Path

import click

from sim.export import Plan, export
from sim.scenario import load_scenario


def export_scenario(
    name: str, overrides: Sequence[str], *, arms: Sequence[str], seed: int | None, out: Path, plan: Plan
) -> None:
    """Write the files and name them."""
    scenario = load_scenario(name, overrides).select(seed=seed, arms=arms)
    for path in export(scenario, out, plan):
        click.echo(str(path))
