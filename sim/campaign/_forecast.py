"""Where the results of a real campaign should fall, from its own traces run under many draws of what is not known.

Each draw of the inputs (``_inputs``) runs every sealed trace with both arms. With y the log ratio of draw j and pair p:

    y[j, p] = centre[p] + input[j] + rest[j, p]

``centre`` is what is predicted of a pair, as its trace fixes it. A campaign's mean over pairs with weights w falls

    sum w centre  +-  t sqrt( input_sd^2 (1 + 1/D)  +  pair_sd^2 sum w^2 (1 + 1/D) )

with D draws and Student's t of D - 1. ``input_sd`` does not shrink with the number of pairs: the real system has one
slowdown. ``pair_sd`` holds ``rest`` (what names of engines, ties and noise do to a pair) and the noise of two real
runs, sqrt(2) times the scenario's ``real_run_noise``: published of times, and taken to be as large, as a share, for
every metric. An arm's own values go the same way without logarithms, with the noise of one run; the ends of their mean
m are then m exp(+- half / m), the same to first order and never below 0. A value that is 0 in some run has the plain
ends, cut off at 0; a share's are cut off at 1.

Left out: the error of the model's form. What no input stands for is in no width; that is what the score is to find.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from scipy.special import stdtr, stdtrit

from sim.campaign import _measured
from sim.campaign._inputs import Draw, drawn, draws
from sim.campaign._replay import replay, under
from sim.errors import ScenarioError
from sim.metrics import METRICS, measure
from sim.placement import strata
from sim.report.rule import Rule
from sim.review import Evidence
from sim.stats import Floats
from sim.steady import without_start

DRAWS: Final = 48
LEVEL: Final = 0.95
MOST: Final = 1e300
"""An upper end beyond which a few draws say nothing, as a number that JSON has."""
STAGES: Final = ("prefill_s_per_token", "decode_fast_s", "decode_slow_s")


@dataclass(frozen=True, slots=True)
class Components:
    """What a mean over pairs is made of; ratios as logarithms."""

    pairs: tuple[float, ...]
    """Centre of each pair."""
    input_sd: float
    pair_sd: float
    draws: int

    def at(self, pairs: Sequence[int], weights: Floats | None = None) -> tuple[float, float]:
        """Centre and standard deviation of the mean over these pairs, equally weighted unless weights are given."""
        w = np.full(len(pairs), 1 / len(pairs)) if weights is None else weights
        more = 1 + 1 / self.draws
        variance = more * (self.input_sd**2 + self.pair_sd**2 * float((w**2).sum()))
        return float(w @ np.array([self.pairs[each] for each in pairs])), variance**0.5

    def interval(self, pairs: Sequence[int], weights: Floats | None = None) -> tuple[float, float, float]:
        """Centre and the ends within which 95 % of campaigns should fall."""
        centre, sd = self.at(pairs, weights)
        half = float(stdtrit(self.draws - 1, (1 + LEVEL) / 2)) * sd
        return centre, centre - half, centre + half

    def own(
        self, metric: str, pairs: Sequence[int], weights: Floats | None, *, is_positive: bool
    ) -> tuple[float, float, float]:
        """Of an arm's values and not of ratios: the mean and its ends, which are values that the metric can have."""
        mean, lo, hi = self.interval(pairs, weights)
        if is_positive:
            relative = (hi - mean) / mean
            with np.errstate(over="ignore"):
                lo, hi = mean * float(np.exp(-relative)), mean * float(np.exp(relative))
            hi = min(hi, MOST)
        most = 1.0 if METRICS[metric].unit == "share" else MOST
        return mean, max(lo, 0.0), min(hi, most)

    def below(self, bound: float, pairs: Sequence[int], weights: Floats | None = None) -> float:
        """Probability that a campaign's mean falls below a bound."""
        centre, sd = self.at(pairs, weights)
        if sd == 0:
            return float(centre < bound) + 0.5 * float(centre == bound)
        return float(stdtr(self.draws - 1, (bound - centre) / sd))

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "pairs": list(self.pairs),
            "input_sd": self.input_sd,
            "pair_sd": self.pair_sd,
            "draws": self.draws,
        }


def from_document(data: Mapping[str, Any]) -> Components:
    """What ``Components.document`` wrote."""
    return Components(tuple(data["pairs"]), data["input_sd"], data["pair_sd"], data["draws"])


def strata_of(classes: Mapping[str, Any], pairs: Sequence[int]) -> list[tuple[list[int], float]] | None:
    """Pairs of each planned placement class with the class's exact share, ``classes`` by arm.

    None where no arm's pairs were planned, or a class has no pair.
    """
    planned = next((each for each in reversed([*classes.values()]) if each and each["planned"]), None)
    if planned is None:
        return None
    known = strata(planned["keys"], planned["engines"])
    held = [([pair for pair in pairs if planned["pairs"][pair] in each.classes], each.share) for each in known]
    return held if all(each for each, _ in held) else None


