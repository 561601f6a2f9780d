"""Page one: the ten things that a reader looks for in the first minute, and the warnings that belong beside them."""

from collections.abc import Iterator

import polars as pl

from sim.log.frames import Tables
from sim.metrics import METRICS
from sim.report.table import number
from sim.review._assumptions import profile_of
from sim.review._gather import OVERHEAD_H, Evidence
from sim.review._judge import Findings, judge
from sim.review._model import Judgement, Line, Review
from sim.review._risks import conditions
from sim.review.parts import parts
from sim.review.parts._widths import widths
from sim.review.parts._words import share, short
from sim.review.parts.predictions import p_harm
from sim.review.parts.risk import worst_pairs
from sim.review.parts.sensitivity import flips_said, sizes_said
from sim.review.parts.why import ablated
from sim.scenario import check

ONE_SESSION = 0.5
"""Share of the makespan in which one session alone is left, above which it decides the wall time."""


def review_of(ev: Evidence, command: str) -> Review:
    """The whole review of some evidence; ``command`` is what made it."""
    judgement = judge(findings(ev), _pairs(ev) or 0)
    title = f"{ev.scenario.name}: {ev.candidate} against {ev.baseline}"
    return Review(title, judgement, list(_page(ev, judgement, command)), parts(ev, command), list(_warnings(ev)))


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
        outside_by=max(worst.outside, key=lambda name: worst.outside[name], default="–"),
    )


def _page(ev: Evidence, judgement: Judgement, command: str) -> Iterator[Line]:
    path, one, other = ev.change
    metric = ev.primary.metric
    engines = ev.cell(ev.baseline).engines
    yield Line("question", f"does {ev.candidate} beat {ev.baseline} in {metric}, on {engines} engines?", "1.1")
    yield Line(
        "recommendation",
        judgement.headline + (", because " if judgement.because else "") + "; ".join(judgement.because),
    )
    paired = ev.primary.paired
    means = f"{_number(ev.primary.baseline.mean)} -> {_number(ev.primary.candidate.mean)} {METRICS[metric].unit}"
    ratio = "none" if paired.ratio is None else f"{paired.ratio:.3f}"
    interval = "" if paired.lo is None else f" [{paired.lo:.3f}, {paired.hi:.3f}]"
    _, inputs, form = widths(ev)
    apart = f"inputs alone: {inputs.says}; model form: {form.says}"
    yield Line("predicted ratio", f"{ratio}{interval}, {means}; simulated, {ev.pairs} pairs; {apart}", "7.1, 7.2")
    harmed = share(p_harm(ev, ev.primary))
    yield Line(
        f"P(harm > {ev.lines.harm:.0%}) in a pair", f"{harmed}; P(mean worse) {share(paired.p_mean_worse)}", "7.1"
    )
    yield Line("main risk", _risk(ev), "10.1")
    yield Line("held equal", f"everything but {path}: {short(one)} -> {short(other)}", "2.1")
    said = "no arm takes the mechanism away" if ev.ablation is None else ablated(ev, ev.ablation)
    yield Line("why", said, "8.2, 8.3" if ev.ablation is None else "8.2, 8.4")
    found = ev.sensitivity
    turns = [ev.no_sensitivity] if found is None else [flips_said(ev, found), sizes_said(found)]
    source = "4.1" if found is None else "9.1, 9.3" if found.break_evens else "9.1"
    yield Line("assumption that flips it", "; ".join(filter(None, turns)), source)
    yield Line("cost of the real runs", _cost(ev), "11.1")
    sealed = "not sealed yet" if ev.sealed is None else f"sealed: {ev.sealed.digest[:16]}"
    yield Line("decision rule", f"part 12, {sealed}")
    yield Line("calibration", _calibration(ev), "6.1, 6.2")
    held = [each for each in ev.checks if each.held is not None]
    passed = sum(each.held is True for each in held)
    controls = [each for each in ev.checks if each.name == "null control"]
    said = "; ".join(
        each.says + ("" if each.held is None else ": holds" if each.held else ": FAILS") for each in controls
    )
    yield Line("null control", f"{said} ({passed} of {len(held)} checks hold)", "5.1")
    yield Line("reproduce", command, "16.1")


