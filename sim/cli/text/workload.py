"""What a workload holds: as text, as one document, and as a chart."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from sim import registry
from sim.errors import ScenarioError
from sim.rng import Streams
from sim.scenario import Keys, Scenario, load_scenario, load_workload, presets, shipped, spread_of_keys
from sim.workload._describe import Description, Spread, describe

_YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Found:
    """One workload of what was named, and the arms that have it."""

    arms: list[str]
    description: Description
    keys: list[Keys]


def show(
    name: str,
    overrides: Sequence[str],
    *,
    engines: int | None,
    seed: int | None,
    replication: int,
    blocks: Sequence[int],
    as_json: bool,
    chart: Path | None,
) -> None:
    """Describe the workload that a scenario, a preset or a trace file stands for."""
    scenario = _find(name, overrides, engines).select(seed=seed)
    found = list(_describe(scenario, engines, replication, blocks))
    if as_json:
        click.echo(json.dumps([_plain(each) for each in found], indent=2, allow_nan=False))
    else:
        for each in found:
            _print(name, each)
    if chart is not None:
        _save(name, found, chart)


def _find(name: str, overrides: Sequence[str], engines: int | None) -> Scenario:
    """The scenario of a file or name; around a preset or a trace, one of a plain arm."""
    if name in presets():
        return load_workload(name, {"preset": name}, overrides, engines or 1)
    path = Path(name)
    if path.suffix in _YAML or name in shipped():
        return load_scenario(name, overrides)
    if "\0" in name or not path.exists():
        known = registry.suggest(path.name, [*presets(), *shipped()])
        raise ScenarioError(f"no workload {name!r}: neither a preset, nor a scenario, nor a file; {known}")
    return load_workload(name, {"kind": "trace", "file": str(path.resolve())}, overrides, engines or 1)


def _describe(scenario: Scenario, engines: int | None, replication: int, blocks: Sequence[int]) -> Iterator[Found]:
    """Each workload once, in order of the arms; what keys there are by every scope and size of fleet that has it."""
    arms: dict[str, list[str]] = {}
    for arm, cell in scenario.arms.items():
        arms.setdefault(json.dumps(cell.resolved["workload"], sort_keys=True), []).append(arm)
    for alike in arms.values():
        cells = [scenario.arms[arm] for arm in alike]
        workload = cells[0].workload.generate(Streams(cells[0].seed, replication), cells[0].base)
        keys = [each for cell in cells for each in spread_of_keys(cell, workload, engines)]
        yield Found(alike, describe(workload, blocks), list({(each.of, each.engines): each for each in keys}.values()))


def _plain(found: Found) -> dict[str, Any]:
    own = found.description
    return {
        "arms": found.arms,
        "totals": own.totals,
        "last_arrival_s": own.last_arrival_s,
        "percentiles": {name: dataclasses.asdict(spread) for name, spread in own.spreads.items()},
        "largest_request": dataclasses.asdict(own.largest),
        "top_share": own.top_share,
        "turns_context_correlation": own.turns_context_correlation,
        "reuse_ceiling": {str(block): share for block, share in own.reuse.items()},
        "keys": [dataclasses.asdict(each) for each in found.keys],
    }


# -- text -------------------------------------------------------------------------------------------------------------


def _print(name: str, found: Found) -> None:
    console = Console(highlight=False, width=max(100, Console().width))
    own = found.description
    arms = f" (arms {', '.join(found.arms)})" if found.arms not in (["base"], [name]) else ""
    click.echo(f"{name}{arms}: {', '.join(f'{key} {value:,}' for key, value in own.totals.items())}")
    if own.last_arrival_s > 0:
        click.echo(f"last arrival at {own.last_arrival_s:,.1f} s")
    console.print(_spreads(own.spreads))
    largest = own.largest
    click.echo(
        f"largest request: {largest.tokens:,} tokens with its limit, session {largest.session}, turn {largest.turn}"
    )
    click.echo(f"work in the largest 1 % of sessions: {own.top_share:.1%}")
    if own.turns_context_correlation is not None:
        click.echo(f"correlation of log turns and log last prompt: {own.turns_context_correlation:.2f}")
    blocks = ", ".join(f"{share:.1%} in blocks of {block:,}" for block, share in own.reuse.items())
    click.echo(f"reuse ceiling (one cache for all that forgets nothing): {blocks}")
    if found.keys:
        console.print(_occupancy(found.keys))
    click.echo()


def _spreads(spreads: dict[str, Spread]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for head in ("n", "mean", "p50", "p90", "p99", "max"):
        table.add_column(head, justify="right")
    for name, spread in spreads.items():
        cells = (spread.mean, spread.p50, spread.p90, spread.p99, spread.max)
        table.add_row(name, f"{spread.count:,}", *(_number(each) for each in cells))
    return table


def _occupancy(keys: Sequence[Keys]) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in ("one key a", "keys", "engines", "keys per engine", "E\\[max/mean]", "95 % below"):
        table.add_column(head, justify="left" if head == "one key a" else "right")
    for each in keys:
        table.add_row(
            each.of,
            f"{each.keys:,}",
            f"{each.engines:,}",
            _number(each.per_engine),
            f"{each.max_over_mean:.2f}",
            f"{each.max_over_mean_p95:.2f}",
        )
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.3g}"


def _save(name: str, found: Sequence[Found], stem: Path) -> None:
    from sim import charts

    for index, each in enumerate(found):
        own = stem if len(found) == 1 else stem.with_name(f"{stem.name}-{index}")
        title = name if len(found) == 1 else f"{name}: {', '.join(each.arms)}"
        quantities = {key: values.tolist() for key, values in each.description.quantities.items()}
        for path in charts.save(charts.shapes(quantities, title), own):
            click.echo(f"wrote {path}", err=True)
