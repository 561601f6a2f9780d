"""Measured results against a seal: the rule's verdict, prediction against result, what to calibrate anew.

In this order, so that nothing is chosen after it was seen: the seal is verified; every results file must be of a sealed
run, with its trace and its arm's configuration; all runs of a look must be there, once; gates leave pairs out (engines
restarted, clocks that run backwards, stand still or count no seconds, turns sent before those that they follow had
ended, other work than the trace's); guardrails may stop; and only then are metrics computed and ratios formed.

ScenarioError, one line, for a broken seal, a foreign, missing or unreadable result, or an arm that was configured
otherwise or ran on another number of engines. Everything else is a verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from sim import stats
from sim.campaign import _measured, _recalibrate
from sim.campaign._forecast import Components, from_document, strata_of, weights_of
from sim.campaign._measured import Sent
from sim.campaign._recalibrate import Recalibration
from sim.campaign._replay import keys_in
from sim.campaign._results import SKEW_S, Run, read_folder
from sim.campaign._seal import Seal
from sim.errors import ScenarioError
from sim.export import fleet_size, read_manifest
from sim.metrics import METRICS
from sim.placement import class_name
from sim.report.rule import Guardrails, Ruling, Strata, alone, decide
from sim.stats import Floats, Ratio
from sim.stats.strata import pooled

SAME: Final = 1e-6
"""Relative difference below which a measured value is the predicted one: a prediction is sealed to ten digits."""
OTHER_WORK: Final = 0.01
"""Share of the tokens of a run's finished requests that may not be those of their trace; beyond it the pair is none."""
OTHER_UNIT: Final = 100.0
"""Factor between measured and predicted time of a decoded token beyond which the clock did not count seconds."""

Key = tuple[str, int, str]
"""Cell, pair, arm."""


@dataclass(frozen=True, slots=True)
class Held:
    """One metric of one cell, predicted and measured; ratios candidate / baseline."""

    metric: str
    predicted: tuple[float, float, float] | None
    """Ratio, and the ends within which the campaign was to fall; None where none was predicted."""
    measured: Ratio
    arms: Mapping[str, tuple[float | None, tuple[float, float, float] | None]]
    """By arm the measured mean, and the predicted one with its ends."""

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured ratio lies in the predicted interval."""
        if self.predicted is None or self.measured.ratio is None:
            return None
        _, lo, hi = self.predicted
        return lo * (1 - SAME) <= self.measured.ratio <= hi * (1 + SAME)

    @property
    def error(self) -> float | None:
        """Measured over predicted ratio, less 1."""
        if self.predicted is None or self.measured.ratio is None:
            return None
        return self.measured.ratio / self.predicted[0] - 1

    @property
    def is_separable(self) -> bool:
        """Prediction and result both leave out a ratio of 1, so that an order can be right or wrong."""
        if self.predicted is None or self.measured.lo is None or self.measured.hi is None:
            return False
        ends = (self.predicted[1:], (self.measured.lo, self.measured.hi))
        return all(lo > 1 + SAME or hi < 1 - SAME for lo, hi in ends)

    @property
    def order_is_right(self) -> bool | None:
        """Whether the arm predicted to have more has more; None where it cannot be told."""
        if not self.is_separable or self.predicted is None or self.measured.ratio is None:
            return None
        return (self.predicted[0] > 1) == (self.measured.ratio > 1)


@dataclass(frozen=True, slots=True)
class CellScore:
    """One cell after its campaign."""

    cell: str
    pairs: list[int]
    """Pairs that count."""
    held: list[Held]
    by_pair: list[tuple[int, float, float]]
    """Pair, predicted and measured ratio of the primary metric."""
    recalibrate: list[Recalibration]


@dataclass(frozen=True, slots=True)
class Score:
    """A campaign held against its seal."""

    seal: Seal
    look: int
    ruling: Ruling
    excluded: list[tuple[str, int, str]]
    """Cell, pair and reason."""
    cells: list[CellScore]
    guardrails: Mapping[str, Mapping[str, float | None]]
    """By arm, the shares that guardrails look at."""
    notes: list[str] = field(default_factory=list)

    @property
    def coverage(self) -> tuple[int, int]:
        """Predicted intervals that hold the measured ratio, and how many there are."""
        known = [each.is_inside for cell in self.cells for each in cell.held if each.is_inside is not None]
        return sum(known), len(known)

    @property
    def absolutes(self) -> tuple[int, int]:
        """The same of the arms' own values."""
        known = [pair for cell in self.cells for each in cell.held for pair in each.arms.values() if None not in pair]
        return sum(not is_outside(*pair) for pair in known), len(known)

    @property
    def orders(self) -> tuple[int, int]:
        """Orders of arms that are right, and how many can be told."""
        known = [each.order_is_right for cell in self.cells for each in cell.held if each.order_is_right is not None]
        return sum(known), len(known)

    def primary(self, cell: str) -> Held:
        """The metric that decides, in one cell."""
        found = next(each for each in self.cells if each.cell == cell)
        return next(each for each in found.held if each.metric == self.seal.rule.primary)


