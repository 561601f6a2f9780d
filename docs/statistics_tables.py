"""The tables of docs/statistics.md, computed: how far intervals, tests and rules keep what they promise.

    python docs/statistics_tables.py                    # every table, written into the page: some minutes
    python docs/statistics_tables.py coverage power     # these alone
    python docs/statistics_tables.py --print campaign   # shown, not written

A table stands in the page between ``<!-- table NAME -->`` and ``<!-- end -->``. Seeds are fixed: a table changes when
the code does. Tests hold that the page says what this file computes.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from sim import load_scenario, placement  # noqa: E402 - the checkout comes first
from sim.replication import replicate  # noqa: E402
from sim.scenario import Scenario  # noqa: E402
from sim.stats.inference import equivalence_p, spearman  # noqa: E402
from sim.stats.paired import bca_intervals, t_interval  # noqa: E402
from sim.stats.power import pairs_needed, power, recombined, spread_from_interval  # noqa: E402
from sim.stats.selection import kn  # noqa: E402
from sim.stats.shape import common  # noqa: E402
from sim.stats.stopping import Precision  # noqa: E402
from sim.stats.strata import pooled  # noqa: E402

PAGE: Final = ROOT / "docs" / "statistics.md"
Row = tuple[Any, ...]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]
SIZES: Final = (8, 20, 80, 200)
SPREAD: Final = 0.1
TRUE: Final = math.log(1.1)
LAWS: Final[dict[str, Draw]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "t3": lambda rng, shape: rng.standard_t(3, shape),
    "exponential": lambda rng, shape: rng.standard_exponential(shape) - 1,
    "lognormal": lambda rng, shape: rng.lognormal(0, 1, shape) - math.exp(0.5),
}
"""Noise of a pair's log ratio, of mean zero, before it is scaled by SPREAD."""
PUBLISHED: Final = {"ratio": 1.191, "lo": 1.116, "hi": 1.269, "rho": -0.691, "draw": (8, 10, 2)}
"""slime's pull request 2206: 20 pairs in four cells."""
CLASS_RATIOS: Final = (1.357, 1.149, 0.848)


