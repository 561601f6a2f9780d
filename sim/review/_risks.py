"""Conditions in which the candidate may be worse: how often they come in the stated workload, and what they cost.

    placement     the class into which few keys fall, or the fullest engine's keys, under a uniform hash exactly
    imbalance     the fullest engine's load over the mean, where no keys are placed
    heavy work    the quarter of the pairs with most tokens
    memory        pairs in which the candidate loses more requests' memory than the baseline

Thresholds of keys and load are the lowest from which the pairs beyond are worse on average: chosen by looking at these
pairs, so the ratio beyond is the worst of several and reads too bad rather than too good. Sizes outside the stated
workload are break-evens of the sensitivity analysis.

A condition is worse where the interval of its pairs lies below no effect, and brings losses where more of its pairs
pass the harm line than of the others, beyond chance: two questions, as pairs may lose often where their mean is a tie.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from sim.metrics import METRICS
from sim.placement import p_fullest
from sim.report.contrast import IMBALANCE, log_ratios
from sim.review._gather import Evidence
from sim.review._judge import standing
from sim.stats import Floats
from sim.stats.paired import t_interval
from sim.stats.shares import p_more_often

FEWEST: Final = 3
"""Pairs of a condition of which a ratio is shown."""
MOST_KEYS: Final = 300
"""Keys up to which the exact probability of a fullest engine is taken."""
ALWAYS: Final = 0.95
"""Share of the pairs from which a condition that was looked for in them is no condition."""
HEAVY: Final = 0.75
BEYOND_CHANCE: Final = 0.01
"""One-sided p below which losses are said to come with a condition: several are looked at."""
RUNNING: Final = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}
PREEMPTED: Final = {"vllm": "vllm:num_preemptions_total", "sglang": "sglang:num_retracted_reqs"}
MEMORY: Final = {"vllm": "vllm:kv_cache_usage_perc", "sglang": "sglang:token_usage"}
HITS: Final = {
    "vllm": "vllm:prefix_cache_hits_total / vllm:prefix_cache_queries_total",
    "sglang": "sglang:cache_hit_rate",
}
TOKENS: Final = {"vllm": "vllm:prompt_tokens_total", "sglang": "sglang:prompt_tokens_total"}
"""Names under which the products export them (docs.vllm.ai, Production Metrics; docs.sglang.io, Production Metrics)."""
BOUNDS: Final = {
    "bounded_loads": "a bounded load (bounded_loads, c = 1.25)",
    "sticky_least_loaded": "first turns to the least loaded (sticky_least_loaded)",
}
"""Policies that keep an engine from being overfilled."""
CAP: Final = "a cap on sessions under way (client.max_sessions_per_engine), or more KV room"
EXIT: Final = "an exit margin: back to the baseline above the alarm, and again below nine tenths of it"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition and what the candidate does in it."""

    says: str
    frequency: float
    """In the stated workload."""
    is_exact: bool
    """From the law of the placement and not from the pairs."""
    pairs: int
    ratio: float | None
    """Candidate over baseline; None with too few pairs."""
    lo: float | None
    hi: float | None
    harmed: int
    """Its pairs beyond the harm line."""
    elsewhere: tuple[int, int]
    """Of the other pairs those beyond the harm line, and all."""
    is_worse: bool
    """The interval of its ratio lies on the bad side of 1, in a condition that is not always there."""
    brings_losses: bool
    """More of its pairs are beyond the harm line than of the others, beyond chance."""
    is_always: bool
    """In (nearly) every pair: it tells none from another, and triggers nothing."""
    placement: str | None
    """The class, where the condition is one of a placement."""
    live: str
    alarm: str
    mitigation: str


def conditions(ev: Evidence) -> list[Condition]:
    """All that were looked at, the worse ones first."""
    frame = by_pair(ev)
    if frame.is_empty():
        return []
    found = [*_placed(ev, frame), *_imbalance(ev, frame), *_heavy(ev, frame), *_memory(ev, frame)]
    return sorted(
        found, key=lambda each: (not each.is_worse, not each.brings_losses, each.frequency * _oriented(ev, each.ratio))
    )