def is_outside(measured: float | None, predicted: tuple[float, float, float] | None) -> bool:
    """Whether a measured value lies outside its predicted ends, by more than rounding."""
    if measured is None or predicted is None:
        return False
    _, lo, hi = predicted
    slack = SAME * max(abs(lo), abs(hi))
    return not lo - slack <= measured <= hi + slack


def score(seal: Seal, folder: Path) -> Score:
    """Score the results below a folder, or in a file, against a verified seal."""
    runs = _known(seal, read_folder(folder, {(seal.folder / name).resolve() for name in seal.files}))
    look = _look(seal, runs)
    sent = {(cell, pair): _sent(seal, cell, pair) for cell, pair, _ in runs}
    for (cell, pair, _), run in runs.items():
        _measured.same_requests(run, sent[cell, pair])
    excluded = _gates(seal, runs, sent)
    left = {key: run for key, run in runs.items() if key[:2] not in {each[:2] for each in excluded}}
    rails = {arm: _shares([run for key, run in left.items() if key[2] == arm]) for arm in _arms(seal)}
    stops = [each for arm, found in rails.items() for each in _passed(seal.rule.guardrails, arm, found)]
    stops += _left_out(seal.rule.guardrails, len(excluded), len({key[:2] for key in runs}))
    notes = [*_notes(seal, runs, sent)]
    cells = []
    primary: dict[str, Strata] = {}
    tail: dict[str, Strata] = {}
    for cell in seal.rule.cells:
        mine = {key[1:]: run for key, run in left.items() if key[0] == cell}
        if not mine:
            raise ScenarioError(
                f"cell {cell}: the gates leave no pair; the first was left out because {excluded[0][2]}"
            )
        found, logs = _cell(seal, cell, mine, {pair: sent[cell, pair] for pair, _ in mine}, is_stopped=bool(stops))
        cells.append(found)
        if seal.rule.primary in logs:
            primary[cell] = logs[seal.rule.primary]
        if seal.rule.tail in logs:
            tail[cell] = logs[seal.rule.tail]
    return Score(seal, look, decide(seal.rule, look, primary, tail, stops), excluded, cells, rails, notes)


def _arms(seal: Seal) -> tuple[str, str]:
    return seal.prediction["baseline"], seal.prediction["candidate"]


