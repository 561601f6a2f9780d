"""Part 15: the case for the opposite conclusion, and what would show in three pairs that the mechanism is wrong.

Arguments come from this review's own numbers: the assumption closest to turning the decision, the condition that goes
farthest the other way, the weakest of the calibration, and how few pairs there are. Each is weighed by what it takes
off the effect, as a share of it; the three that weigh most are made. Where the gain is found too small, what counts is
how far it lies from the smallest effect of interest.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.metrics import METRICS
from sim.report.contrast import log_ratios
from sim.report.rule import percent
from sim.review._gather import Evidence
from sim.review._judge import answer, oriented
from sim.review._model import Part, Row, Table
from sim.review._risks import Condition, conditions
from sim.review.parts._words import value
from sim.review.parts.calibration import resembling
from sim.review.parts.why import held
from sim.stats import Floats
from sim.stats.future import prediction
from sim.validation import agreement

MADE: Final = 3
"""Sentences."""
FIRST: Final = 3
"""Real pairs after which the mechanism is looked at."""
LEAST_OUTSIDE: Final = 0.001
"""Share of the time that is worth a word."""
OBSERVED: Final = {
    "saved prefill": (
        "prefill_tokens",
        "prompt tokens less cached ones, as engines count them",
    ),
    "re-prefill": ("recomputed_tokens", "tokens computed again after preemptions"),
    "batching": ("tpot_mean_s", "time per output token"),
    "imbalance": ("load_tokens_max_over_mean", "tokens of the fullest engine over the mean"),
    "router and clients": ("ttft_p50_s", "median time to the first token"),
    "tail idle": ("load_busy_max_over_mean", "busy time of the fullest engine over the mean"),
}
"""By mechanism a metric that real runs have as well, and what it is there."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One sentence, and what it takes off the effect, as a share of it."""

    of: str
    says: str
    weight: float


def opposite(ev: Evidence) -> Part:
    """15: three sentences for the opposite conclusion, and the observation that would refute the mechanism."""
    every = sorted(arguments(ev), key=lambda each: -each.weight)
    if ev.primary.paired.ratio is None or not every:
        return Part(15, "Devil's advocate", ["There is no ratio, so there is no conclusion to argue against."])
    if _line(ev):
        case = f"run {ev.candidate} all the same, as its gain may be worth having"
    elif _oriented(ev, ev.primary.paired.ratio) > 0:
        case = f"leave {ev.baseline} as it is"
    else:
        case = f"take {ev.candidate} all the same"
    made = every[:MADE]
    text = [f"The case to {case}: {' '.join(each.says for each in made)}", disconfirming(ev)]
    rows: list[Row] = [(each.of, f"{each.weight:.2f}", "made" if each in made else "left out") for each in every]
    note = "Weight: what it takes off the effect, as a share of it; 1 and more undoes it."
    table = Table("15.1", "Arguments", ("argument", "weight", ""), rows, note)
    return Part(15, "Devil's advocate", text, [table])


def _line(ev: Evidence) -> float:
    """The log ratio that the answer is held against: the smallest of interest where the gain is found too little."""
    paired = ev.primary.paired
    turned = oriented(paired.ratio, paired.lo, paired.hi, lower_is_better=ev.is_lower_better)
    return math.log1p(ev.lines.interest) if answer(turned, ev.lines.interest) == "too little" else 0.0


def _oriented(ev: Evidence, ratio: float) -> float:
    """Log ratio over that line, more is better."""
    return (-math.log(ratio) if ev.is_lower_better else math.log(ratio)) - _line(ev)


def arguments(ev: Evidence) -> Iterator[Argument]:
    """All that can be made."""
    ratio = ev.primary.paired.ratio
    if ratio is None or not (effect := _oriented(ev, ratio)):
        return
    for made in (_flip(ev, effect), _worst(ev, effect), _calibration(ev, effect), _pairs(ev, effect), _ablation(ev)):
        if made is not None:
            yield made


def _lost(ev: Evidence, effect: float, ratio: float) -> float:
    """What a ratio elsewhere takes off the effect, as a share of it."""
    return 1 - _oriented(ev, ratio) / effect


def _flip(ev: Evidence, effect: float) -> Argument | None:
    """The end of an assumption that takes most off the effect."""
    if ev.sensitivity is None:
        return None
    ends = [
        (_lost(ev, effect, end.ratio.ratio), bar, end)
        for bar in ev.sensitivity.bars
        for end in bar.ends
        if end.ratio.ratio is not None
    ]
    if not ends:
        return None
    weight, bar, end = max(ends, key=lambda each: each[0])
    assert end.ratio.ratio is not None
    there = value(end.ratio.ratio, end.ratio.lo, end.ratio.hi)
    turns = "the decision is another one" if end.flips else "the decision stands, barely tested"
    says = (
        f"{bar.knob.name} is {bar.knob.basis}; at {end.value} in place of {bar.knob.value} the ratio is {there} and "
        f"{turns}."
    )
    return Argument(f"closest flip: {bar.knob.name}", says, weight + (0.5 if end.flips else 0.0))


