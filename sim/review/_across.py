"""One question over several cells, side by side: the same two arms at 4, 16 and 32 groups, say.

    ratio     of the metric that decides, turned so that more than 1 is better, with its 95 % interval
    p         two-sided, of no effect, by the t that the interval is made of
    Holm      p corrected for the number of cells: what is claimed of single cells together holds at 5 %
    all       geometric mean over pairs with cells weighted equally, the primary of the decision rule
    default   the rule's "in every cell": no lower end at or below 1. It needs no correction: a claim that has to hold
              in every cell is wrong no more often than its weakest part

Of a cell without an interval nothing is claimed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.errors import ScenarioError
from sim.files import write_whole, writing
from sim.metrics import METRICS
from sim.review._gather import Evidence
from sim.review._judge import judge
from sim.review._model import Table
from sim.review._page import findings
from sim.stats import Ratio
from sim.stats.many import holm
from sim.stats.paired import interval_p
from sim.stats.strata import Pooled, pooled

SHOWN = 0.05
"""Corrected p below which a cell is said to be better or worse."""


@dataclass(frozen=True, slots=True)
class Place:
    """One cell."""

    name: str
    paired: Ratio
    """As measured: not turned."""
    oriented: tuple[float, float, float] | None
    """More than 1 is better; None without an interval."""
    p: float
    p_holm: float
    recommends: str
    """RUN, DO NOT RUN or No recommendation."""
    inside_share: float
    """Of the simulated time, within the calibrated region."""

    @property
    def says(self) -> str:
        """What is claimed of this cell beside the others."""
        if self.oriented is None or self.p_holm >= SHOWN:
            return "not separable"
        return "better" if self.oriented[0] > 1 else "worse"


@dataclass(frozen=True, slots=True)
class Across:
    """All cells of one question."""

    metric: str
    candidate: str
    places: Sequence[Place]
    whole: Pooled
    """Over cells of equal weight, more than 1 is better."""

    @property
    def holds_everywhere(self) -> bool:
        """The candidate is better in every cell."""
        return all(each.oriented is not None and each.oriented[1] > 1 for each in self.places)

    @property
    def says(self) -> str:
        """The rule over cells, in a sentence."""
        better = [each.name for each in self.places if each.says == "better"]
        worse = [each.name for each in self.places if each.says == "worse"]
        count = len(self.places)
        found = f"{self.candidate} is better in {len(better)} of {count} cells and worse in {len(worse)}, after Holm"
        if self.holds_everywhere:
            return f"{found}; the lower end is above 1 in every cell, which is what a default asks for"
        open_cells = [each.name for each in self.places if each.oriented is None or each.oriented[1] <= 1]
        return f"{found}; the lower end is not above 1 in {', '.join(open_cells)}: no default"

    @property
    def table(self) -> Table:
        """Cells side by side, and all of them."""
        rows = [
            (
                each.name,
                str(each.paired.pairs),
                *_said(each.oriented),
                _p(each.p),
                _p(each.p_holm),
                each.says,
                f"{each.inside_share:.0%}",
                each.recommends,
            )
            for each in self.places
        ]
        ends = None if self.whole.lo is None or self.whole.hi is None else (self.whole.lo, self.whole.hi)
        every = None if ends is None else (self.whole.ratio, *ends)
        rows.append(("all, equally", str(self.whole.pairs), *_said(every), "", "", "", "", ""))
        head = ("cell", "pairs", "ratio", "95 %", "p", "p, Holm", "verdict", "inside the region", "review")
        turned = ", old over new" if METRICS[self.metric].better == "lower" else ""
        title = f"Cells side by side: {self.metric}{turned}, more than 1 is better (simulated)"
        return Table("0.1", title, head, rows)


def across(cells: Sequence[tuple[str, Evidence]]) -> Across:
    """Cells of one question, by name; ScenarioError where they ask different ones or have no pairs."""
    asked = {(each.primary.metric, each.baseline, each.candidate) for _, each in cells}
    if len(asked) != 1:
        raise ScenarioError("cells of one question share their first metric, baseline and candidate")
    [(metric, _, candidate)] = asked
    sign = -1 if METRICS[metric].better == "lower" else 1
    turned = [(name, each, findings(each).oriented) for name, each in cells]
    p = [p_of(found, each.primary.paired.pairs) for _, each, found in turned]
    places = [
        Place(
            name=name,
            paired=each.primary.paired,
            oriented=found,
            p=single,
            p_holm=corrected,
            recommends=judge(findings(each)).word,
            inside_share=min(cover.inside_share for cover in each.coverage.values()),
        )
        for (name, each, found), single, corrected in zip(turned, p, holm(p), strict=True)
    ]
    logs = [sign * each.primary.logs for _, each in cells]
    if any(each.size == 0 for each in logs):
        raise ScenarioError(f"{metric} has no ratio in some cell: nothing to set side by side")
    return Across(metric, candidate, places, pooled(logs))


def p_of(found: tuple[float, float, float] | None, pairs: int) -> float:
    """Two-sided p of no effect, from a ratio and the ends of its t interval; 1 where there is no interval."""
    return 1.0 if found is None or pairs < 2 else interval_p(*found, pairs)


def _said(found: tuple[float, float, float] | None) -> tuple[str, str]:
    return ("–", "–") if found is None else (f"{found[0]:.3f}", f"[{found[1]:.3f}, {found[2]:.3f}]")


def _p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def write_across(found: Across, name: str, folder: Path) -> Path:
    """``cells.md``: the rule over cells in a sentence, and the cells side by side; whole or not at all."""
    table = found.table
    lines = [f"# {name}: {found.candidate} in {len(found.places)} cells", "", f"{found.says}.", ""]
    lines += [f"**{table.title}**", "", f"| {' | '.join(table.head)} |", f"|{' --- |' * len(table.head)}"]
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    with writing(f"cells in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    return write_whole(folder / "cells.md", "\n".join(lines) + "\n")