def _risk(ev: Evidence) -> str:
    metric = ev.primary.metric
    lower = METRICS[metric].better == "lower"
    placed = [
        each for each in ev.result.placements if each.candidate == ev.candidate and each.ratio.get(metric) is not None
    ]
    bad = [each for each in placed if ((each.ratio[metric] or 1) > 1) == lower and each.ratio[metric] != 1]
    if bad:
        likely = sum(each.p_exact for each in bad)
        names = ", ".join(f"{each.name} ({each.ratio[metric]:.3f})" for each in bad)
        return f"keys fall {names}: {likely:.1%} of placements under a uniform hash"
    if placed:
        return "no placement class of the keys is worse"
    if (found := conditions(ev)) and found[0].is_worse and found[0].ratio is not None:
        return f"{found[0].says} ({found[0].ratio:.3f}): {found[0].frequency:.1%} of the stated workload"
    worst = worst_pairs(ev)
    return f"worst of {ev.pairs} pairs: {worst[0][1]} (pair {worst[0][0]})" if worst else "no pair has a ratio"


def _pairs(ev: Evidence) -> int | None:
    need = _need(ev)
    return None if need is None else need[0]


def _need(ev: Evidence) -> tuple[int, float, bool] | None:
    """Pairs and GPU-hours for the smallest effect of interest; whether they are blocked on placement."""
    if ev.plan is None:
        return None
    need = next(each for each in ev.plan.needs if abs(each.effect - ev.plan.effect) < 1e-12)
    if need.blocked is not None and need.gpu_hours_blocked is not None and need.blocked < need.real:
        return need.blocked, need.gpu_hours_blocked, True
    return need.real, need.gpu_hours, False


def _cost(ev: Evidence) -> str:
    need = _need(ev)
    if need is None or ev.plan is None:
        return f"no plan: {ev.no_plan}"
    pairs, hours, blocked = need
    cost = ev.plan.cost
    how = ", blocked on placement" if blocked else ""
    return (
        f"{pairs} pairs{how} x 2 arms x {cost.gpus} GPUs x {60 * (cost.run_h + OVERHEAD_H):.1f} min "
        f"+ {cost.failure_rate:.0%} = {hours:,.1f} GPU-hours "
        f"to see {ev.plan.effect:+.1%} with {ev.plan.wanted:.0%} power"
    )


def _calibration(ev: Evidence) -> str:
    profiles = {p.name: p for kind in ev.cell(ev.baseline).fleet if (p := profile_of(kind, ev.cell(ev.baseline)))}
    said = []
    for name, profile in profiles.items():
        errors = profile.error_percent or {}
        off = ", ".join(f"{phase} {mean:g} %" for phase, (mean, _) in errors.items()) or "error not stated"
        said.append(f"{name}: {profile.status}, {off}")
    inside = min(each.inside_share for each in ev.coverage.values())
    return f"{'; '.join(said) or 'no profile: step times are not measured'}; {inside:.1%} of the time inside the region"


def _warnings(ev: Evidence) -> Iterator[str]:
    """What the run and the scenario say, and wall time that one session decides."""
    # What a contrast says of few or skewed pairs, the result has said of every arm.
    notes = [each for each in ev.found.notes if "bootstrap" not in each]
    found = [*ev.result.warnings, *notes, *check(ev.scenario).warnings]
    yield from dict.fromkeys(found)
    for name, tables in ev.tables.items():
        if (alone := left_alone(tables)) > ONE_SESSION:
            yield f"arm {name}: one session alone is left for {alone:.0%} of the makespan: it decides the wall time"


def left_alone(tables: Tables) -> float:
    """Share of the makespan between the end of the last session but one and that of the last; mean over pairs."""
    ends = tables.requests.group_by("pair", "session").agg(end=pl.col("ended_s").max()).sort("pair", "end")
    last = ends.group_by("pair", maintain_order=True).tail(2).group_by("pair", maintain_order=True)
    gaps = last.agg(gap=pl.col("end").max() - pl.col("end").min()).join(tables.replications, on="pair")
    lasting = gaps.filter(pl.col("makespan_s") > 0)
    return float((lasting["gap"] / lasting["makespan_s"]).to_numpy().mean()) if lasting.height else 0.0


def _number(value: float | None) -> str:
    return "none" if value is None else number(value)
