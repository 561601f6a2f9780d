"""Part 6: where the step times come from, whether the runs stay where they were measured, and what is on record.

On record are ratios of arms that others measured, run again here: how often ours order two arms as theirs, and how far
our ratios are from theirs. The real systems' own repeats stand beside them: an error smaller than that spread is no
finding.
"""

from sim.calibration.record import Error, RunErrors, read_calibration
from sim.report.numbers import number
from sim.report.region import QUANTITIES, Coverage
from sim.review._assumptions import profile_of
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms, value
from sim.review.parts.verification import stale
from sim.scenario import RESULTS_VERSION
from sim.validation import Agreement, RecordedCase, RecordedRow, Traits, agreement

SAYS = {"presets": "scheduler", "devices": "device", "models": "model", "policies": "policy", "shapes": "workload"}
"""Traits in a word each."""
ENOUGH = 2
"""Traits that a case must share with the scenario to be said to resemble it."""


def calibration(ev: Evidence) -> Part:
    """6: where the step times come from, and what is on record of this simulator."""
    text = [
        "Errors of steps are those that the fit has not seen; they are no error of a whole run.",
        nearest(ev),
        *stale(ev.record),
    ]
    return Part(
        6, "Calibration and validation", text, [_steps(ev), _regions(ev), _agreements(ev), _resembling(ev), _runs(ev)]
    )


def nearest(ev: Evidence) -> str:
    """Whether a measurement on record is of a world like this one in every trait."""
    alike = [case.name for case, shared in resembling(ev) if len(shared) == len(SAYS)]
    if alike:
        traits = ", ".join(SAYS.values())
        return (
            f"Measured with the same {traits}: case {', '.join(alike)} of docs/validation.md; its sizes may be others."
        )
    return "No measurement of this fleet with this workload is known to the tool: what is on record is of others."


def recorded(ev: Evidence) -> tuple[list[RecordedRow], str]:
    """Published ratios of arms, of cases like this one where there are some, and what they are."""
    near, every = [row for case, _ in resembling(ev) for row in case.ratios], [*ev.record.ratios]
    if near:
        return near, f"{len(near)} published ratios of similar cases ({len(every)} on record)"
    return every, f"{len(every)} published ratios, none of a similar case"


def resembling(ev: Evidence) -> list[tuple[RecordedCase, list[str]]]:
    """Cases of the record that share enough with the two arms, most first."""
    return [each for each in ev.record.resembling(ev.traits) if len(each[1]) >= ENOUGH]


def _steps(ev: Evidence) -> Table:
    """Of each type of engine and kind of step, what is known of its cost."""
    rows: list[Row] = []
    for kind in ev.cell(ev.baseline).fleet:
        profile = profile_of(kind, ev.cell(ev.baseline))
        name = kind.name or "all"
        if profile is None:
            rows.append((name, "no profile", "not measured", *("–" for _ in range(5)), ""))
            continue
        source = " ".join(profile.source.split())
        known = read_calibration().steps_of(profile.name)
        phases = known.phases if known else {}
        for phase, each in phases.items():
            size = (f"{each.points:,}", f"{each.mean:.1%}", f"{each.bias:+.1%}", f"{each.worst:.1%}")
            rows.append((name, profile.name, profile.status, phase, *size, source))
        for phase, (mean, p90) in (profile.error_percent or {}).items():
            if phase not in phases:
                rows.append(
                    (name, profile.name, profile.status, phase, "–", f"{mean / 100:.1%}", "–", f"p90 {p90:g} %", source)
                )
        if not phases and not profile.error_percent:
            rows.append((name, profile.name, profile.status, *("–" for _ in range(5)), source))
    head = ("type", "profile", "status", "steps of", "number", "mean error", "bias", "worst tenth", "source")
    note = "Mean absolute error of steps that the fit has not seen; bias with its sign; the worst tenth on average."
    return Table("6.1", "Cost of a step", head, rows, note)


def _runs(ev: Evidence) -> Table:
    """Whole runs against measured ones by load, those of this scheduler and device first."""
    own = {(str(kind.engine.preset), kind.engine.device) for kind in ev.cell(ev.baseline).fleet}
    record = read_calibration()

    def near(each: RunErrors) -> int:
        return -sum((each.preset == preset) + (each.device == device) for preset, device in own)

    quantities = ("ttft", "tpot", "e2e", "makespan")
    rows = [
        (
            each.engine,
            each.device,
            each.load,
            str(max(error.points for error in each.quantities.values())),
            *(_error(each.quantities.get(name)) for name in quantities),
        )
        for each in sorted(record.runs, key=near)
    ]
    head = ("engine", "device", "load", "points", "TTFT", "time per token", "end to end", "makespan")
    old = "" if record.results_version == RESULTS_VERSION else f" STALE: of results version {record.results_version}."
    note = f"Mean absolute error, and bias; points are requests, or published means. Nothing was fitted to them.{old}"
    return Table("6.5", "Whole runs against measured ones, by load", head, rows, note)


