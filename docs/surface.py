"""How the loss of routing turn by turn depends on the job: scenario slime_multi_turn over its plausible ranges.

    python docs/surface.py cube --points 64 --arms round_robin --out FILE   # a Latin hypercube over RANGES
    python docs/surface.py cube --points 64 --first 24 --out FILE           # the first points of it, all blind arms
    python docs/surface.py slices --out FILE                # from the scenario's default, one value changed at a time
    python docs/surface.py summary FILE                     # shares and rank correlations of a cube
    python docs/surface.py at sessions=16 kv_tokens=600000  # one point; what is not named is the centre

A point is one replication of sticky_least_loaded and of arms that route turn by turn, on the same rollouts. The loss of
an arm is its makespan over that of sticky_least_loaded: the throughput ratio, because both finish the same turns.
Dimensions are logarithmic: the middle of the cube is the geometric mean of each range; the centre is that, rounded.
"""

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from scipy import stats

from sim import load_scenario
from sim.replication import replicate

RANGES: Final = {
    "sessions": (16, 64),  # in flight, an engine
    "turns": (30, 150),
    "first_prompt": (4_000, 15_000),
    "growth": (500, 2_500),  # mean tokens a turn, output and observation
    "output": (100, 500),  # mean tokens a turn
    "context_limit": (64_000, 128_000),
    "delay": (0.28, 2.6),  # median seconds; the source has 0.85, the range is assumed: a third to three times
    "kv_tokens": (200_000, 1_000_000),  # an engine
}
CENTRE: Final = {
    "sessions": 32,
    "turns": 64,
    "first_prompt": 8_000,
    "growth": 1_100,
    "output": 220,
    "context_limit": 92_000,
    "delay": 0.85,
    "kv_tokens": 400_000,
}
DEFAULT: Final = CENTRE | {"sessions": 24, "output": 120, "delay": 0.3, "kv_tokens": 1_000_000}
"""What the scenario ships: the smallest change found that costs round robin more than a factor of 6."""
SLICES: Final = {
    "sessions": (16, 20, 32, 64),
    "kv_tokens": (200_000, 400_000, 800_000),
    "output": (100, 220, 500),
    "delay": (0.85, 2.6),
    "turns": (30, 150),
    "growth": (500, 2_500),
}
PINNED: Final = "sticky_least_loaded"
BLIND: Final = ("round_robin", "random", "least_load", "power_of_two")
OUTPUT_SIGMA, OBSERVATION_SIGMA = 0.95, 1.2
LEAST_OBSERVATION: Final = 50


def overrides(point: dict[str, float]) -> list[str]:
    """What a point changes in the scenario. Eight samples a group and eight engines: groups = sessions an engine."""
    observation = max(LEAST_OBSERVATION, point["growth"] - point["output"])
    values = {
        "workload.groups": round(point["sessions"]),
        "workload.turns": round(point["turns"]),
        "workload.prompt.system_tokens": round(0.75 * point["first_prompt"]),
        "workload.prompt.group_tokens": round(0.25 * point["first_prompt"]),
        "workload.output_tokens.median": point["output"] / math.exp(OUTPUT_SIGMA**2 / 2),
        "workload.observation_tokens.median": observation / math.exp(OBSERVATION_SIGMA**2 / 2),
        "workload.tool_delay_s.median": point["delay"],
        "workload.context_limit_tokens": round(point["context_limit"]),
        "client.max_sessions_per_engine": round(point["sessions"]),
        "fleet.engine.kv_tokens": round(point["kv_tokens"]),
        "arms.random.router.policy.kind": "random",
        "arms.power_of_two.router.policy.kind": "power_of_two",
    }
    return [f"{path}={value}" for path, value in values.items()]


def measure(point: dict[str, float], arms: Sequence[str], pair: int = 0) -> dict[str, float]:
    """Losses of the arms, hit rates and prefill tokens at a point."""
    scenario = load_scenario("slime_multi_turn", overrides(point))
    found: dict[str, float] = {}
    walls: dict[str, float] = {}
    for arm in (PINNED, *arms):
        log = replicate(scenario.arms[arm], pair)
        column = log.numpy("requests")
        walls[arm] = float(column["ended"].max()) * log.tick_s
        found[f"hit_{arm}"] = float(column["cached_tokens"].sum() / column["prompt_tokens"].sum())
        found[f"prefill_{arm}"] = float(column["prefill_tokens"].sum())
        found["mean_prompt"] = float(column["prompt_tokens"].mean())
        if arm != PINNED:
            found[f"loss_{arm}"] = walls[arm] / walls[PINNED]
            found[f"prefill_x_{arm}"] = found[f"prefill_{arm}"] / found[f"prefill_{PINNED}"]
    found["wall_pinned_s"] = walls[PINNED]
    return found