def _known(seal: Seal, found: Sequence[Run]) -> dict[Key, Run]:
    """Runs by what they are of; each must be one that was sealed, with its trace and configuration, and come once."""
    sealed = {(run["cell"], run["pair"], run["arm"]): run for run in seal.runs}
    sizes = _fleets(seal)
    runs: dict[Key, Run] = {}
    for run in found:
        header, key = run.header, (run.header.cell, run.header.pair, run.header.arm)
        if header.seal != seal.digest:
            raise ScenarioError(f"{run.path}: is of another campaign: its seal is {header.seal[:16] or 'empty'}")
        if key not in sealed:
            raise ScenarioError(
                f"{run.path}: cell {header.cell}, pair {header.pair}, arm {header.arm} is no run of this seal"
            )
        if header.trace_sha256 not in sealed[key]["traces"].values():
            raise ScenarioError(f"{run.path}: was run on another trace than the one sealed for pair {header.pair}")
        if header.config_sha256 != sealed[key]["config_sha256"]:
            raise ScenarioError(
                f"{run.path}: arm {header.arm} was configured otherwise than sealed: the campaign stops"
            )
        if header.engines != (size := sizes[header.cell, header.arm]):
            raise ScenarioError(
                f"{run.path}: was run on {header.engines} engines, the sealed fleet of arm {header.arm} has {size}"
            )
        if key in runs:
            raise ScenarioError(f"{run.path}: the same run as {runs[key].path}: keep the one that counts, by the rule")
        runs[key] = run
    return runs


def _fleets(seal: Seal) -> dict[tuple[str, str], int]:
    """Engines of each cell's arms, as they are started."""
    manifests = {cell: read_manifest(seal.folder / each["folder"]) for cell, each in seal.prediction["cells"].items()}
    return {(cell, arm["name"]): fleet_size(arm) for cell, manifest in manifests.items() for arm in manifest["arms"]}


def _look(seal: Seal, runs: Mapping[Key, Run]) -> int:
    """The look that these runs make; none of its runs may be missing."""
    looks = {(run["cell"], run["pair"], run["arm"]): run["look"] for run in seal.runs}
    look = max(looks[key] for key in runs)
    missing = [key for key, at in looks.items() if at <= look and key not in runs]
    if missing:
        cell, pair, arm = missing[0]
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ScenarioError(f"no results of cell {cell}, pair {pair}, arm {arm}{more}: all runs of a look are scored")
    return int(look)


def _trace(seal: Seal, cell: str, pair: int) -> Path:
    return seal.folder / str(seal.prediction["cells"][cell]["folder"]) / f"windtunnel-{pair}.jsonl"


def _sent(seal: Seal, cell: str, pair: int) -> Sent:
    return _measured.sent(_trace(seal, cell, pair), seal.prediction["cells"][cell]["ideal_tokens"][pair])


def _gates(seal: Seal, runs: Mapping[Key, Run], sent: Mapping[tuple[str, int], Sent]) -> list[tuple[str, int, str]]:
    """Pairs that are left out, by what is known before any ratio is."""
    reasons: dict[tuple[str, int], list[str]] = {}
    for (cell, pair, arm), run in runs.items():
        if run.header.engine_restarts:
            reasons.setdefault((cell, pair), []).append(f"{arm}: {run.header.engine_restarts} engine restarts")
        if skewed := run.out_of_order:
            said = f"{arm}: clock skew, the times of {skewed} requests run backwards"
            reasons.setdefault((cell, pair), []).append(said)
        if run.lasts_s is not None and run.lasts_s <= SKEW_S:
            reasons.setdefault((cell, pair), []).append(f"{arm}: its clock stands still, the whole run took no time")
        if said := _other_unit(seal, run):
            reasons.setdefault((cell, pair), []).append(f"{arm}: {said}")
        if early := _measured.too_early(run, sent[cell, pair]):
            said = f"{arm}: {early} requests were sent before the one that they follow had ended"
            reasons.setdefault((cell, pair), []).append(said)
        if (off := _other_work(run, sent[cell, pair])) > OTHER_WORK:
            reasons.setdefault((cell, pair), []).append(
                f"{arm}: other work, {off:.0%} of its tokens are not the trace's"
            )
    return [(cell, pair, "; ".join(each)) for (cell, pair), each in sorted(reasons.items())]


