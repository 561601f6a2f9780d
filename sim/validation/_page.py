"""The page of a validation: each row beside its published or analytic value, and what decides each miss."""

import textwrap
from collections import Counter
from collections.abc import Sequence

from sim.report.numbers import counted
from sim.validation._case import VERDICTS, Row
from sim.validation._measures import Estimate
from sim.validation._run import Ordered, Outcome, Verdicts
from sim.validation._sources import SOURCES

_SAYS = {"published": "measured", "predicted": "predicted", "truth": "analytic", "null": "null control"}
_AGAIN = "the same"
"""What a row says that is explained by the one before."""
_HEAD = """# Validation

Published results run again, analytic truths and null controls. Written by

    windtunnel validate --full --write docs/validation.md

from the cases in `scenarios/validation`; without `--full` the short ones run. A row is *reproduced* when ours lies in
its band, *order only* when ours and its 95 % interval lie on the measured side of no effect, *not separable* when the
interval holds no effect, else *missed*. Truths and null controls must be reproduced: the command exits 1 otherwise.
Bands are published intervals, ranges of the source or of arithmetic, or standard errors of the short form; where a
scenario was chosen to meet a figure its row says so.

"""
_SOURCES = """
## Published results and laws

Every row below names in its column *of* the published result or the law that it is about. What people reported in words
and what became a scenario of its own, P1 to P54, is in [cases](cases.md).

| of | what | where | cases | rows by verdict |
| --- | --- | --- | --- | --- |
"""


def number(value: float) -> str:
    """A number as a table shows it."""
    if value == round(value) and abs(value) < 1e12:
        return f"{value:,.0f}"
    if 0.01 <= abs(value) < 100_000:
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.3g}"


def ours(found: Estimate) -> str:
    """A value and its interval."""
    if found.lo is None or found.hi is None or found.lo == found.hi:
        return number(found.value)
    return f"{number(found.value)} [{number(found.lo)}, {number(found.hi)}]"


def theirs(row: Row) -> tuple[str, str]:
    """The value that a row holds, and its band where it is more than a point."""
    lo, hi = row.band
    exact = hi - lo < 3e-9 * max(1.0, abs(row.value))
    return f"{number(row.value)}, {_SAYS[row.kind]}", "exact" if exact else f"{number(lo)} to {number(hi)}"


def page(every: Sequence[Verdicts]) -> str:
    """The whole page as Markdown."""
    counts = {name: sum(each.counts[name] for each in every) for name in VERDICTS}
    rows = sum(counts.values())
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    head = _HEAD + f"{len(every)} cases, {rows} rows: {said}.\n"
    return head + _sources(every) + _orders(every) + "".join(map(_section, every))


def _sources(every: Sequence[Verdicts]) -> str:
    """What each published result gave over all its rows, and below the table what no row has."""
    lines = []
    for name, source in SOURCES.items():
        own = [(found.case.name, each.verdict) for found in every for each in found.outcomes if each.row.of == name]
        cases = ", ".join(f"[{case}](#{case})" for case in dict.fromkeys(case for case, _ in own)) or "none"
        counts = Counter(verdict for _, verdict in own)
        verdicts = ", ".join(f"{counts[each]} {each}" for each in VERDICTS if counts[each]) or "–"
        where = f"[{source.where}]({source.link})" if source.link else source.where
        lines.append(f"| {name} | {source.says} | {where} | {cases} | {verdicts} |\n")
    left = [_wrapped(f"- {name}: {each.uncovered}", "  ") for name, each in SOURCES.items() if each.uncovered]
    return _SOURCES + "".join(lines) + "\nWhat no row has, and why:\n\n" + "\n".join(left) + "\n"


_ORDERS = """
## Orders and ratios

Arms of one case against each other, in one quantity: how far their order here is the measured one (Kendall's tau-b; 1
is that order), and by how much ratios are off, each to the arm that is named. Where it says *calibrated* the engines'
speed was set so that this arm comes out as measured, and the other arms are predictions; elsewhere it was set to none
of these figures.

| case | quantity | tau | arms, highest first as measured | ratios are to | errors of the ratios |
| --- | --- | --- | --- | --- | --- |
"""


def _orders(every: Sequence[Verdicts]) -> str:
    lines = [order_line(found.case.name, each) for found in every for each in found.orders]
    return _ORDERS + "".join(f"| {' | '.join(line)} |\n" for line in lines) if lines else ""


def order_line(case: str, each: Ordered) -> tuple[str, ...]:
    """An order as cells of a table."""
    order = each.order
    ranked = sorted(order.published, key=order.published.__getitem__, reverse=True)
    arms = ", ".join(f"{arm} {number(order.published[arm])} ({number(each.found[arm])} here)" for arm in ranked)
    to = f"{order.reference}, {'calibrated' if order.is_calibrated else 'not calibrated'}, {each.reference_error:+.0%}"
    errors = ", ".join(f"{arm} {error:+.0%}" for arm, error in each.ratio_errors.items())
    return case, order.name, f"{each.tau:.2f}", arms, to, errors


def _section(found: Verdicts) -> str:
    case = found.case
    lines = [f"\n## {case.name}\n", _wrapped(f"{case.question} {case.source} {counted(found.pairs, 'pair')}."), ""]
    lines += ["| row | ours | value | band | of | verdict |", "| --- | --- | --- | --- | --- | --- |"]
    for each in found.outcomes:
        value, band = theirs(each.row)
        lines.append(
            f"| {each.row.name} | {ours(each.found)} | {value} | {band} | {each.row.of or '–'} | {each.verdict} |"
        )
    notes = [*_notes(found.outcomes)]
    if case.unknown:
        notes.insert(0, f"Unknown: {case.unknown}")
    if notes:
        lines += ["", *(_wrapped(f"- {note}", "  ") for note in notes)]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _notes(outcomes: Sequence[Outcome]) -> list[str]:
    notes = []
    for each in outcomes:
        if each.row.assumed not in ("", _AGAIN):
            notes.append(f"{each.row.name}: assumed {each.row.assumed}")
        if each.verdict != "reproduced" and each.row.unknown not in ("", _AGAIN):
            notes.append(f"{each.row.name}, {each.verdict}: {each.row.unknown}")
    return notes
