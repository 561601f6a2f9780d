"""Part 6: where the step times come from, and whether the runs stay where they were measured."""

from sim.report.region import Coverage
from sim.report.table import number
from sim.review._assumptions import profile_of
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table
from sim.review.parts._words import arms


def calibration(ev: Evidence) -> Part:
    """6: where the step times come from, and whether the runs stay where they were measured."""
    rows: list[Row] = []
    for kind in ev.cell(ev.baseline).fleet:
        profile = profile_of(kind, ev.cell(ev.baseline))
        if profile is None:
            rows.append((kind.name or "all", "no profile", "not measured", "–", "–", "–"))
            continue
        errors = profile.error_percent or {}
        cells = [f"{errors[p][0]:g} % (p90 {errors[p][1]:g} %)" if p in errors else "–" for p in ("prefill", "decode")]
        rows.append((kind.name or "all", profile.name, profile.status, *cells, " ".join(profile.source.split())))
    quality = Table(
        "6.1", "Cost of a step", ("type", "profile", "status", "error, prefill", "error, decode", "source"), rows
    )
    head = ("arm", "inside", "outside by", "reached: tokens", "chunks", "decodes", "mean context")
    region = Table("6.2", "Simulated busy time inside the calibrated region", head, [_region(ev, a) for a in arms(ev)])
    text = [
        "Errors are mean absolute errors of steps that the fit has not seen. They are no error of a whole run.",
        "Whole runs and orders of policies against published ones: docs/calibration.md and docs/reproductions.md.",
        "No measurement of this fleet with this workload is known to the tool.",
    ]
    return Part(6, "Calibration and validation", text, [quality, region])


def _region(ev: Evidence, arm: str) -> Row:
    own: Coverage = ev.coverage[arm]
    by = ", ".join(f"{name} {share:.1%}" for name, share in own.outside.items()) or "–"
    ends = [
        f"{number(lo)} to {number(hi)}"
        for lo, hi in (own.reached.get(q, (0.0, 0.0)) for q in ("tokens", "chunks", "decodes", "mean_context"))
    ]
    return (arm, f"{own.inside_share:.1%}", by, *ends)