def design(points: int, seed: int) -> list[dict[str, float]]:
    """A Latin hypercube over RANGES, uniform in the logarithm."""
    low, high = (np.log([edge[side] for edge in RANGES.values()]) for side in (0, 1))
    cube = stats.qmc.LatinHypercube(len(RANGES), rng=np.random.default_rng(seed)).random(points)
    return [
        dict(zip(RANGES, (float(f"{value:.4g}") for value in np.exp(low + row * (high - low))), strict=True))
        for row in cube
    ]


def write(path: Path, points: Sequence[dict[str, float]], arms: Sequence[str]) -> None:
    """Measure point by point; each row is on disk before the next one starts."""
    with path.open("w", newline="") as file:
        table: csv.DictWriter[str] | None = None
        for number, point in enumerate(points):
            row = {**point, **{name: f"{value:.5g}" for name, value in measure(point, arms).items()}}
            if table is None:
                table = csv.DictWriter(file, list(row), lineterminator="\n")
                table.writeheader()
            table.writerow(row)
            file.flush()
            print(number, row["loss_" + arms[0]], file=sys.stderr)


def slices() -> list[dict[str, float]]:
    """The scenario's default, then each value of SLICES in its place."""
    return [DEFAULT, *(DEFAULT | {name: value} for name, values in SLICES.items() for value in values)]


def summary(path: Path) -> None:
    """Shares of points beyond a loss, what it is where the pinned arm's contexts fit, and which dimension moves it."""
    with path.open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    demand = np.array([row["sessions"] * row["mean_prompt"] / row["kv_tokens"] for row in rows])
    quartiles = np.quantile(demand, [0.25, 0.5, 0.75]).round(2)
    print(f"{len(rows)} points; demand (sessions x mean prompt / pool): quartiles {quartiles}")
    for arm in (arm for arm in BLIND if f"loss_{arm}" in rows[0]):
        losses = np.array([row[f"loss_{arm}"] for row in rows])
        shares = ", ".join(f"> {limit}: {np.mean(losses > limit):.0%}" for limit in (1, 1.1, 1.5, 2, 3, 6))
        print(f"{arm:13} median {np.median(losses):.2f}, largest {losses.max():.2f}; {shares}")
        for low, high in ((0, 1), (1, 1.5), (1.5, 3), (3, math.inf)):
            inside = losses[(demand >= low) & (demand < high)]
            spread = f"median {np.median(inside):.2f}, {inside.min():.2f} to {inside.max():.2f}" if len(inside) else ""
            print(f"{'':13} demand {low} to {high}: {len(inside)} points {spread}")
        moves = (f"{name} {stats.spearmanr([row[name] for row in rows], losses).statistic:+.2f}" for name in RANGES)
        print(f"{'':13} rank correlation: {', '.join(moves)}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    cube, sliced, point = (commands.add_parser(name) for name in ("cube", "slices", "at"))
    cube.add_argument("--points", type=int, default=64)
    cube.add_argument("--first", type=int, help="measure only so many of them")
    cube.add_argument("--seed", type=int, default=1)
    for command in (cube, sliced, point):
        command.add_argument("--arms", nargs="+", default=list(BLIND), choices=BLIND)
    for command in (cube, sliced):
        command.add_argument("--out", type=Path, required=True)
    point.add_argument("values", nargs="*", metavar="NAME=VALUE")
    point.add_argument("--pair", type=int, default=0, help="number of the replication")
    commands.add_parser("summary").add_argument("file", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "cube":
        write(chosen.out, design(chosen.points, chosen.seed)[: chosen.first], chosen.arms)
    elif chosen.command == "slices":
        write(chosen.out, slices(), chosen.arms)
    elif chosen.command == "at":
        named = {name: float(value) for name, value in (each.split("=") for each in chosen.values)}
        for name, value in measure(CENTRE | named, chosen.arms, chosen.pair).items():
            print(f"{name:25} {value:.5g}")
    else:
        summary(chosen.file)


if __name__ == "__main__":
    main()
