"""A campaign without GPUs: the sealed traces run through the simulator under a world of one's own, as results files.

What stands in for the real system is the simulator with other values of what is taken for given, other names and ties,
and noise: each run as a whole takes exp(run_noise z) times as long, as repeats of a GPU run do. With a world drawn from
the stated ranges a sealed interval should hold the result nineteen times in twenty; with one far outside the score
should say so, and which assumption is off.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from sim.campaign import _measured
from sim.campaign._forecast import seed_of
from sim.campaign._inputs import draws
from sim.campaign._replay import replay, under
from sim.campaign._results import TIMES, Header, write
from sim.campaign._seal import Seal
from sim.review import Evidence
from sim.rng import Streams
from sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class World:
    """What is true in a rehearsal."""

    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of both arms' cells, by path, and what they are; the others are the scenario's."""
    run_noise: float = 0.0
    """Standard deviation of the logarithm of a run's length."""


def drawn_world(ev: Evidence, seed: int) -> World:
    """A world drawn from the ranges, and with the run noise, that a prediction takes into account."""
    [draw] = draws(ev.assumptions, 1, seed_of(seed, "rehearsal/inputs", 0))
    return World(seed, draw.settings, ev.scenario.real_run_noise)


def rehearse(seal: Seal, cells: Mapping[str, Scenario], folder: Path, world: World, *, looks: int = 1) -> list[Path]:
    """Write a results file for each run of the first looks; ``cells`` has the scenario of each sealed cell."""
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    arms = [seal.prediction["baseline"], seal.prediction["candidate"]]
    for name, scenario in cells.items():
        varied = under(scenario.select(arms=arms), world.settings, seed_of(world.seed, "rehearsal", 0))
        runs = [run for run in seal.runs if run["cell"] == name and run["look"] < looks]
        place = seal.folder / seal.prediction["cells"][name]["folder"]
        traces = [place / f"windtunnel-{pair}.jsonl" for pair in sorted({run["pair"] for run in runs})]
        for arm in arms:
            cell = varied[arm]
            frame = _measured.of_tables(replay(cell, traces).tables)
            stretches = Streams(world.seed).column(f"rehearsal/{name}/{arm}").standard_normal(len(traces)).tolist()
            for run in runs:
                if run["arm"] != arm:
                    continue
                pair = run["pair"]
                requests = _stretched(frame.filter(pl.col("pair") == pair), math.exp(world.run_noise * stretches[pair]))
                path = folder / f"{place.name}-{pair}-{arm}.jsonl"
                write(path, header_of(seal, run, cell.engines), requests)
                written.append(path)
    return written


def header_of(seal: Seal, run: Mapping[str, object], engines: int) -> Header:
    """The header of the results of one run of ``runs.json``; its own trace is this program's."""
    traces = run["traces"]
    assert isinstance(traces, dict)
    sha = next(digest for name, digest in traces.items() if "/windtunnel-" in name)
    return Header(
        seal=seal.digest,
        cell=str(run["cell"]),
        pair=int(str(run["pair"])),
        arm=str(run["arm"]),
        position=int(str(run["position"])),
        trace_sha256=sha,
        config_sha256=str(run["config_sha256"]),
        engines=engines,
        cold_hit_rate=0.0,
    )


def _stretched(requests: pl.DataFrame, factor: float) -> pl.DataFrame:
    """All times from the run's start on, by a factor."""
    start = pl.col("arrive_s").min()
    return requests.with_columns((start + (pl.col(name) - start) * factor).alias(name) for name in TIMES)
