"""Part 7: what is predicted, with three widths that are kept apart."""

import math
from dataclasses import dataclass

from sim.metrics import METRICS
from sim.report.contrast import Finding
from sim.report.numbers import counted, mean_text
from sim.report.rule import percent
from sim.review._gather import OF_ALL, Evidence, unequal_work
from sim.review._model import Part, Row, Table
from sim.review.parts._widths import widths
from sim.review.parts._words import arms, probability, share
from sim.stats.shares import share_of_all


def predictions(ev: Evidence) -> Part:
    """7: what is predicted, with three widths that are kept apart."""
    head = (
        "metric",
        "unit",
        *arms(ev),
        "ratio",
        "95 %",
        "pairs worse",
        "p, no better",
        f"pairs > {percent(ev.lines.harm)} worse",
        "verdict",
    )
    lost = unequal_work(ev)
    rows = [_prediction(ev, each, lost) for each in ev.found.findings]
    main = Table(
        "7.1",
        f"Predictions, {counted(ev.pairs, 'pair')}",
        head,
        rows,
        "simulated; the first metric decides, others are exploratory. p, no better: one-sided, of a mean that is no "
        "better, by Student's t, from 20 pairs on by resampling. Pairs that are worse by more than harm: how many, and "
        "their share of all pairs (95 %). ± is half of a 95 % interval",
    )
    note = "kept apart: no line holds another"
    rows = [(each.of, each.says, each.what) for each in widths(ev)]
    apart = Table("7.2", "Three widths", ("of", "the ratio", "what it is"), rows, note)
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
        "–" if (lost_in := harmed(ev, each)) is None else f"{lost_in.count} ({lost_in.ends})",
        _verdict(each, lost),
    )


def _verdict(each: Finding, lost: str) -> str:
    """None on a metric of what was served, where the arms did not serve alike."""
    if lost and each.metric not in OF_ALL:
        return f"not comparable: {lost}"
    return "–" if each.verdict is None else str(each.verdict)


@dataclass(frozen=True, slots=True)
class Harmed:
    """Pairs that are worse than the harm line."""

    count: int
    of: int

    @property
    def ends(self) -> str:
        """Within which their share of all pairs lies (95 %)."""
        lo, hi = share_of_all(self.count, self.of)
        return f"{lo:.0%} to {hi:.0%}"


def harmed(ev: Evidence, each: Finding) -> Harmed | None:
    """How many pairs are; None where none has a ratio, or a metric has no better side."""
    better = METRICS[each.metric].better
    if better == "none" or not each.logs.size:
        return None
    ratios = each.logs if better == "higher" else -each.logs
    return Harmed(int((ratios < math.log(1 - ev.lines.harm)).sum()), each.logs.size)


def odds_said(ev: Evidence) -> str:
    """For page one: in how many pairs the candidate loses, and whether chance alone can have made its mean better."""
    found, p = harmed(ev, ev.primary), ev.primary.paired.p_mean_worse
    if found is None:
        return ""
    often = (
        f"{ev.candidate} loses more than {percent(ev.lines.harm)} in {found.count} of "
        f"{counted(found.of, 'simulated pair')} ({found.ends} of all pairs, 95%)"
    )
    if p is None:
        return f"{often}."
    return f"{often}; that its mean is no better has a one-sided p of {probability(p)}."
