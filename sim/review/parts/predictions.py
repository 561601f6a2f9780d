"""Part 7: what is predicted, with three widths that are kept apart."""

import math

from sim.metrics import METRICS
from sim.report.contrast import Finding
from sim.report.numbers import counted, mean_text
from sim.report.rule import percent
from sim.review._gather import OF_ALL, Evidence, unequal_work
from sim.review._model import Part, Row, Table
from sim.review.parts._widths import widths
from sim.review.parts._words import arms, share


def predictions(ev: Evidence) -> Part:
    """7: what is predicted, with three widths that are kept apart."""
    head = (
        "metric",
        "unit",
        *arms(ev),
        "ratio",
        "95 %",
        "pairs worse",
        "P(mean worse)",
        f"P(harm > {percent(ev.lines.harm)})",
        "verdict",
    )
    lost = unequal_work(ev)
    rows = [_prediction(ev, each, lost) for each in ev.found.findings]
    main = Table(
        "7.1",
        f"Predictions, {counted(ev.pairs, 'pair')}",
        head,
        rows,
        "simulated; the first metric decides, others are exploratory",
    )
    note = "kept apart: no line holds another"
    apart = Table("7.2", "Three widths", ("of", "the ratio", "what it is"), [(*each,) for each in widths(ev)], note)
    tables = [main, apart]
    common = [
        (each.metric, f"{each.common.correlation:.2f}", f"{each.common.variance_ratio:.2f}")
        for each in ev.found.findings
        if each.common is not None
    ]
    if common:
        note = "a variance below 1 says that common random numbers helped"
        tables.append(
            Table("7.3", "Pairing", ("metric", "correlation of the arms", "variance against unpaired"), common, note)
        )
    humps = [each.metric for each in ev.found.findings if each.humps is not None and each.humps.are_two]
    text = [f"Two humps in the ratios of {', '.join(humps)}: read the distribution, not the mean."] if humps else []
    return Part(7, "Predictions", text, tables, figures=("paired_ratios", "group_completion"))


def _prediction(ev: Evidence, each: Finding, lost: str) -> Row:
    metric, paired = METRICS[each.metric], each.paired
    ratio = "1 exactly" if paired.is_tie else "–" if paired.ratio is None else f"{paired.ratio:.3f}"
    interval = "–" if paired.lo is None or paired.hi is None else f"[{paired.lo:.3f}, {paired.hi:.3f}]"
    unit = "" if metric.unit == "1" else metric.unit
    return (
        each.metric,
        unit,
        mean_text(each.baseline),
        mean_text(each.candidate),
        ratio,
        interval,
        share(paired.p_worse),
        share(paired.p_mean_worse),
        share(p_harm(ev, each)),
        _verdict(each, lost),
    )


def _verdict(each: Finding, lost: str) -> str:
    """None on a metric of what was served, where the arms did not serve alike."""
    if lost and each.metric not in OF_ALL:
        return f"not comparable: {lost}"
    return "–" if each.verdict is None else str(each.verdict)


def p_harm(ev: Evidence, each: Finding) -> float | None:
    """Share of pairs whose ratio is worse than the harm line; None for a metric without a better side."""
    better = METRICS[each.metric].better
    if better == "none" or not each.logs.size:
        return None
    ratios = each.logs if better == "higher" else -each.logs
    return float((ratios < math.log(1 - ev.lines.harm)).mean())