def _worst(ev: Evidence, effect: float) -> Argument | None:
    """The condition that goes farthest the other way, by how often it comes."""
    known = [(each, each.ratio) for each in conditions(ev) if each.ratio is not None]
    if not known:
        return None

    def weight(each: tuple[Condition, float]) -> float:
        return max(_lost(ev, effect, each[1]), 0.0) * math.sqrt(each[0].frequency)

    worst, ratio = max(known, key=weight)
    if not weight((worst, ratio)):
        return None
    how = "exactly" if worst.is_exact else f"in {worst.pairs} of {ev.pairs} pairs"
    says = (
        f"Where {worst.says} ({worst.frequency:.1%}, {how}) the ratio is {value(ratio, worst.lo, worst.hi)} in place "
        f"of {ev.primary.paired.ratio:.3f}, and whoever runs the job cannot choose."
    )
    return Argument(f"worst condition: {worst.says}", says, weight((worst, ratio)))


def _calibration(ev: Evidence, effect: float) -> Argument | None:
    """The errors on record against the effect, and the time outside of what was measured."""
    near = [row for case, _ in resembling(ev) for row in case.ratios]
    found, of = agreement(near), "published ratios that resemble this one"
    if found is None:
        found, of = agreement(ev.record.ratios), "published ratios, none of which resembles this one"
    outside = 1 - min(each.inside_share for each in ev.coverage.values())
    if found is None:
        return None
    by_record = math.log1p(found.p90) / abs(effect)
    weight = max(by_record, outside / (1 - outside) if outside < 1 else math.inf)
    beyond = f"; {percent(round(outside, 3))} of the simulated time is outside of what the cost model was fitted in"
    says = (
        f"Of {found.ratios} {of} the simulator put {found.ratios - found.ordered} in the other order and was "
        f"{found.p90:.0%} off in one of ten, against {math.expm1(abs(effect)):.1%} by which the answer clears its "
        f"line{beyond if outside >= LEAST_OUTSIDE else ''}."
    )
    return Argument("weakest calibration", says, min(weight, 99.0))


def _pairs(ev: Evidence, effect: float) -> Argument | None:
    """How wide the interval is for so few pairs, and the smallest class."""
    paired = ev.primary.paired
    if paired.lo is None or paired.hi is None:
        return Argument("smallest n", f"{ev.pairs} pairs give no interval at all ({paired.reason or 'one pair'}).", 1.0)
    half = (math.log(paired.hi) - math.log(paired.lo)) / 2
    few = [each for each in conditions(ev) if each.pairs and each.is_exact]
    least = min(few, key=lambda each: each.pairs, default=None)
    rests = "" if least is None else f", and what is said of {least.says} rests on {least.pairs} of them"
    says = (
        f"{ev.pairs} simulated pairs leave the ratio anywhere in [{paired.lo:.3f}, {paired.hi:.3f}]{rests}; "
        f"real runs add {ev.scenario.real_run_noise:.1%} of noise each."
    )
    return Argument("smallest n", says, half / abs(effect))


def _ablation(ev: Evidence) -> Argument | None:
    """An ablation that leaves its mechanism, or the effect, where it was."""
    if ev.ablation is None or _line(ev):
        return None
    name = ev.ablation.mechanism
    gone = ev.ablation.gone(name) if ev.ablation.arm else ev.ablation.share
    if gone is None or gone.value >= 1 or ev.ablation.lost:
        return None
    says = (
        f"The arm that should take {name} away leaves {1 - gone.value:.0%} of it, so the cause may be another one."
        if ev.ablation.arm
        else f"With {ev.ablation.off} in both arms {1 - gone.value:.0%} of the effect stays: {name} is not all of it."
    )
    return Argument(f"ablation: {name}", says, abs(1 - gone.value))


def disconfirming(ev: Evidence) -> str:
    """What in the first real pairs would refute the mechanism: outside the prediction interval of their mean."""
    named = held(ev)
    metric, what = OBSERVED.get(named, (ev.primary.metric, "the metric that decides"))
    logs = _logs(ev, metric)
    if logs.size < FIRST or not logs.any():
        metric, what = ev.primary.metric, "the metric that decides"
        logs = _logs(ev, metric)
    if logs.size < FIRST:
        return f"Disconfirming observation: none can be named, {logs.size} pairs have a ratio of {metric}."
    noise = ev.scenario.real_run_noise * math.sqrt(2) if METRICS[metric].unit != "tokens" else 0.0
    centre = float(logs.mean())
    low, high = map(math.exp, prediction(logs, FIRST, noise=noise))
    head = f"Disconfirming observation: the mechanism is held to be {named}"
    predicted = f"predicted {math.exp(centre):.3f}, 95 % of such means in [{low:.3f}, {high:.3f}]"
    over = f"the geometric mean of {metric} ({what}), {ev.candidate} over {ev.baseline}"
    if low <= 1 <= high:
        return f"{head}. {FIRST} pairs cannot refute it: {over} is {predicted}, which holds 1."
    side, limit = ("above", high) if centre < 0 else ("below", low)
    return f"{head}. If {over} is {side} {limit:.3f} over the first {FIRST} pairs, it is wrong ({predicted})."


def _logs(ev: Evidence, metric: str) -> Floats:
    if not all(metric in side.metrics for side in (ev.found.baseline, ev.found.candidate)):
        return np.zeros(0)
    return log_ratios(ev.found.baseline, ev.found.candidate, metric)["log_ratio"].to_numpy()