def covered(law: str, n: int, kind: str, experiments: int = 2000) -> float:
    """Share of experiments of n pairs whose 95 % interval holds the true mean log ratio."""
    rng = np.random.default_rng([n, *law.encode()])
    logs = TRUE + SPREAD * LAWS[law](rng, (experiments, n))
    if kind == "t":
        ends = np.array([t_interval(row) for row in logs])
    else:
        ends = np.concatenate([bca_intervals(part) for part in np.array_split(logs, max(1, experiments // 100))])
    return float(((ends[:, 0] <= TRUE) & (ends[:, 1] >= TRUE)).mean())


def coverage() -> list[Row]:
    """Coverage of both intervals in percent."""
    rows: list[Row] = [("noise", *(f"t, n = {n}" for n in SIZES), *(f"BCa, n = {n}" for n in SIZES))]
    for law in LAWS:
        rows.append((law, *(f"{100 * covered(law, n, kind):.1f}" for kind in ("t", "BCa") for n in SIZES)))
    return rows


def shown(pairs: int, effect: float, spread: float, campaigns: int = 4000) -> float:
    """Share of simulated campaigns whose t interval leaves out 1."""
    rng = np.random.default_rng([pairs, round(1000 * effect), round(1000 * spread)])
    logs = math.log1p(effect) + spread * rng.standard_normal((campaigns, pairs))
    ends = np.array([t_interval(row) for row in logs])
    return float(((ends[:, 0] > 0) | (ends[:, 1] < 0)).mean())


POWERS: Final = ((5, 0.10, 0.06), (8, 0.19, 0.147), (20, 0.05, 0.10), (73, 0.05, 0.147), (80, 0.02, 0.08))


def formula() -> list[Row]:
    """The power formula against simulated campaigns."""
    rows: list[Row] = [("pairs", "effect", "SD of log ratio", "formula", "4,000 campaigns")]
    for n, effect, spread in POWERS:
        rows.append((n, f"{effect:.0%}", spread, f"{power(n, effect, spread):.1%}", f"{shown(n, effect, spread):.1%}"))
    return rows


def published() -> list[Row]:
    """Arithmetic of slime's pull request 2206."""
    spread = spread_from_interval(PUBLISHED["lo"], PUBLISHED["hi"], 20)
    exact = list(placement.exact(4, 2).values())
    effects = (0.03, 0.05, 0.08, 0.10, 0.15, 0.19)
    return [
        ("quantity", "is"),
        ("ratio of the classes under the draw 8, 10, 2", f"{recombined(CLASS_RATIOS, (8, 10, 2)):.4f}"),
        ("under exact weights 3/8, 4/8, 1/8", f"{recombined(CLASS_RATIOS, exact):.3f}"),
        ("SD of a pair's log ratio, from the interval", f"{spread:.4f}"),
        ("pairs for 3, 5, 8, 10, 15, 19 %", ", ".join(str(pairs_needed(each, spread)) for each in effects)),
        ("pairs for 3, 5 % with the SD rounded to 0.147", ", ".join(str(pairs_needed(e, 0.147)) for e in effects[:2])),
    ]


def more_groups() -> list[Row]:
    """What more groups do to the placement on two engines."""
    rows: list[Row] = [("groups", "largest over mean", "one engine has 75 % or more")]
    for groups in (4, 8, 16, 32, 64):
        piled = placement.p_fullest(groups, 2, 0.75)
        rows.append(
            (groups, f"{placement.max_over_mean(groups, 2):.3f}", f"{piled:.1%}" if piled > 1e-3 else f"{piled:.2%}")
        )
    return rows


def chosen_right(arms: int, lead: float, delta: float = 0.05, selections: int = 1000) -> tuple[float, float]:
    """Share of KN selections that leave the best arm, and their mean number of pairs."""
    rng, right, pairs = np.random.default_rng([arms, round(1000 * lead)]), 0, 0
    for _ in range(selections):
        shared = rng.normal(0, SPREAD, (2000, 1))
        values = (shared + rng.normal(0, SPREAD, (2000, arms))) / math.sqrt(2)
        values[:, 0] += lead
        found = kn(values, delta)
        right += found.alive == (0,)
        pairs += max(at or 0 for at in found.dropped_at)
    return right / selections, pairs / selections


def selection() -> list[Row]:
    """KN against its promise of 95 %."""
    rows: list[Row] = [("arms", "lead of the best", "delta", "best is left", "pairs, mean")]
    for arms, lead in ((2, 0.05), (5, 0.05), (10, 0.05), (5, 0.10)):
        right, pairs = chosen_right(arms, lead)
        rows.append((arms, f"{lead:.0%}", "5%", f"{right:.1%}", f"{pairs:.0f}"))
    return rows


def called_equal(true: float, n: int, experiments: int = 4000, spread: float = 0.02) -> float:
    """Share of comparisons that TOST calls equal within 2 %."""
    rng = np.random.default_rng([n, round(10_000 * true)])
    logs = math.log1p(true) + spread * rng.standard_normal((experiments, n))
    return float(np.mean([equivalence_p(row, 0.02) < 0.05 for row in logs]))


def equality() -> list[Row]:
    """The equivalence test at its bound, beyond, and where arms are equal."""
    rows: list[Row] = [("true ratio", "n = 10", "n = 20", "n = 50")]
    for true in (0.0, 0.01, 0.02, 0.03):
        rows.append((f"{1 + true:.2f}", *(f"{called_equal(true, n):.1%}" for n in (10, 20, 50))))
    return rows


def stopped(spread: float, experiments: int = 2000) -> tuple[float, float, float]:
    """Stopping by precision: coverage, mean pairs, and the widest half-width at the stop."""
    rng, rule = np.random.default_rng(round(1000 * spread)), Precision()
    hits, pairs, widest = 0, 0, 0.0
    for _ in range(experiments):
        logs = TRUE + spread * rng.standard_normal(4096)
        asked = rule.fewest  # then every 10 pairs, as a sweep asks it after a batch
        while not rule.is_met([logs[:asked]]):
            asked += 10
        lo, hi = t_interval(logs[:asked])
        hits += lo <= TRUE <= hi
        pairs += asked
        widest = max(widest, float(np.exp(hi) - np.exp(lo)) / 2)
    return hits / experiments, pairs / experiments, widest


def precision() -> list[Row]:
    """Coverage of the interval at which a campaign stopped."""
    rows: list[Row] = [("SD of log ratio", "pairs, mean", "widest half-width", "coverage")]
    for spread in (0.02, 0.05, 0.10):
        hits, pairs, widest = stopped(spread)
        rows.append((spread, f"{pairs:.0f}", f"{widest:.4f}", f"{hits:.1%}"))
    return rows


def outcome(scenario: Scenario, arm: str, pair: int) -> tuple[float, float, str]:
    """Samples a second, largest over mean of the engines' tokens, and the class of the groups' engines."""
    cell = scenario.arms[arm]
    log = replicate(cell, pair)
    rows = log.numpy("requests")
    wall = float(rows["ended"].max() - rows["submitted"].min()) * log.tick_s
    load = np.bincount(rows["engine"], rows["prefill_tokens"] + rows["output_tokens"], minlength=cell.engines)
    _, first = np.unique(rows["group"], return_index=True)
    held = np.bincount(rows["engine"][first], minlength=cell.engines)
    return float(rows["is_last"].sum()) / wall, float(load.max() / load.mean()), placement.class_name(held.tolist())


def effects(scenario: Scenario, pairs: range) -> tuple[Any, Any, list[str]]:
    """By pair: log ratio of throughput, log ratio of imbalance, and the class of the group arm."""
    base = [outcome(scenario, "sample", pair) for pair in pairs]
    other = [outcome(scenario, "group", pair) for pair in pairs]
    logs = [np.log([b[column] / a[column] for a, b in zip(base, other, strict=True)]) for column in (0, 1)]
    return logs[0], logs[1], [each[2] for each in other]


CELLS: Final = tuple((prompt, siblings) for prompt in (4096, 8192) for siblings in (4, 8))
CAMPAIGNS: Final = 200


def one_campaign(worlds: list[Scenario], seed: int) -> dict[str, Any]:
    """20 pairs in four cells, five each, every pair with keys of its own."""
    logs, loads, classes = [], [], []
    for index, world in enumerate(worlds):
        found = effects(world.select(seed=seed), range(5 * index, 5 * index + 5))
        logs.append(found[0])
        loads.append(found[1])
        classes += found[2]
    whole = pooled(logs)
    rank = spearman(np.concatenate(loads), np.concatenate(logs))
    ends = [t_interval(each) for each in logs]
    assert whole.lo is not None
    assert whole.hi is not None
    return {
        "ratio": whole.ratio,
        "lo": whole.lo,
        "hi": whole.hi,
        "rho": rank.rho if rank else math.nan,
        "cells": [math.exp(float(each.mean())) for each in logs],
        "crossing": all(lo < 0 < hi for (prompt, _), (lo, hi) in zip(CELLS, ends, strict=True) if prompt == 8192),
        "draw": tuple(classes.count(name) for name in ("2:2", "3:1", "4:0")),
    }


def campaign() -> list[Row]:
    """The published campaign among simulated ones."""
    worlds = [
        load_scenario(
            "slime_four_cells", [f"workload.prompt.group_tokens={prompt}", f"workload.samples_per_group={siblings}"]
        )
        for prompt, siblings in CELLS
    ]
    found = [one_campaign(worlds, seed) for seed in range(1, CAMPAIGNS + 1)]
    rows: list[Row] = [("quantity", "published", "simulated: 5, 50, 95 %", "campaigns below the published")]
    names = {"ratio": "ratio", "lo": "lower end", "hi": "upper end", "rho": "Spearman of imbalance and effect"}
    for key, name in names.items():
        values = np.array([each[key] for each in found])
        middle = ", ".join(f"{each:.3f}" for each in np.quantile(values, [0.05, 0.5, 0.95]))
        rows.append((name, PUBLISHED[key], middle, f"{(values < PUBLISHED[key]).mean():.1%}"))
    for index, (prompt, siblings) in enumerate(CELLS):
        values = np.array([each["cells"][index] for each in found])
        middle = ", ".join(f"{each:.3f}" for each in np.quantile(values, [0.05, 0.5, 0.95]))
        rows.append((f"ratio of {prompt:,} tokens, {siblings} siblings", "not stated", middle, ""))
    crossing = np.mean([each["crossing"] for each in found])
    rows.append(("both 8,192 cells cross 1", "yes", f"in {crossing:.1%} of the campaigns", ""))
    drawn = np.mean([each["draw"] == PUBLISHED["draw"] for each in found])
    exact = _multinomial(PUBLISHED["draw"], (0.375, 0.5, 0.125))
    rows.append(("draw of 2:2, 3:1, 4:0", "8, 10, 2", f"in {drawn:.1%} of the campaigns, exactly {exact:.1%}", ""))
    return rows


def _multinomial(counts: tuple[int, ...], shares: tuple[float, ...]) -> float:
    ways = math.factorial(sum(counts)) // math.prod(math.factorial(each) for each in counts)
    return ways * math.prod(share**each for share, each in zip(shares, counts, strict=True))


BLOCKED: Final = ("client.blocking=placement",)


def blocked_campaigns(campaigns: int = 500, pairs: int = 8) -> dict[str, Any]:
    """Mean log ratios of campaigns of the slime scenario, plain and blocked, and all their pairs."""
    plain, planned = load_scenario("slime_group_affinity"), load_scenario("slime_group_affinity", BLOCKED)
    strata = placement.strata(4, 2)
    means: dict[str, list[float]] = {"plain": [], "blocked": []}
    logs_of: list[Any] = []
    classes_of: list[str] = []
    within: list[Any] = [[] for _ in strata]
    for seed in range(1, campaigns + 1):
        logs, _, classes = effects(plain.select(seed=seed), range(pairs))
        logs_of.append(logs)
        classes_of += classes
        means["plain"].append(float(logs.mean()))
        logs, _, classes = effects(planned.select(seed=seed), range(pairs))
        parts = [logs[[name in each.classes for name in classes]] for each in strata]
        means["blocked"].append(float(sum(each.share * part.mean() for each, part in zip(strata, parts, strict=True))))
        for part, all_of in zip(parts, within, strict=True):
            all_of.append(part)
    every = np.concatenate(logs_of)
    by_class = [every[[name in each.classes for name in classes_of]] for each in strata]
    shares = [each.share for each in strata]
    error = math.sqrt(sum(s**2 * part.var(ddof=1) / part.size for s, part in zip(shares, by_class, strict=True)))
    inner = math.sqrt(
        sum(each.share * np.concatenate(part).var(ddof=1) for each, part in zip(strata, within, strict=True))
    )
    return {
        "means": {key: np.array(value) for key, value in means.items()},
        "exact": float(np.dot(shares, [part.mean() for part in by_class])),
        "error": error,
        "spread": float(every.std(ddof=1)),
        "within": inner,
    }


def blocking() -> list[Row]:
    """500 campaigns of 8 pairs of slime_group_affinity, plain and blocked."""
    found = blocked_campaigns()
    rows: list[Row] = [("campaigns of 8 pairs", "mean ratio", "standard error", "SD of a campaign's log ratio")]
    for name, means in found["means"].items():
        error = means.std(ddof=1) / math.sqrt(len(means))
        rows.append((name, f"{math.exp(means.mean()):.4f}", f"{error:.4f}", f"{means.std(ddof=1):.4f}"))
    rows.insert(
        2, ("plain, classes under exact weights", f"{math.exp(found['exact']):.4f}", f"{found['error']:.4f}", "")
    )
    cut = found["means"]["plain"].std(ddof=1) / found["means"]["blocked"].std(ddof=1)
    rows.append(
        (
            "SD of a pair: all, within classes",
            f"{found['spread']:.4f}, {found['within']:.4f}",
            "",
            f"cut {cut:.2f} times",
        )
    )
    return rows


def salted(sweeps: int = 200, pairs: int = 20) -> tuple[int, int]:
    """Claims at the 5 % level between arms that are equal in law: group scope under two salts."""
    scenario = load_scenario("slime_group_affinity", ["client.key_scope=group", "arms.group.client.key_salt=other"])
    claims = 0
    for seed in range(1, sweeps + 1):
        logs, _, _ = effects(scenario.select(seed=seed), range(pairs))
        lo, hi = t_interval(logs)
        claims += not lo <= 0 <= hi
    return claims, sweeps


def null() -> list[Row]:
    """Claims of a difference where there is none."""
    claims, sweeps = salted()
    return [("sweeps of 20 pairs", "claims at 5 %", "99 % bound"), (sweeps, claims, 18)]


STREAMS: Final = (
    ("slime_group_affinity", "sample", "group", "samples_per_s", 200),
    ("slime_multi_turn", "least_load", "sticky_least_loaded", "makespan_s", 12),
    ("nemo_gym_12_engines", "consistent_hash", "cache_aware", "makespan_s", 12),
)


def bought(name: str, baseline: str, candidate: str, metric: str, pairs: int) -> tuple[float, float]:
    """Correlation of two arms, and variance of the paired log ratio over that of unpaired runs."""
    scenario, columns = load_scenario(name), []
    for arm in (baseline, candidate):
        values = []
        for pair in range(pairs):
            log = replicate(scenario.arms[arm], pair)
            rows = log.numpy("requests")
            wall = float(rows["ended"].max() - rows["submitted"].min()) * log.tick_s
            values.append(float(rows["is_last"].sum()) / wall if metric == "samples_per_s" else wall)
        columns.append(np.array(values))
    found = common(columns[0], columns[1])
    return (math.nan, math.nan) if found is None else (found.correlation, found.variance_ratio)


def streams() -> list[Row]:
    """What common random numbers buy."""
    rows: list[Row] = [("scenario", "arms", "metric", "pairs", "correlation", "variance, paired over unpaired")]
    for name, baseline, candidate, metric, pairs in STREAMS:
        correlation, ratio = bought(name, baseline, candidate, metric, pairs)
        rows.append((name, f"{candidate} / {baseline}", metric, pairs, f"{correlation:.2f}", f"{ratio:.2f}"))
    return rows


TABLES: Final[dict[str, Callable[[], list[Row]]]] = {
    "coverage": coverage,
    "formula": formula,
    "published": published,
    "more_groups": more_groups,
    "selection": selection,
    "equality": equality,
    "precision": precision,
    "blocking": blocking,
    "null": null,
    "streams": streams,
    "campaign": campaign,
}


def markdown(rows: list[Row]) -> str:
    """A table with its head in the first row."""
    lines = [rows[0], tuple("---" for _ in rows[0]), *rows[1:]]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def table_of(page: str, name: str) -> str:
    """The table that the page shows under a name."""
    found = re.search(rf"<!-- table {name} -->\n(.*?)<!-- end -->", page, flags=re.DOTALL)
    assert found, f"the page has no table {name}"
    return found.group(1).strip() + "\n"


def with_table(page: str, name: str, text: str) -> str:
    """The page with another table under a name."""
    table_of(page, name)
    head, tail = page.split(f"<!-- table {name} -->\n", 1)
    return f"{head}<!-- table {name} -->\n\n{text}\n<!-- end -->{tail.split('<!-- end -->', 1)[1]}"


def main() -> None:
    """Compute tables and write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TABLE", choices=[[], *TABLES], help=", ".join(TABLES))
    parser.add_argument("--print", action="store_true", dest="prints", help="show the tables and leave the page alone")
    chosen = parser.parse_args()
    for name in chosen.names or TABLES:
        text = markdown(TABLES[name]())
        print(f"{name}\n{text}", flush=True)
        if not chosen.prints:
            PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), name, text), encoding="utf-8")


if __name__ == "__main__":
    main()
