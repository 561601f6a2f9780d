"""Part 6: where the step times come from, whether the runs stay where they were measured, and what is on record.

On record are ratios of arms that others measured, run again here: how often ours order two arms as theirs, and how far
our ratios are from theirs. The real systems' own repeats stand beside them: an error smaller than that spread is no
finding.
"""

from sim.report.region import QUANTITIES, Coverage
from sim.report.table import number
from sim.review._assumptions import profile_of
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms, value
from sim.review.parts.verification import stale
from sim.validation import Agreement, RecordedCase, Traits, agreement

SAYS = {"presets": "scheduler", "devices": "device", "models": "model", "policies": "policy", "shapes": "workload"}
"""Traits in a word each."""
ENOUGH = 2
"""Traits that a case must share with the scenario to be said to resemble it."""


def calibration(ev: Evidence) -> Part:
    """6: where the step times come from, and what is on record of this simulator."""
    text = [
        "Errors of steps are those that the fit has not seen; they are no error of a whole run.",
        "No measurement of this very fleet with this workload is known to the tool: what is on record is of others.",
        *stale(ev.record),
    ]
    return Part(6, "Calibration and validation", text, [_steps(ev), _regions(ev), _agreements(ev), _resembling(ev)])


def resembling(ev: Evidence) -> list[tuple[RecordedCase, list[str]]]:
    """Cases of the record that share enough with the two arms, most first."""
    return [each for each in ev.record.resembling(ev.traits) if len(each[1]) >= ENOUGH]


def _steps(ev: Evidence) -> Table:
    rows: list[Row] = []
    for kind in ev.cell(ev.baseline).fleet:
        profile = profile_of(kind, ev.cell(ev.baseline))
        if profile is None:
            rows.append((kind.name or "all", "no profile", "not measured", "–", "–", "–"))
            continue
        errors = profile.error_percent or {}
        cells = [f"{errors[p][0]:g} % (p90 {errors[p][1]:g} %)" if p in errors else "–" for p in ("prefill", "decode")]
        rows.append((kind.name or "all", profile.name, profile.status, *cells, " ".join(profile.source.split())))
    head = ("type", "profile", "status", "error, prefill", "error, decode", "source")
    return Table("6.1", "Cost of a step", head, rows)


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