def by_pair(ev: Evidence) -> pl.DataFrame:
    """``pair``, the log ratio turned so that more is better, and what may explain it."""
    metric = ev.primary.metric
    sign = -1 if METRICS[metric].better == "lower" else 1
    logs = log_ratios(ev.found.baseline, ev.found.candidate, metric).with_columns(pl.col("log_ratio") * sign)
    one, other = (ev.tables[name].requests for name in (ev.baseline, ev.candidate))
    work = one.group_by("pair").agg(tokens=(pl.col("prompt_tokens") + pl.col("output_tokens")).sum())
    lost = (
        each.group_by("pair").agg(pl.col("preemptions").sum().alias(name))
        for each, name in ((one, "lost_before"), (other, "lost"))
    )
    values = ev.result.arms[ev.candidate].values.select("pair", load=IMBALANCE, hits="prefix_hit_rate")
    frame = logs.join(work, on="pair").join(values, on="pair")
    for each in lost:
        frame = frame.join(each, on="pair")
    held = _fullest(ev)
    return (frame if held is None else frame.join(held, on="pair")).sort("pair")


def _fullest(ev: Evidence) -> pl.DataFrame | None:
    """By pair, keys of the engine that has most of them, by their first requests."""
    placing = ev.arithmetic[ev.candidate].placing
    if placing is None or placing.of == "request" or placing.law != "hash":
        return None
    requests = ev.tables[ev.candidate].requests.filter(pl.col("engine") >= 0)
    first = requests.sort("request").group_by("pair", placing.of, maintain_order=True).agg(pl.col("engine").first())
    return first.group_by("pair", "engine").len().group_by("pair").agg(fullest=pl.col("len").max())


def _oriented(ev: Evidence, ratio: float | None) -> float:
    if ratio is None:
        return 0.0
    return -math.log(ratio) if METRICS[ev.primary.metric].better == "lower" else math.log(ratio)


def _condition(
    ev: Evidence,
    frame: pl.DataFrame,
    says: str,
    own: pl.DataFrame,
    frequency: float | None,
    live: str,
    alarm: str,
    mitigation: str,
    placement: str | None = None,
) -> Condition:
    """Of all pairs those in which it holds."""
    logs = own["log_ratio"].to_numpy()
    lower = METRICS[ev.primary.metric].better == "lower"
    harm = math.log(1 - ev.lines.harm)
    harmed = int((logs < harm).sum())
    rest = int((frame["log_ratio"] < harm).sum()) - harmed, frame.height - logs.size
    mean = lo = hi = None
    if logs.size >= FEWEST:
        mean = float(logs.mean())
        lo, hi = t_interval(logs)
    is_worse = standing(lo, hi, 0.0) == "below"
    is_always = frequency is None and logs.size >= ALWAYS * ev.pairs
    ends = [None if each is None else math.exp(-each if lower else each) for each in (mean, lo, hi)]
    if lower:
        ends[1], ends[2] = ends[2], ends[1]
    return Condition(
        says=says,
        frequency=logs.size / ev.pairs if frequency is None else frequency,
        is_exact=frequency is not None,
        pairs=logs.size,
        ratio=ends[0],
        lo=ends[1],
        hi=ends[2],
        harmed=harmed,
        elsewhere=rest,
        is_worse=is_worse and not is_always,
        brings_losses=not is_always and p_more_often(harmed, logs.size, *rest) < BEYOND_CHANCE,
        is_always=is_always,
        placement=placement,
        live=live,
        alarm=alarm,
        mitigation=mitigation,
    )


def _preset(ev: Evidence) -> str:
    return ev.cell(ev.candidate).fleet[0].engine.preset


def _spread(ev: Evidence) -> str:
    return f"{RUNNING[_preset(ev)]}: most over mean of the engines"


def _bound(ev: Evidence) -> str:
    """What spreads the load, the candidate's own policy left out."""
    own = ev.cell(ev.candidate).resolved["router"]["policy"]["kind"]
    return ", or ".join(says for kind, says in BOUNDS.items() if kind != own)