def weights_of(classes: Mapping[str, Any], pairs: Sequence[int]) -> Floats | None:
    """Weight of each pair in a blocked campaign; None where all weigh alike."""
    parts = strata_of(classes, pairs)
    if parts is None:
        return None
    weight = {pair: share / len(held) for held, share in parts for pair in held}
    return np.array([weight[pair] for pair in pairs])


def components(table: Floats, run_sd: float) -> Components | None:
    """From values by draw and pair; None where some run has no value."""
    count, pairs = table.shape
    if np.isnan(table).any():
        return None
    centre = table.mean(axis=0)
    by_draw = table.mean(axis=1)
    rest = table - centre - (by_draw - by_draw.mean())[:, None]
    freedom = max((count - 1) * (pairs - 1), 1)
    rest_variance = float((rest**2).sum()) / freedom
    input_variance = max(0.0, float(by_draw.var(ddof=1)) - rest_variance / pairs)
    return Components(tuple(centre.tolist()), input_variance**0.5, float(np.hypot(rest_variance**0.5, run_sd)), count)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """What the draws gave."""

    inputs: Sequence[Draw]
    values: dict[str, list[pl.DataFrame]]
    """By arm, of each draw one row a pair with all metrics."""
    stages: dict[str, list[list[dict[str, float]]]]
    """By arm, of each draw the stages of each pair."""


