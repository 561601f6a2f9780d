"""Page one: the ten things that a reader looks for in the first minute, a line of one or two plain sentences each.

Recommendation; effect with its interval; chance of a regression and its trigger; runs and GPU-hours; decision rule;
what is held equal; calibration error and region; the assumption that turns the answer; null control; a command to
reproduce it all.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sim.metrics import METRICS
from sim.report.numbers import counted, mean_text, number
from sim.report.rule import percent
from sim.review._ablations import Ablation
from sim.review._assumptions import profile_of, step_errors
from sim.review._gather import MOST_UNSERVED, OF_ALL, Evidence, served, unequal_work
from sim.review._judge import Findings, Standing, answer, judge, oriented, signed, standing
from sim.review._model import Line, Review
from sim.review._regression import chance, trigger
from sim.review._warnings import warnings
from sim.review.parts import parts
from sim.review.parts._widths import widths
from sim.review.parts._words import changed, words
from sim.review.parts.calibration import recorded
from sim.review.parts.question import asked
from sim.review.parts.real_runs import cost_said, plan_said
from sim.review.parts.rule import rule_said
from sim.review.parts.sensitivity import flips_said, sizes_said
from sim.review.parts.why import concluded, main_mechanism, moved_most
from sim.validation import agreement

MOST_WORSE = 2
"""Metrics of which page one says that they get worse; table 7.1 has them all."""


def review_of(ev: Evidence, command: str) -> Review:
    """The whole review of some evidence; ``command`` is what made it."""
    judgement = judge(findings(ev))
    title = f"{ev.scenario.name}: {ev.candidate} against {ev.baseline}"
    page = [replace(line, says=_evenly(line.says)) for line in _page(ev, command)]
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
        lower_is_better=ev.is_lower_better,
        paired=ev.primary.paired,
        interest=ev.lines.interest,
        decides_alike=arms[0].decisions == arms[1].decisions,
        failed_checks=[f"{each.name}: {each.says}" for each in ev.checks if each.held is False],
        failures=ev.result.failures,
        inside_share=worst.inside_share,
        unequal_work=_unequal(ev),
        outside_by=max(worst.outside, key=lambda name: worst.outside[name], default="–"),
        candidate=ev.candidate,
        plan=plan_said(ev),
        sure=_sure(ev),
    )


def _unequal(ev: Evidence) -> str:
    """How many requests each arm finished, where that forbids a recommendation."""
    if ev.primary.metric in OF_ALL:
        return ""
    one, other = (served(ev.tables[name]).share for name in (ev.baseline, ev.candidate))
    return unequal_work(ev) if abs(one - other) > MOST_UNSERVED else ""


def _page(ev: Evidence, command: str) -> Iterator[Line]:
    path, one, other = ev.change
    yield Line("question", _question(ev), "1.1")
    yield Line("predicted effect", _effect(ev), "7.1")
    yield Line("uncertainty of the ratio", _uncertainty(ev), "7.2")
    yield Line("chance of a regression", chance(ev), "7.1, 7.2, 6.3")
    yield Line("what triggers it", trigger(ev), "10.1")
    yield Line("assumption that flips it", *_flips(ev))
    tables = [f"8.{4 + at}" for at, each in _concluding(ev) if not each.lost]
    yield Line("why", _why(ev), ", ".join(["8.2", *tables]))
    yield Line(
        "held equal",
        f"Only {path} differs: {changed(path, one, other, ev)}. Both arms of a pair get the same requests, lengths, "
        f"delays and arrivals{_between(ev)}.",
        "2.1, 2.3",
    )
    yield Line("real runs and their cost", cost_said(ev), "11.1, 11.4, 11.5" if ev.plan else "")
    yield Line("decision rule", rule_said(ev), "1.1")
    yield Line("calibration", _calibration(ev), "6.1, 6.2, 6.3")
    yield Line("null control", _controls(ev), "5.1")
    yield Line("reproduce", command, "16.1")


def _question(ev: Evidence) -> str:
    """What is asked, of which fleet, and by what it is decided."""
    metric, cell = METRICS[ev.primary.metric], ev.cell(ev.baseline)
    found = asked(ev)
    better = "" if metric.better == "none" else f", {metric.better} is better"
    kinds = {f"{kind.engine.model} on {kind.engine.device}" for kind in cell.fleet if kind.engine.model}
    of = f" ({words(sorted(kinds))})" if kinds else ""
    requests = ev.tables[ev.baseline].requests.height / max(ev.pairs, 1)
    return (
        f"{found}{' ' if found else ''}Proposed is arm {ev.candidate}, in place of arm {ev.baseline}, on "
        f"{counted(cell.engines, 'engine')}{of} with {requests:,.0f} requests per run. {metric.name} decides{better}."
    )


def _effect(ev: Evidence) -> str:
    lost = unequal_work(ev) if ev.primary.metric not in OF_ALL else ""
    return f"Not comparable: {lost}. {_means(ev)}" if lost else f"{_means(ev)}{_worse(ev)}"


def _between(ev: Evidence) -> str:
    """What is drawn anew from pair to pair: a recording, or a fixed job, speaks for itself alone."""
    if ev.pairs < 2:
        return ""
    asked_for = ev.tables[ev.baseline].requests.select("pair", "session", "turn", "prompt_tokens", "output_tokens")
    first, second = (asked_for.filter(pl.col("pair") == pair).drop("pair").sort("session", "turn") for pair in (0, 1))
    if first.equals(second):
        return "; all pairs have requests of the same lengths, so nothing here speaks for other jobs"
    return "; each pair draws them anew"


def _means(ev: Evidence) -> str:
    metric, paired = ev.primary.metric, ev.primary.paired
    one, other = (mean_text(each).partition(" ±")[0] for each in (ev.primary.baseline, ev.primary.candidate))
    means = f"{other} against {one}{_unit(ev)}"
    if paired.ratio is None:
        return f"There is no ratio of {metric}; the means are {means}, simulated, {counted(ev.pairs, 'pair')}."
    between = "" if paired.lo is None else f" [{paired.lo:.3f}, {paired.hi:.3f}]"
    found = oriented(paired.ratio, paired.lo, paired.hi, lower_is_better=ev.is_lower_better)
    turned = (
        f"; {found[0]:.3f} [{found[1]:.3f}, {found[2]:.3f}] as the rule counts" if found and ev.is_lower_better else ""
    )
    return (
        f"{metric} of {ev.candidate} is {paired.ratio:.3f}{between} times that of {ev.baseline} "
        f"({signed(paired.ratio)}{turned}). Geometric mean over {counted(ev.pairs, 'simulated pair')}, each the same "
        f"requests through both arms; the arms' means are {means}."
    )


def _worse(ev: Evidence) -> str:
    """Other metrics whose interval lies on the bad side of 1, by more than counts as equal."""
    found = []
    for each in ev.found.findings[1:]:
        lower = METRICS[each.metric].better == "lower"
        turned = oriented(each.paired.ratio, each.paired.lo, each.paired.hi, lower_is_better=lower)
        if METRICS[each.metric].better != "none" and turned and standing(*turned[1:], 1 - ev.lines.equal) == "below":
            found.append((turned[0], f"{each.metric} ({each.paired.ratio:.3f})"))
    told = [name for _, name in sorted(found)[:MOST_WORSE]]
    more = len(found) - len(told)
    return f" Worse get {words([*told, *([f'{more} more'] if more else [])])}." if told else ""


SAYS: dict[Standing | None, str] = {"above": "better", "below": "worse", "open": "either way"}


def _uncertainty(ev: Evidence) -> str:
    """Three widths by themselves; the last is the one that no simulation narrows."""
    found = widths(ev)
    said = ", ".join(f"{each.of} {each.ends}{_standing(each.stands(ev))}" for each in found)
    within = found[2].says.partition(" (")[2].removesuffix(")")
    return (
        f"{said[:1].upper()}{said[1:]}. The first two hold 95%, the second of all uncertain inputs drawn together; the "
        f"third is what the record shows of all errors{f': {within}' if within else ''}."
    )


def _standing(stands: Standing | None) -> str:
    return f" ({SAYS[stands]})" if stands in SAYS else ""


def _sure(ev: Evidence) -> str:
    """How far the direction that is recommended on is certain, and what was not looked at."""
    paired = ev.primary.paired
    turned = oriented(paired.ratio, paired.lo, paired.hi, lower_is_better=ev.is_lower_better)
    if turned is None:
        return ""
    line = 1 + ev.lines.interest if answer(turned, ev.lines.interest) == "too little" else 1.0
    stands = [(each.of, each.stands(ev, line)) for each in widths(ev)]
    same = [of for of, each in stands if each == standing(*turned[1:], line) != "open"]
    other = [of for of, each in stands if each is not None and of not in same]
    none = [of for of, each in stands if each is None]
    said = [f"the answer survives {words(same)}"] if same else []
    said += [f"{words(other)} may turn it"] if other else []
    said += [f"{words(none)} is not quantified"] if none else []
    rows, of = recorded(ev)
    found = agreement(rows)
    record = "" if found is None else f" Of {of}, {found.ordered} came out in the published order."
    return f"How sure: {'; '.join(said)}.{record}{_caveats(ev)}"


def _caveats(ev: Evidence) -> str:
    """What a reader of the headline alone would miss: an effect that another arm has too."""
    if ev.ablation is None or not ev.ablation.arm or not ev.ablation.stays or ev.ablation.ratio.ratio is None:
        return ""
    return (
        f" Most of the effect is there in arm {ev.ablation.arm} as well (ratio {ev.ablation.ratio.ratio:.3f} in place "
        f"of {ev.ablation.whole.ratio:.3f}): run it as a third arm."
    )


def _calibration(ev: Evidence) -> str:
    """Errors of steps and the region that they hold in; routing is on record by its ratios alone."""
    profiles = {p.name: p for kind in ev.cell(ev.baseline).fleet if (p := profile_of(kind, ev.cell(ev.baseline)))}
    said = []
    for name, profile in profiles.items():
        if profile.status == "constant":
            said.append(f"step times are given by the scenario (constant), not measured ({name})")
            continue
        off = ", ".join(f"{mean:.1%} in {phase}" for phase, mean in step_errors(profile).items()) or "not stated"
        said.append(f"step times are {profile.status} ({name}), mean error on unseen steps {off}")
    steps = words(said) or "step times come from no profile: they are not measured"
    return f"{steps[:1].upper()}{steps[1:]}. {_region(ev)} {_record(ev)}"


def _region(ev: Evidence) -> str:
    """How much of the time lies where steps were measured, and where that is."""
    worst = min(ev.coverage.values(), key=lambda each: each.inside_share)
    limits = [
        f"{name.replace('_', ' ')} to {number(ends[1])}"
        for kind in ev.cell(ev.baseline).fleet[:1]
        if (profile := profile_of(kind, ev.cell(ev.baseline))) and profile.region
        for name, ends in profile.region.items()
    ]
    where = f" ({', '.join(limits)} a step)" if limits else ""
    out = max(worst.outside, key=lambda name: worst.outside[name], default="")
    by = f"; outside mostly by {out.replace('_', ' ')}" if out else ""
    inside = percent(round(worst.inside_share, 3))
    return f"{inside} of the busy time lies in the region in which steps were measured{where}{by}."


def _record(ev: Evidence) -> str:
    """How published ratios of arms came out, of cases like this one where there are some."""
    rows, of = recorded(ev)
    found = agreement(rows)
    if found is None:
        return "No published ratio of arms is on record."
    return f"Routing, by {of}: {found.ordered} came out in the published order, half of them within {found.median:.0%}."


def _controls(ev: Evidence) -> str:
    """Null controls by name, those that failed first, and how many checks there are in all."""
    held = [each for each in ev.checks if each.held is not None]
    passed = sum(each.held is True for each in held)
    controls = [each for each in ev.checks if each.name == "null control"]
    failed = [_bracketed(each.says) for each in controls if each.held is False]
    names = [_bracketed(each.says) for each in controls if each.held]
    left = [_not_run(each.says) for each in controls if each.held is None]
    all_of = "" if failed or len(names) < len(controls) else "all "
    said = [f"FAILED: {words(failed)}."] if failed else []
    said += [f"Passed: {all_of}{counted(len(names), 'null control')}, {passed} of {len(held)} checks in all."]
    said += [f"They are {words(names)}."] if names else []
    said += [f"Not run: {words(left)}."] if left else []
    return " ".join(said)


def _why(ev: Evidence) -> str:
    """The mechanisms that moved most, and what is left of them without the one that is held to be the cause."""
    moved = moved_most(ev)
    if ev.ablation is not None:
        said = " ".join(concluded(ev, each) for _, each in _concluding(ev))
    elif moved:
        why = f" ({ev.ablations.notes[0]})" if ev.ablations.notes else ""
        said = f"That {main_mechanism(ev).line} is the cause is not proven: nothing switches it off alone{why}."
    else:
        said = ""
    lost = unequal_work(ev)
    first = (
        f"The arms did not do the same work: {lost}; engine time that is less may be work not done. " if lost else ""
    )
    total = ev.ledger[-1]
    whole = (total.difference.mean or 0.0) / total.baseline_s
    shares = f"mostly {moved} of all that {ev.baseline} takes" if moved else "no mechanism moves by 1% of it or more"
    return f"{first}Engine time {whole:+z.1%}: {shares}. {said}".strip()


def _concluding(ev: Evidence) -> list[tuple[int, Ablation]]:
    """The first ablation, and those that show the cause where it does not, each with its place among all."""
    made = ev.ablations.made
    return [(at, each) for at, each in enumerate(made) if not at or (each.is_cause and not made[0].is_cause)]


def _flips(ev: Evidence) -> tuple[str, str]:
    """Of the sensitivity analysis, sizes of the job last, and the tables that it is read from."""
    found = ev.sensitivity
    if found is None:
        return f"{ev.no_sensitivity[:1].upper()}{ev.no_sensitivity[1:]}.", "4.1"
    sizes = sizes_said(ev, found)
    return (f"{flips_said(ev, found)} {sizes}", "9.1, 9.3") if sizes else (flips_said(ev, found), "9.1")


def _bracketed(says: str) -> str:
    """A control and what it says: name (what must hold)."""
    name, _, rest = says.partition(": ")
    return f"{name} ({rest})" if rest else name


def _not_run(says: str) -> str:
    """The same of one that was not run: name (why)."""
    why = says.partition("not run, ")[2]
    return f"{says.partition(':')[0]} ({why})"


def _unit(ev: Evidence) -> str:
    unit = METRICS[ev.primary.metric].unit
    return "" if unit in ("1", "") else f" {unit}"
