"""A sealed trace run through the simulator, with the keys that the trace names and everything else drawn anew.

What a trace fixes is kept: requests, times, lengths, the routing key of every session. What it does not fix is drawn
from another seed: names of the engines, the order in which a router knows them, ties, random choices, noise. So the
spread between such runs is what a prediction cannot know even if its costs are right. The same function stands in for
the real system when a campaign is rehearsed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.errors import ScenarioError
from sim.log.frames import Tables, read_logs
from sim.replication import replicate
from sim.scenario import Cell, Scenario
from sim.workload.trace import Trace


@dataclass(frozen=True, slots=True)
class Replayed:
    """Runs of one arm, one a trace."""

    tables: Tables
    engine_names: list[list[str]]


@lru_cache(maxsize=1024)
def keys_in(trace: Path, arm: str) -> dict[int, str]:
    """The routing key that an arm sends with each session of a trace; empty where some session has none."""
    keys: dict[int, str] = {}
    with trace.open(encoding="utf-8") as file:
        sessions = json.loads(next(file))["sessions"]
        for line in file:
            row = json.loads(line)
            key = row["key"].get(arm)
            if key:
                keys[row["session"]] = key
    return keys if len(keys) == sessions else {}


def under(scenario: Scenario, settings: Mapping[str, Any], seed: int) -> dict[str, Cell]:
    """The arms of a scenario with these fields set, and another seed."""
    return {name: replace(cell, seed=seed) for name, cell in scenario.varied(settings).arms.items()}


def on_trace(cell: Cell, trace: Path) -> Cell:
    """The cell that sends the requests of a trace with their keys."""
    client = cell.client
    keys = keys_in(trace, cell.arm) if client.scope != "request" else {}
    if keys:
        client = replace(client, keys=keys, blocking="none", key_salt="", unkeyed_share=0.0)
    return replace(cell, workload=Trace(str(trace.resolve()), format="windtunnel"), client=client)


def replay(cell: Cell, traces: Sequence[Path]) -> Replayed:
    """Run each trace once, trace i as pair i; ScenarioError where a run ends in one of the scenario's own errors."""
    logs = []
    for pair, trace in enumerate(traces):
        try:
            logs.append(replicate(on_trace(cell, trace), pair))
        except ScenarioError as error:
            raise ScenarioError(f"arm {cell.arm}, pair {pair}: {error}") from None
    return Replayed(read_logs(logs, range(len(logs))), [log.engine_names for log in logs])