def seed_of(seed: int, purpose: str, number: int) -> int:
    """A seed of its own for each use."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{number}".encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little")


def ensemble(
    ev: Evidence, traces: Sequence[Path], count: int, told: Callable[[int, int], None] | None = None
) -> Ensemble:
    """Run the traces under each draw of the inputs, both arms."""
    inputs = draws(ev.assumptions, count, ev.scenario.seed)
    found = Ensemble(inputs, {name: [] for name in (ev.baseline, ev.candidate)}, {ev.baseline: [], ev.candidate: []})
    two = ev.scenario.select(arms=[ev.candidate])
    for number, draw in enumerate(inputs):
        seed = seed_of(ev.scenario.seed, "campaign/draw", number)
        cells = under(two, draw.settings, seed)
        for arm in found.values:
            done = replay(cells[arm], traces)
            found.values[arm].append(measure(without_start(done.tables, ev.scenario.warm_up_s)))
            requests = _measured.of_tables(done.tables).partition_by("pair", maintain_order=True)
            found.stages[arm].append([_measured.stages(each) for each in requests])
        if told is not None:
            told(number + 1, count)
    return found


def forecast(ev: Evidence, rule: Rule, found: Ensemble) -> dict[str, Any]:
    """The prediction of one cell, as plain data."""
    arms = (ev.baseline, ev.candidate)
    classes = {name: _classes(ev, name, rule) for name in arms}
    path, one, other = ev.change
    return {
        "arms": {name: ev.cell(name).hash for name in arms},
        "change": {"field": path, ev.baseline: one, ev.candidate: other},
        "simulated_pairs": ev.pairs,
        "seed": ev.scenario.seed,
        "real_run_noise": ev.scenario.real_run_noise,
        "warm_up_s": ev.scenario.warm_up_s,
        "assumptions": {each.name: list(each.fields) for each in drawn(ev.assumptions)},
        "drawn": [dict(each.levels) for each in found.inputs],
        "metrics": {each: _metric(ev, rule, found, each, classes) for each in _metrics(ev)},
        "placements": [
            {"class": each.name, "p_exact": each.p_exact, "ratios": each.ratio}
            for each in ev.result.placements
            if each.candidate == ev.candidate
        ],
        "classes": classes,
        "ideal_tokens": [int(each) for each in found.values[ev.baseline][0]["prefill_tokens_ideal"]],
        "stages": {name: _stages(found, name) for name in arms},
        "guardrails": {name: _guardrails(ev, name) for name in arms},
    }


def _metrics(ev: Evidence) -> list[str]:
    """Those of the review that a measured log has; the first must be one of them."""
    primary = ev.primary.metric
    if primary in _measured.NOT_MEASURED:
        raise ScenarioError(
            f"{primary}, the first metric, cannot be measured: {_measured.NOT_MEASURED[primary]}; "
            "name another first metric"
        )
    return [each.metric for each in ev.found.findings if each.metric not in _measured.NOT_MEASURED]


def _metric(ev: Evidence, rule: Rule, found: Ensemble, metric: str, classes: dict[str, Any]) -> dict[str, Any]:
    finding = next(each for each in ev.found.findings if each.metric == metric)
    run_sd = ev.scenario.real_run_noise
    tables = {name: _table(each, metric) for name, each in found.values.items()}
    one, other = tables[ev.baseline], tables[ev.candidate]
    is_ratio = bool(((one > 0) & (other > 0)).all())
    ratio = components(np.log(other / one), 2**0.5 * run_sd) if is_ratio else None
    looks = [range(rule.pairs_at(look)) for look in range(len(rule.looks))]
    return {
        "unit": METRICS[metric].unit,
        "better": METRICS[metric].better,
        "simulated": {
            "arms": {
                name: {"mean": each.mean, "lo": each.lo, "hi": each.hi, "pairs": each.n}
                for name, each in ((ev.baseline, finding.baseline), (ev.candidate, finding.candidate))
            },
            "ratio": finding.paired.ratio,
            "lo": finding.paired.lo,
            "hi": finding.paired.hi,
            "pairs": finding.paired.pairs,
        },
        "campaign": None
        if ratio is None
        else ratio.document()
        | {"looks": [_look(ratio, metric, rule, list(each), weights_of(classes, each)) for each in looks]},
        "arms": {name: _arm(metric, table, run_sd, looks, classes) for name, table in tables.items()},
    }


def _table(values: Sequence[pl.DataFrame], metric: str) -> Floats:
    return np.array([each.sort("pair")[metric].fill_null(float("nan")).to_numpy() for each in values])


def _look(ratio: Components, metric: str, rule: Rule, pairs: list[int], weights: Floats | None) -> dict[str, Any]:
    centre, lo, hi = (float(np.exp(each)) for each in ratio.interval(pairs, weights))
    better, harm = METRICS[metric].better, float(np.log(1 - rule.harm))
    below = {bound: ratio.below(bound, pairs, weights) for bound in (0.0, harm, -harm)}
    p_worse = {"higher": below[0.0], "lower": 1 - below[0.0]}.get(better)
    p_harm = {"higher": below[harm], "lower": 1 - below[-harm]}.get(better)
    return {
        "pairs": len(pairs),
        "ratio": centre,
        "lo": lo,
        "hi": hi,
        "p_better": None if p_worse is None else 1 - p_worse,
        "p_harm": p_harm,
    }


def _arm(
    metric: str, table: Floats, run_sd: float, looks: Sequence[range], classes: dict[str, Any]
) -> dict[str, Any] | None:
    found = components(table, run_sd * float(np.abs(table).mean()))
    if found is None:
        return None
    is_positive = bool((table > 0).all())
    ends = [found.own(metric, pairs, weights_of(classes, pairs), is_positive=is_positive) for pairs in looks]
    return found.document() | {
        "is_positive": is_positive,
        "looks": [
            {"pairs": len(pairs), "mean": mean, "lo": lo, "hi": hi}
            for pairs, (mean, lo, hi) in zip(looks, ends, strict=True)
        ],
    }


def _classes(ev: Evidence, arm: str, rule: Rule) -> dict[str, Any] | None:
    """The placement class of each sealed pair, where the arm has classes, and whether they were planned."""
    of_arm = ev.result.arms[arm]
    if of_arm.placed is None:
        return None
    held = dict(of_arm.placed.classes.select("pair", "class").iter_rows())
    pairs = [held.get(pair) for pair in range(rule.pairs_at(len(rule.looks) - 1))]
    return {
        "keys": of_arm.placed.keys,
        "engines": of_arm.placed.engines,
        "planned": of_arm.is_blocked,
        "pairs": pairs,
    }


def _stages(found: Ensemble, arm: str) -> dict[str, Any]:
    """How long the stages of requests take in each pair, and by what share of it they move with the inputs."""
    x = np.array([[*each.levels.values()] for each in found.inputs])
    count, inputs = x.shape
    stages: dict[str, Any] = {}
    for name in STAGES:
        table = np.array([[pair.get(name, float("nan")) for pair in draw] for draw in found.stages[arm]])
        if np.isnan(table).any():
            continue
        centre = table.mean(axis=0)
        shares = (table / centre).mean(axis=1) - 1
        slopes, freedom = np.zeros(inputs), count - 1
        if inputs and count > inputs + 1:
            centred = x - x.mean(axis=0)
            slopes, freedom = np.linalg.lstsq(centred, shares, rcond=None)[0], count - inputs - 1
            shares = shares - centred @ slopes
        sd = float((shares**2).sum() / freedom) ** 0.5
        stages[name] = {"pairs_s": centre.tolist(), "slopes": slopes.tolist(), "sd": sd}
    return stages


def _guardrails(ev: Evidence, arm: str) -> dict[str, float]:
    """Shares that the rule's guardrails look at, as simulated."""
    requests = ev.tables[arm].requests
    return {
        "failed_share": float((requests["status"] != "finished").to_numpy().mean()),
        "preempted_share": float((requests["preemptions"] > 0).to_numpy().mean()),
    }
