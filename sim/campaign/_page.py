"""Part 17, and a score as a page: the verdict, prediction beside result, what was left out, what to calibrate anew."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.campaign._measured import NOT_MEASURED
from sim.campaign._score import CellScore, Held, Score, is_outside
from sim.files import replacing
from sim.metrics import METRICS
from sim.report.numbers import counted, number
from sim.review import Judgement, Line, Part, Review, Table, html, markdown

FOOTER = "Predictions are simulated and sealed, results measured."
SAYS = {
    "ADOPT": "ADOPT as an option",
    "RECOMMEND": "RECOMMEND as the default",
    "REJECT": "REJECT",
    "SMALL": "SMALL GAIN, nothing is adopted",
    "INCONCLUSIVE": "INCONCLUSIVE",
    "STOPPED": "STOPPED by a guardrail",
}


def part(found: Score) -> Part:
    """17: what came of it."""
    tables = [_verdict(found), *_predictions(found), *_pairs(found), _guardrails(found)]
    if found.excluded:
        rows = [(cell, str(pair), why) for cell, pair, why in found.excluded]
        tables.append(
            Table("17.5", "Pairs left out by gates, before any ratio was formed", ("cell", "pair", "why"), rows)
        )
    rows = [(cell.cell, each.what, each.evidence) for cell in found.cells for each in cell.recalibrate]
    tables.append(
        Table(
            "17.6",
            "What to calibrate anew",
            ("cell", "assumption or setting", "evidence"),
            rows or [("all", "nothing", "stages, hit rates, placement and noise are as predicted")],
        )
    )
    unknown = [(name, why) for name, why in NOT_MEASURED.items()]
    tables.append(Table("17.7", "Not computed from measured requests", ("metric", "why"), unknown))
    return Part(17, "After the run", list(_text(found)), tables)


def _text(found: Score) -> Iterator[str]:
    inside, known = found.coverage
    right, told = found.orders
    orders = f"of {told} orders of the arms that prediction and result both tell, {right} are right"
    yield (
        f"{inside} of {known} sealed intervals hold the measured ratio; "
        f"{orders if told else 'prediction and result both tell the order of the arms in no metric'}."
    )
    there, values = found.absolutes
    yield f"{there} of {values} sealed intervals of an arm's own value hold the measured one."
    for cell in found.cells:
        held = found.primary(cell.cell)
        if held.error is not None and held.predicted is not None:
            where = "inside" if held.is_inside else "OUTSIDE"
            yield (
                f"{cell.cell}: {held.metric} ratio {_ratio(held.measured.ratio)} measured, "
                f"{_ratio(held.predicted[0])} {_ends(held.predicted[1:])} predicted: {where}, {_off(held.error)} off."
            )


def _verdict(found: Score) -> Table:
    ruling, rule = found.ruling, found.seal.rule
    rows = [("verdict", f"{SAYS[ruling.word]}: {'; '.join(ruling.because)}")]
    rows.append(("look", f"{found.look + 1} of {len(rule.looks)}, intervals of {ruling.level:.0%}"))
    if ruling.all_cells is not None:
        boot = ruling.all_cells
        if boot.boot_lo is not None and boot.boot_hi is not None:
            rows.append(("bootstrap over pairs", _ends((boot.boot_lo, boot.boot_hi))))
        elif boot.caution:
            rows.append(("bootstrap over pairs", f"refused: {boot.caution} pairs, it would be too sure"))
    for cell, each in ruling.cells.items():
        p = ruling.holm_p.get(cell)
        holm = "" if p is None else f", Holm p {p:.3g}"
        rows.append((cell, f"{each.ratio:.3f} {_ends((each.lo, each.hi))}, {counted(each.pairs, 'pair')}{holm}"))
    if ruling.tail is not None:
        rows.append((f"{rule.tail} ratio", f"{ruling.tail.ratio:.3f} {_ends((ruling.tail.lo, ruling.tail.hi))}"))
    rows.append(("seal", found.seal.digest + (f", {found.seal.date}" if found.seal.date else "")))
    return Table(
        "17.1", "The rule's verdict", ("what", "says"), rows, f"ratios of {rule.primary}, turned so that more is better"
    )


def _predictions(found: Score) -> Iterator[Table]:
    base, other = found.seal.prediction["baseline"], found.seal.prediction["candidate"]
    head = (
        "metric", "unit", f"{base}, predicted", f"{base}, measured", f"{other}, predicted", f"{other}, measured",
        "ratio, predicted", "sealed 95 %", "ratio, measured", "95 %", "inside", "off", "order",
    )  # fmt: skip
    for index, cell in enumerate(found.cells, 1):
        rows = [_row(each, base, other) for each in cell.held]
        several = f".{index}" if len(found.cells) > 1 else ""
        yield Table(
            f"17.2{several}",
            f"Prediction and result, {cell.cell}, {counted(len(cell.pairs), 'pair')}",
            head,
            rows,
            "ratio is new/old; the sealed interval is where the mean of a campaign of so many pairs was to fall",
        )


def _row(each: Held, base: str, other: str) -> tuple[str, ...]:
    unit = METRICS[each.metric].unit
    arms = [text for arm in (base, other) for text in _absolute(each.arms[arm])]
    predicted = each.predicted
    order = {None: "not told", True: "right", False: "WRONG"}[each.order_is_right]
    inside = {None: "–", True: "yes", False: "NO"}[each.is_inside]
    return (
        each.metric, "" if unit == "1" else unit, *arms,
        "–" if predicted is None else _ratio(predicted[0]), "–" if predicted is None else _ends(predicted[1:]),
        _ratio(each.measured.ratio), _ends((each.measured.lo, each.measured.hi)), inside,
        "–" if each.error is None else _off(each.error), order,
    )  # fmt: skip


def _absolute(pair: tuple[float | None, tuple[float, float, float] | None]) -> tuple[str, str]:
    measured, predicted = pair
    said = "–" if predicted is None else f"{number(predicted[0])} [{number(predicted[1])}, {number(predicted[2])}]"
    outside = " OUTSIDE" if is_outside(measured, predicted) else ""
    return said, "–" if measured is None else number(measured) + outside


def _pairs(found: Score) -> Iterator[Table]:
    for index, cell in enumerate(found.cells, 1):
        several = f".{index}" if len(found.cells) > 1 else ""
        rows = [(str(pair), _ratio(a), _ratio(b), _off(b / a - 1)) for pair, a, b in cell.by_pair]
        if rows:
            yield Table(
                f"17.3{several}",
                f"Pair by pair, {found.seal.rule.primary}, {cell.cell}",
                ("pair", "ratio, predicted", "ratio, measured", "off"),
                rows,
            )


def _guardrails(found: Score) -> Table:
    guard = found.seal.rule.guardrails
    rows = [
        (
            arm,
            name.replace("_", " "),
            "not measured" if value is None else f"{value:.2%}",
            f"{getattr(guard, name):.0%}",
        )
        for arm, shares in found.guardrails.items()
        for name, value in shares.items()
    ]
    return Table("17.4", "Guardrails", ("arm", "share", "measured", "stops above"), rows)


def _off(share: float) -> str:
    """A difference for reading; what rounds to nothing has no sign."""
    return f"{round(share, 3) + 0.0:+.1%}" if round(share, 3) else "0.0%"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _ends(ends: tuple[float | None, float | None]) -> str:
    lo, hi = ends
    return "–" if lo is None or hi is None else f"[{lo:.3f}, {hi:.3f}]"


def review_of(found: Score) -> Review:
    """The score as a page of its own: the verdict, part 12 as it was sealed, and part 17."""
    made = part(found)
    rule = Part(12, "Decision rule", [f"Sealed as {found.seal.digest}."], fixed=found.seal.rule.text())
    base, other = found.seal.prediction["baseline"], found.seal.prediction["candidate"]
    inside, known = found.coverage
    right, told = found.orders
    again = [each.what for cell in found.cells for each in cell.recalibrate]
    orders = f"; orders right: {right} of {told}" if told else ""
    left = [f"pair {pair} of {cell} ({why})" for cell, pair, why in found.excluded]
    page = [
        Line("question", f"does {other} beat {base} in {found.seal.rule.primary}?"),
        Line("why", "; ".join(found.ruling.because), "17.1"),
        Line("prediction", f"{inside} of {known} sealed intervals hold it{orders}", "17.2"),
        *([Line("left out", "; ".join(left), "17.5")] if left else []),
        Line("calibrate anew", ", ".join(dict.fromkeys(again)) or "nothing", "17.6"),
        Line("seal", found.seal.digest),
    ]  # fmt: skip
    cells = ", ".join(each.cell for each in found.cells)
    return Review(f"{cells}: {other} against {base}, measured", Judgement(SAYS[found.ruling.word]), page, [rule, made],
                  found.notes, footer=FOOTER)  # fmt: skip


def lines(found: Score) -> Iterator[str]:
    """The score for a terminal."""
    yield SAYS[found.ruling.word] + ("" if found.ruling.word == "STOPPED" else f" ({found.seal.rule.primary})")
    yield from (f"  {each}" for each in found.ruling.because)
    yield from _text(found)
    for name, pair, why in found.excluded:
        yield f"left out: pair {pair} of {name}: {why}"
    for cell in found.cells:
        of = f", {cell.cell}" if len(found.cells) > 1 else ""
        yield from (f"calibrate anew{of}: {each.what}: {each.evidence}" for each in cell.recalibrate)
    yield from (f"note: {each}" for each in found.notes)


def document(found: Score) -> dict[str, Any]:
    """The score as plain data: ``score.json``."""
    return {
        "schema": "windtunnel.score/1",
        "seal": found.seal.digest,
        "verdict": found.ruling.word,
        "because": list(found.ruling.because),
        "look": found.look,
        "level": found.ruling.level,
        "coverage": dict(zip(("inside", "of"), found.coverage, strict=True)),
        "absolutes": dict(zip(("inside", "of"), found.absolutes, strict=True)),
        "orders": dict(zip(("right", "of"), found.orders, strict=True)),
        "excluded": [{"cell": cell, "pair": pair, "why": why} for cell, pair, why in found.excluded],
        "guardrails": {arm: dict(shares) for arm, shares in found.guardrails.items()},
        "notes": found.notes,
        "cells": {each.cell: _cell(each) for each in found.cells},
    }


def _cell(each: CellScore) -> dict[str, Any]:
    return {
        "pairs": each.pairs,
        "metrics": {
            held.metric: {
                "predicted": held.predicted and dict(zip(("ratio", "lo", "hi"), held.predicted, strict=True)),
                "measured": {"ratio": held.measured.ratio, "lo": held.measured.lo, "hi": held.measured.hi},
                "arms": {arm: {"measured": value, "predicted": ends} for arm, (value, ends) in held.arms.items()},
                "inside": held.is_inside,
                "error": held.error,
                "order": held.order_is_right,
            }
            for held in each.held
        },
        "by_pair": [{"pair": pair, "predicted": a, "measured": b} for pair, a, b in each.by_pair],
        "recalibrate": [{"what": again.what, "evidence": again.evidence} for again in each.recalibrate],
    }  # fmt: skip


def write(found: Score, folder: Path) -> list[Path]:
    """``score.html``, ``score.md`` and ``score.json``; and the sealed review with its part 17, where there is one.

    Each is whole or not there. The review beside the seal stays as it was before the campaign.
    """
    review = review_of(found)
    page, text = html(review, {}), json.dumps(document(found), indent=1, ensure_ascii=False) + "\n"
    files = {"score.html": page, "score.md": markdown(review), "score.json": text}
    sealed = found.seal.folder / "review.html"
    if sealed.exists() and folder.resolve() != found.seal.folder.resolve():
        files["review.html"] = filled(sealed.read_text("utf-8"), page)
    for name, content in files.items():
        with replacing(folder / name) as out:
            out(content.encode())
    return [folder / name for name in files]


def filled(review: str, scored: str) -> str:
    """The page of a review with its part 17 taken from the page of a score."""
    pattern = re.compile(r'<section id="part17".*?</section>', re.DOTALL)
    section = pattern.search(scored)
    assert section is not None
    return pattern.sub(lambda _: section.group(), review, count=1)