def _other_unit(seal: Seal, run: Run) -> str:
    """What is said of a run whose times are milliseconds, or another unit than seconds; empty where they are not."""
    stage, header = "decode_fast_s", run.header
    predicted = seal.prediction["cells"][header.cell]["stages"][header.arm].get(stage)
    took = _measured.stages(run.requests).get(stage)
    if predicted is None or took is None:
        return ""
    wanted = predicted["pairs_s"][header.pair]
    if 1 / OTHER_UNIT < took / wanted < OTHER_UNIT:
        return ""
    return f"its clock counts no seconds, a decoded token takes {took:.3g} s and {wanted:.3g} s are predicted"


def _other_work(run: Run, known: Sent) -> float:
    """By how much the tokens of finished requests are not those of their trace, as a share of these."""
    both = run.requests.filter(pl.col("status") == "finished").join(known.requests, on="rid")
    wanted = int((both["prompt_tokens"] + both["output_len"]).sum())
    off = (both["output_tokens"] - both["output_len"]).abs() + (both["input_tokens"] - both["prompt_tokens"]).abs()
    return int(off.sum()) / wanted if wanted else 0.0


def _shares(runs: Sequence[Run]) -> dict[str, float | None]:
    """What guardrails look at, over an arm's runs; None where it was not measured."""
    if not runs:
        return {}
    requests = pl.concat([run.requests for run in runs])
    preempted = requests["preempted"]
    checks = [each for run in runs for each in (run.header.cold_hit_rate, _first_hits(run)) if each is not None]
    return {
        "failed_share": float((requests["status"] != "finished").to_numpy().mean()),
        "preempted_share": None if preempted.null_count() else float((preempted > 0).to_numpy().mean()),
        "cold_hit_rate": max(checks, default=None),
    }


def _first_hits(run: Run) -> float | None:
    """Hit rate of the first requests that each engine admits: a cold cache has none."""
    known = run.requests.drop_nulls(["engine", "prefill_s", "cached"]).sort("prefill_s", "cached")
    first = known.group_by("engine", maintain_order=True).first()
    asked = int(first["input_tokens"].sum())
    return int(first["cached"].sum()) / asked if asked else None


def _passed(guard: Guardrails, arm: str, found: Mapping[str, float | None]) -> list[str]:
    says = {"failed_share": "failures", "preempted_share": "preempted requests", "cold_hit_rate": "cold-cache hit rate"}
    return [
        f"{arm}: {what} {value:.1%}, the guardrail is {getattr(guard, name):.0%}"
        for name, what in says.items()
        if (value := found.get(name)) is not None and value > getattr(guard, name)
    ]


def _left_out(guard: Guardrails, excluded: int, pairs: int) -> list[str]:
    """Whether so many pairs were left out that those that are left may be a choice."""
    if excluded <= guard.excluded_share * pairs:
        return []
    return [f"{excluded} of {pairs} pairs left out by gates, the guardrail is {guard.excluded_share:.0%}"]


def _notes(seal: Seal, runs: Mapping[Key, Run], sent: Mapping[tuple[str, int], Sent]) -> list[str]:
    places = {(run["cell"], run["pair"], run["arm"]): run["position"] for run in seal.runs}
    moved = [key for key, run in runs.items() if run.header.position != places[key]]
    notes = []
    if moved:
        notes.append(f"{len(moved)} runs were not run in the sealed order, first pair {moved[0][1]} of {moved[0][0]}")
    other = 0
    for (cell, pair, _), run in runs.items():
        both = run.requests.join(sent[cell, pair].requests, on="rid")
        wrong = both.filter(pl.col("status") == "finished").select(
            (pl.col("output_tokens") != pl.col("output_len")) | (pl.col("input_tokens") != pl.col("prompt_tokens"))
        )
        other += int(wrong.to_series().sum())
    if other:
        notes.append(f"{other} finished requests have other lengths than their trace: force them in both arms")
    if any(run.header.cold_hit_rate is None for run in runs.values()):
        notes.append("no check of cold caches in the header of some runs: only the first request of each engine shows")
    return notes