def _error(found: Error | None) -> str:
    return "–" if found is None else f"{found.mean:.1%} ({found.bias:+.1%})"


def _regions(ev: Evidence) -> Table:
    """Of each arm, and what was measured: of every type of engine."""
    head = ("arm", "inside", "outside by", *(name.replace("_", " ") for name in QUANTITIES))
    rows = [_region(arm, ev.coverage[arm]) for arm in arms(ev)]
    for kind in ev.cell(ev.baseline).fleet:
        profile = profile_of(kind, ev.cell(ev.baseline))
        limits = (profile.region if profile else None) or {}
        ends = [_ends(limits[q]) if q in limits else "not stated" for q in QUANTITIES]
        rows.append((f"measured{f', type {kind.name}' if kind.name else ''}", "", "", *ends))
    note = "Of an arm: the least and most that a step reached. Time is inside where every quantity of a step is."
    return Table("6.2", "Simulated busy time inside the calibrated region", head, rows, note)


def _region(arm: str, own: Coverage) -> Row:
    by = ", ".join(f"{name} {share:.1%}" for name, share in own.outside.items()) or "–"
    ends = [_ends(own.reached.get(q, (0.0, 0.0))) for q in QUANTITIES]
    return (arm, f"{own.inside_share:.1%}", by, *ends)


def _ends(limits: tuple[float, float]) -> str:
    return f"{number(limits[0])} to {number(limits[1])}"


def _agreements(ev: Evidence) -> Table:
    """Over all published ratios, over those of cases that resemble, and the repeats of the real systems."""
    near = [row for case, _ in resembling(ev) for row in case.ratios]
    rows = [
        _agreement("all published ratios of arms", agreement(ev.record.ratios)),
        _agreement(f"cases that share {ENOUGH} traits or more with this scenario", agreement(near)),
    ]
    head = ("over", "ratios", "Kendall's tau", "same order", "told apart by ours", "error, median", "p90", "bias")
    note = (
        "Error: the factor between our ratio and the published one, less 1. Bias: below 0 where ours makes effects too "
        "small. Real systems vary too, by their own repeats: " + "; ".join(_repeats(ev)) + "."
    )
    return Table("6.3", "Ratios of arms against published ones", head, rows, note)


def _agreement(over: str, found: Agreement | None) -> Row:
    if found is None:
        return (over, "0", *("–" for _ in range(6)))
    return (
        over,
        str(found.ratios),
        f"{found.tau:+.2f}",
        f"{found.ordered} of {found.ratios}",
        str(found.separable),
        f"{found.median:.1%}",
        f"{found.p90:.1%}",
        f"{found.bias:+.1%}",
    )


def _repeats(ev: Evidence) -> list[str]:
    own = [f"{case.name} {each.spread:.1%} ({each.of})" for case in ev.record.cases if (each := case.repeats)]
    return [*own, OTHERS]


OTHERS = (
    "a simulator of SGLang was 2.3 and 3.6 % off in duration where the engine's repeats spread by 21.8 and 14.6 % "
    "(sgl-project/sglang 38423)"
)
"""Repeats that were published beside no routing result."""


def _resembling(ev: Evidence) -> Table:
    rows = [_case(case, shared, ev.traits) for case, shared in resembling(ev)]
    head = ("case", "shares", "published ratio: ours", "measured rows by verdict", "error, median")
    note = f"Of {len(ev.record.cases)} cases those with {ENOUGH} or more of: {', '.join(SAYS.values())}."
    return Table("6.4", "Published cases that resemble this scenario", head, rows, note)


def _case(case: RecordedCase, shared: list[str], own: Traits) -> Row:
    common = [
        f"{SAYS[name]} {' and '.join(each for each in getattr(case.traits, name) if each in getattr(own, name))}"
        for name in shared
    ]
    verdicts = [row.verdict for row in case.rows if row.kind == "published"]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts))
    ratios = "; ".join(f"{number(row.value)}: {value(row.ours, row.lo, row.hi)}" for row in case.ratios) or "–"
    found = agreement(case.ratios)
    return (case.name, "; ".join(common), ratios, counts, "–" if found is None else f"{found.median:.1%}")