def _placed(ev: Evidence, frame: pl.DataFrame) -> Iterator[Condition]:
    """Classes of few keys, or the fullest engine of many."""
    placements = [each for each in ev.result.placements if each.candidate == ev.candidate]
    placed = ev.result.arms[ev.candidate].placed
    if placements and placed is not None:
        for each in placements:
            own = frame.join(placed.classes.filter(pl.col("class") == each.name), on="pair")
            most = max(int(count) for count in each.name.split(":")) * placed.engines / placed.keys
            says, alarm = f"keys fall {each.name}", f"at or above {most:.2f}"
            yield _condition(ev, frame, says, own, each.p_exact, _spread(ev), alarm, _bound(ev), each.name)
        return
    if "fullest" not in frame.columns:
        return
    placing, keys = ev.arithmetic[ev.candidate].placing, ev.arithmetic[ev.candidate].keys
    assert placing is not None
    least = threshold(frame["fullest"].to_numpy().astype(float), frame["log_ratio"].to_numpy())
    own = frame.filter(pl.col("fullest") >= least)
    says = f"one engine draws {least:,.0f} or more of the {keys:,} keys (one a {placing.of})"
    exact = p_fullest(keys, placing.engines, least / keys) if keys <= MOST_KEYS else None
    yield _condition(
        ev, frame, says, own, exact, _spread(ev), f"above {least * placing.engines / keys:.2f}", _bound(ev)
    )


def threshold(values: Floats, logs: Floats) -> float:
    """The lowest value from which the pairs beyond are worse on average; with none, that of the highest tenth."""
    order = np.sort(np.unique(values))
    for value in order:
        beyond = logs[values >= value]
        if beyond.size >= FEWEST and beyond.mean() < 0:
            return float(value)
    tenth = max(FEWEST, math.ceil(values.size / 10))
    return float(np.sort(values)[-min(tenth, values.size)])


def _imbalance(ev: Evidence, frame: pl.DataFrame) -> Iterator[Condition]:
    if "fullest" in frame.columns or any(each.candidate == ev.candidate for each in ev.result.placements):
        return
    known = frame.drop_nulls("load")
    if known.is_empty():
        return
    least = threshold(known["load"].to_numpy(), known["log_ratio"].to_numpy())
    own = known.filter(pl.col("load") >= least)
    says = f"the fullest engine has {least:.2f} times the mean load (tokens) or more"
    yield _condition(ev, frame, says, own, None, _spread(ev), f"above {least:.2f}", _bound(ev))


def _heavy(ev: Evidence, frame: pl.DataFrame) -> Iterator[Condition]:
    if frame["tokens"].n_unique() < 2:
        return
    least = frame["tokens"].quantile(HEAVY, interpolation="linear")
    assert least is not None
    own = frame.filter(pl.col("tokens") >= least)
    says = f"the tail of load: {least:,.0f} tokens a replication or more"
    live = f"{TOKENS[_preset(ev)]} and its like for generation, of the fleet over a job"
    yield _condition(ev, frame, says, own, None, live, f"above {least:,.0f} a job", EXIT)


def _memory(ev: Evidence, frame: pl.DataFrame) -> Iterator[Condition]:
    own = frame.filter(pl.col("lost") > pl.col("lost_before"))
    most = frame["lost_before"].max()
    assert isinstance(most, int)
    says = "KV pressure: the candidate preempts more often than the baseline"
    live = f"{PREEMPTED[_preset(ev)]}, {MEMORY[_preset(ev)]}"
    yield _condition(
        ev, frame, says, own, None, live, f"more than {most:,} preemptions a job, or KV use above 0.9", CAP
    )


def least_hits(ev: Evidence) -> tuple[str, float] | None:
    """The product's hit rate, and the lowest that the candidate had in any pair."""
    values = ev.result.arms[ev.candidate].values["prefix_hit_rate"].drop_nulls()
    return (HITS[_preset(ev)], float(values.to_numpy().min())) if len(values) else None