def _cell(
    seal: Seal, cell: str, runs: Mapping[tuple[int, str], Run], sent: Mapping[int, Sent], *, is_stopped: bool
) -> tuple[CellScore, dict[str, Strata]]:
    predicted = seal.prediction["cells"][cell]
    arms = _arms(seal)
    pairs = sorted({pair for pair, _ in runs})
    values = {
        arm: _measured.measured([(runs[pair, arm], sent[pair]) for pair in pairs], predicted["warm_up_s"])
        for arm in arms
    }
    moved = {arm: _moved(seal, cell, arm, {pair: runs[pair, arm] for pair in pairs}) for arm in arms}
    held, logs = [], {}
    for metric, says in predicted["metrics"].items():
        if all(metric in each.columns for each in values.values()):
            one, strata = _held(metric, says, predicted["classes"], pairs, values)
            held.append(one)
            if strata is not None:
                logs[metric] = strata
    primary = seal.rule.primary
    if primary not in logs and is_stopped:
        return CellScore(cell, pairs, held, [], []), logs
    if primary not in logs:
        raise ScenarioError(f"cell {cell}: {primary} has no ratio in the results: {_reason(held, primary)}")
    says = predicted["metrics"][primary]
    by_pair = _by_pair(says, pairs, values, primary, arms)
    found = CellScore(cell, pairs, held, by_pair, [])
    again = [*_again(seal, cell, found, runs, values, moved)]
    return replace(found, recalibrate=again), logs


def _reason(held: Sequence[Held], metric: str) -> str:
    return next((each.measured.reason for each in held if each.metric == metric), "it was not measured")


def _held(
    metric: str,
    says: Mapping[str, Any],
    classes: Mapping[str, Any],
    pairs: Sequence[int],
    values: Mapping[str, pl.DataFrame],
) -> tuple[Held, Strata | None]:
    arms = list(values)
    columns = [values[arm].sort("pair")[metric].fill_null(float("nan")).to_numpy() for arm in arms]
    columns = [np.where(np.isfinite(each), each, np.nan) for each in columns]  # a rate over no time is no value
    weights = weights_of(classes, pairs)
    measured = stats.compare(columns[0], columns[1], METRICS[metric].better)
    strata = _strata(columns, classes, pairs) if measured.ratio is not None and measured.pairs == len(pairs) else None
    if strata is not None and weights is not None:
        over = pooled(*strata)
        measured = replace(measured, ratio=over.ratio, lo=over.lo, hi=over.hi, boot_lo=None, boot_hi=None, p=over.p)
    ratio = None if says["campaign"] is None else from_document(says["campaign"])
    predicted = None if ratio is None else _ratio(ratio, pairs, weights)
    by_arm = {}
    for arm, column in zip(arms, columns, strict=True):
        own = says["arms"][arm]
        mean = None if np.isnan(column).any() else float(column @ (weights if weights is not None else _even(pairs)))
        by_arm[arm] = (mean, None if own is None else _own(metric, own, pairs, weights))
    return Held(metric, predicted, measured, by_arm), strata


def _even(pairs: Sequence[int]) -> Floats:
    return np.full(len(pairs), 1 / len(pairs))


def _ratio(found: Components, pairs: Sequence[int], weights: Floats | None) -> tuple[float, float, float]:
    centre, lo, hi = found.interval(pairs, weights)
    return float(np.exp(centre)), float(np.exp(lo)), float(np.exp(hi))


def _own(
    metric: str, says: Mapping[str, Any], pairs: Sequence[int], weights: Floats | None
) -> tuple[float, float, float]:
    return from_document(says).own(metric, pairs, weights, is_positive=says["is_positive"])


def _strata(columns: Sequence[Floats], classes: Mapping[str, Any], pairs: Sequence[int]) -> Strata:
    logs = np.log(columns[1] / columns[0])
    parts = strata_of(classes, pairs)
    if parts is None:
        return alone(logs)
    at = {pair: index for index, pair in enumerate(pairs)}
    return [logs[[at[pair] for pair in held]] for held, _ in parts], [share for _, share in parts]


