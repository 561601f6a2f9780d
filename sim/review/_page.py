"""Page one: the ten things that a reader looks for in the first minute, a line of one or two plain sentences each.

Recommendation; effect with its interval; chance of a regression and its trigger; runs and GPU-hours; decision rule;
what is held equal; calibration error and region; the assumption that turns the answer; null control; a command to
reproduce it all.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sim.metrics import METRICS
from sim.report.contrast import log_ratios
from sim.report.numbers import counted, number
from sim.review._ablations import Ablation
from sim.review._assumptions import profile_of, step_errors
from sim.review._gather import MOST_UNSERVED, OF_ALL, Evidence, served, unequal_work
from sim.review._judge import Findings, judge
from sim.review._model import Judgement, Line, Review
from sim.review._risks import conditions
from sim.review._warnings import warnings
from sim.review.parts import parts
from sim.review.parts._widths import widths
from sim.review.parts._words import changed, words
from sim.review.parts.calibration import resembling
from sim.review.parts.predictions import odds_said
from sim.review.parts.question import asked
from sim.review.parts.real_runs import cost_said
from sim.review.parts.risk import is_worse, worst_pairs
from sim.review.parts.rule import planned_pairs, rule_said
from sim.review.parts.sensitivity import flips_said, sizes_said
from sim.review.parts.why import concluded, main_mechanism, moved_most
from sim.validation import agreement


def review_of(ev: Evidence, command: str) -> Review:
    """The whole review of some evidence; ``command`` is what made it."""
    judgement = judge(findings(ev), planned_pairs(ev))
    title = f"{ev.scenario.name}: {ev.candidate} against {ev.baseline}"
    page = [replace(line, says=_evenly(line.says)) for line in _page(ev, judgement, command)]
    return Review(title, judgement, page, parts(ev, command), list(warnings(ev)))


def _evenly(says: str) -> str:
    """Percent signs written alike, whoever wrote the number."""
    return re.sub(r"(?<=\d) %", "%", says)


def findings(ev: Evidence) -> Findings:
    """What the recommendation depends on."""
    arms = [ev.result.arms[name] for name in (ev.baseline, ev.candidate)]
    worst = min(ev.coverage.values(), key=lambda each: each.inside_share)
    return Findings(
        metric=ev.primary.metric,
        lower_is_better=METRICS[ev.primary.metric].better == "lower",
        paired=ev.primary.paired,
        interest=ev.lines.interest,
        decides_alike=arms[0].decisions == arms[1].decisions,
        failed_checks=[f"{each.name}: {each.says}" for each in ev.checks if each.held is False],
        failures=ev.result.failures,
        inside_share=worst.inside_share,
        unequal_work=_unequal(ev),
        with_model=widths(ev)[2].says.partition(" (")[0],
        outside_by=max(worst.outside, key=lambda name: worst.outside[name], default="–"),
    )


def _unequal(ev: Evidence) -> str:
    """How many requests each arm finished, where that forbids a recommendation."""
    if ev.primary.metric in OF_ALL:
        return ""
    one, other = (served(ev.tables[name]).share for name in (ev.baseline, ev.candidate))
    return unequal_work(ev) if abs(one - other) > MOST_UNSERVED else ""


def _page(ev: Evidence, judgement: Judgement, command: str) -> Iterator[Line]:
    because = "; ".join(judgement.because)
    yield Line("question", _question(ev), "1.1")
    yield Line("recommendation", judgement.headline + (f", because {because}" if because else ""))
    yield Line("predicted effect", _effect(ev), "7.1")
    yield Line("uncertainty of the ratio", _uncertainty(ev), "7.2")
    sizes = "" if ev.sensitivity is None else sizes_said(ev, ev.sensitivity)
    yield Line(
        "chance of a regression",
        f"{_regression(ev)}{f' {sizes}' if sizes else ''}",
        "7.1, 10.1" + (", 9.3" if sizes else ""),
    )
    path, one, other = ev.change
    yield Line(
        "held equal",
        f"Everything but {path}: {changed(path, one, other, ev)}. "
        "Both arms of a pair get the same requests, lengths, delays and arrivals.",
        "2.1, 2.3",
    )
    tables = [f"8.{4 + at}" for at, each in _concluding(ev) if not each.lost]
    yield Line("why", _why(ev), ", ".join(["8.2", *tables]))
    yield Line("assumption that flips it", *_flips(ev))
    yield Line("real runs and their cost", cost_said(ev), "11.1, 11.4, 11.5" if ev.plan else "")
    yield Line("decision rule", rule_said(ev), "1.1")
    yield Line("calibration", _calibration(ev), "6.1, 6.2, 6.3")
    yield Line("null control", _controls(ev), "5.1")
    yield Line("reproduce", command, "16.1")


def _question(ev: Evidence) -> str:
    metric = METRICS[ev.primary.metric]
    found = asked(ev)
    first = f"{found} " if found else ""
    better = "" if metric.better == "none" else f"; {metric.better} is better"
    return (
        f"{first}Proposed is arm {ev.candidate}, compared with arm {ev.baseline} on {ev.cell(ev.baseline).engines} "
        f"engines; {metric.name} decides{better}."
    )


def _effect(ev: Evidence) -> str:
    lost = unequal_work(ev) if ev.primary.metric not in OF_ALL else ""
    return f"Not comparable: {lost}. {_means(ev)}" if lost else _means(ev)


def _means(ev: Evidence) -> str:
    metric, paired = ev.primary.metric, ev.primary.paired
    means = f"{_number(ev.primary.candidate.mean)} against {_number(ev.primary.baseline.mean)}{_unit(ev)}"
    if paired.ratio is None:
        return f"There is no ratio of {metric}; the means are {means}, simulated, {counted(ev.pairs, 'pair')}."
    between = "" if paired.lo is None else f" [{paired.lo:.3f}, {paired.hi:.3f}]"
    one, other = ev.primary.baseline.mean, ev.primary.candidate.mean
    own = f" (which are as 1 to {other / one:.3f})" if one and other is not None else ""
    return (
        f"{metric} of {ev.candidate} is {paired.ratio:.3f}{between} times that of {ev.baseline}: the geometric mean "
        f"over {counted(ev.pairs, 'simulated pair')}, each the same requests through both arms. "
        f"The means are {means}{own}."
    )


def _uncertainty(ev: Evidence) -> str:
    """Three widths by themselves; the last is the one that no simulation narrows."""
    paired = ev.primary.paired
    chance = "no interval" if paired.lo is None else f"{paired.lo:.3f} to {paired.hi:.3f}"
    _, inputs, form = widths(ev)
    return (
        f"By chance alone (95 %): {chance}. By uncertain inputs, all drawn together (95 %): {inputs.says}. "
        f"By model form, which is what is not modelled: {form.says}."
    )


def _regression(ev: Evidence) -> str:
    """How often, and by what."""
    said = odds_said(ev)
    return f"If the model is right, {said} {_trigger(ev)}" if said else "No pair has a ratio."


def _trigger(ev: Evidence) -> str:
    """What brings the losses: conditions of part 10 that are worse in enough pairs, some of them beyond harm."""
    found = conditions(ev)
    worse = [each for each in found if each.is_worse and each.harmed]
    if bad := [each for each in worse if each.placement]:
        likely = sum(each.frequency for each in bad)
        names = words([f"{each.placement} (ratio {each.ratio:.3f})" for each in bad])
        return (
            f"Trigger: the hash puts the keys on the engines as {names}, which it does in {likely:.1%} of all cases; "
            f"of the pairs that lose, {_harmed_in(ev, [each.placement for each in bad if each.placement])} are of that "
            "kind."
        )
    if few := [each.placement for each in found if each.placement and each.harmed and each.ratio is None]:
        fell = _harmed_in(ev, few)
        return f"Of the pairs that lose {fell} fell {words(few)}: too few to tell a trigger from chance."
    if worse:
        first = worse[0]
        return f"Trigger: {first.says} (ratio {first.ratio:.3f}), which holds in {first.frequency:.1%} of the pairs."
    if any(each.placement for each in found) and not any(each.is_worse for each in found if each.placement):
        return "In no way in which the hash put the keys on the engines it is worse on average."
    if always := [each for each in found if each.is_always and each.ratio is not None and is_worse(ev, each.ratio)]:
        first = always[0]
        return f"No condition tells pairs that lose from others ({first.says}: in {first.frequency:.1%} of them all)."
    worst = worst_pairs(ev)
    if not worst:
        return ""
    (pair, ratio), *_ = worst
    if is_worse(ev, float(ratio)):
        return f"The worst pair is number {pair}, with ratio {ratio}; no trigger is known beside chance."
    return f"No pair is worse; the least gain is in pair {pair}, with ratio {ratio}."


def _harmed_in(ev: Evidence, classes: Sequence[str]) -> int:
    """Pairs beyond the harm line that fell in these placement classes."""
    placed = ev.result.arms[ev.candidate].placed
    assert placed is not None
    logs = log_ratios(ev.found.baseline, ev.found.candidate, ev.primary.metric).join(placed.classes, on="pair")
    turned = [
        -each if ev.is_lower_better else each for each in logs.filter(logs["class"].is_in([*classes]))["log_ratio"]
    ]
    return sum(each < math.log(1 - ev.lines.harm) for each in turned)


def _calibration(ev: Evidence) -> str:
    profiles = {p.name: p for kind in ev.cell(ev.baseline).fleet if (p := profile_of(kind, ev.cell(ev.baseline)))}
    said = []
    for name, profile in profiles.items():
        if profile.status == "constant":
            said.append(f"step times of profile {name} are given by the scenario (constant), not measured")
            continue
        off = ", ".join(f"{mean:.1%} in {phase}" for phase, mean in step_errors(profile).items()) or "not stated"
        said.append(f"step times of profile {name} are {profile.status}, their mean error on unseen steps is {off}")
    inside = min(each.inside_share for each in ev.coverage.values())
    steps = words(said) or "step times come from no profile: they are not measured"
    region = f"{inside:.1%} of the simulated busy time is inside the region in which steps (not routing) were measured"
    return f"{steps[0].upper()}{steps[1:]}. {region}. {_record(ev)}"


def _record(ev: Evidence) -> str:
    """How published ratios of arms came out, of cases like this one where there are some."""
    near = [row for case, _ in resembling(ev) for row in case.ratios]
    found = agreement(near or ev.record.ratios)
    if found is None:
        return "No published ratio of arms is on record."
    every = len(ev.record.ratios)
    of = (
        f"in cases like this one, {len(near)} of {every} on record"
        if near
        else "on record, none of a case like this one"
    )
    order = f"{found.ordered} of {found.ratios} came out in the published order, half of them within {found.median:.0%}"
    return f"Of the published ratios of arms ({of}), {order}."


def _controls(ev: Evidence) -> str:
    held = [each for each in ev.checks if each.held is not None]
    passed = sum(each.held is True for each in held)
    controls = [each for each in ev.checks if each.name == "null control"]
    names = [_bracketed(each.says) for each in controls if each.held]
    failed = [_bracketed(each.says) for each in controls if each.held is False]
    left = len(controls) - len(names) - len(failed)
    said = [f"FAILED: {words(failed)}."] if failed else []
    said += [f"Passed: {words(names)}."] if names else []
    said += [f"{left} not run, as they do not apply."] if left else []
    return f"{' '.join(said)} {passed} of {len(held)} checks of these runs hold."


def _why(ev: Evidence) -> str:
    """The mechanisms that moved most, and what is left of them without the one that is held to be the cause."""
    if ev.ablation is None:
        why = f" ({ev.ablations.notes[0]})" if ev.ablations.notes else ""
        said = f"Nothing switches off {main_mechanism(ev).line} alone{why}, so that it is the cause is not proven."
    else:
        said = " ".join(concluded(ev, each) for _, each in _concluding(ev))
    lost = unequal_work(ev)
    first = (
        f"The arms did not do the same work: {lost}; engine time that is less may be work not done. " if lost else ""
    )
    return (
        f"{first}Engine time moves most in these, as shares of all that {ev.baseline} takes: {moved_most(ev)}. {said}"
    )


def _concluding(ev: Evidence) -> list[tuple[int, Ablation]]:
    """The first ablation, and those that show the cause where it does not, each with its place among all."""
    made = ev.ablations.made
    return [(at, each) for at, each in enumerate(made) if not at or (each.is_cause and not made[0].is_cause)]


def _flips(ev: Evidence) -> tuple[str, str]:
    """Of the sensitivity analysis, and the table that it is read from."""
    found = ev.sensitivity
    said = f"{ev.no_sensitivity[:1].upper()}{ev.no_sensitivity[1:]}." if found is None else flips_said(ev, found)
    return said, "4.1" if found is None else "9.1"


def _bracketed(says: str) -> str:
    """A control and what it says: name (what must hold)."""
    name, _, rest = says.partition(": ")
    return f"{name} ({rest})" if rest else name


def _unit(ev: Evidence) -> str:
    unit = METRICS[ev.primary.metric].unit
    return "" if unit in ("1", "") else f" {unit}"


def _number(value: float | None) -> str:
    return "none" if value is None else number(value)