def _by_pair(
    says: Mapping[str, Any], pairs: Sequence[int], values: Mapping[str, pl.DataFrame], metric: str, arms: Sequence[str]
) -> list[tuple[int, float, float]]:
    if says["campaign"] is None:
        return []
    one, other = (values[arm].sort("pair")[metric].to_numpy() for arm in arms)
    centre = says["campaign"]["pairs"]
    return [(pair, float(np.exp(centre[pair])), float(b / a)) for pair, a, b in zip(pairs, one, other, strict=True)]


def _moved(seal: Seal, cell: str, arm: str, runs: Mapping[int, Run]) -> list[int]:
    """Pairs whose keys fell into another placement class than was sealed."""
    classes = seal.prediction["cells"][cell]["classes"][arm]
    if classes is None:
        return []
    moved = []
    for pair, run in runs.items():
        sealed, found = classes["pairs"][pair], _class_of(run, _trace(seal, cell, pair), arm)
        if sealed is not None and found is not None and found != sealed:
            moved.append(pair)
    return moved


def _class_of(run: Run, trace: Path, arm: str) -> str | None:
    """Keys by engine, by where the first request of each key went."""
    keys = keys_in(trace, arm)
    if not keys:
        return None
    sent = _measured.sent(trace, 0).requests.select("rid", "session")
    known = run.requests.drop_nulls("engine").join(sent, on="rid").sort("arrive_s", "rid")
    place: dict[str, str] = {}
    for session, engine in known.select("session", "engine").iter_rows():
        place.setdefault(keys[session], engine)
    counts: dict[str, int] = {}
    for engine in place.values():
        counts[engine] = counts.get(engine, 0) + 1
    return class_name([*counts.values(), *[0] * (run.header.engines - len(counts))])


def _again(
    seal: Seal,
    cell: str,
    found: CellScore,
    runs: Mapping[tuple[int, str], Run],
    values: Mapping[str, pl.DataFrame],
    moved: Mapping[str, list[int]],
) -> list[Recalibration]:
    """What to calibrate anew, by evidence; the model's form where nothing else explains a miss."""
    predicted = seal.prediction["cells"][cell]
    took = {
        arm: {pair: _measured.stages(run.requests) for (pair, of), run in runs.items() if of == arm} for arm in values
    }
    says = predicted["metrics"][seal.rule.primary]["campaign"]
    sd = says["pair_sd"] if says is not None else 0.0
    scatter = _recalibrate.excess(np.array([np.log(measured / centre) for _, centre, measured in found.by_pair]), sd)
    run_sd = max(predicted["real_run_noise"], (scatter or 0.0) / 2**0.5) / len(found.pairs) ** 0.5
    again: list[Recalibration] = []
    for arm in values:
        known = {each.metric: each.arms[arm] for each in found.held}
        again += _recalibrate.of_values(
            arm,
            {name: value for name, (value, _) in known.items()},
            {name: ends for name, (_, ends) in known.items() if ends is not None},
        )
        again += _recalibrate.of_placement(arm, moved[arm], len(found.pairs))
    if not again:
        stages = _recalibrate.stages(predicted["stages"], took)
        again += _recalibrate.of_stages(stages, predicted["drawn"], run_sd)
    if scatter is not None and not again:  # another cost, or other work, moves the pairs too
        again.append(_recalibrate.of_spread(scatter, sd, seal.rule.primary, len(found.pairs)))
    missed = [each.metric for each in found.held if each.is_inside is False]
    if seal.rule.primary in missed and not again:
        again.append(
            Recalibration(
                "model form",
                f"{seal.rule.primary} fell outside its interval, and stages, hit rates, placement and noise are as "
                "predicted: look at what is not modelled",
            )
        )
    return again
