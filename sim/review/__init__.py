"""The design review: what a maintainer reads before GPU time is spent, made of one scenario's two arms."""

from sim.review._across import Across, Place, across, write_across
from sim.review._figures import Figure, figures
from sim.review._gather import Evidence, choose, gather
from sim.review._judge import Findings, judge
from sim.review._knobs import Knob
from sim.review._model import Check, Judgement, Line, Part, Review, Sealed, Table
from sim.review._page import findings, review_of
from sim.review._render import html, markdown, write
from sim.review.parts.rule import rule_of
from sim.review.sensitivity import BUDGET

__all__ = [
    "BUDGET",
    "Across",
    "Check",
    "Evidence",
    "Figure",
    "Findings",
    "Judgement",
    "Knob",
    "Line",
    "Part",
    "Place",
    "Review",
    "Sealed",
    "Table",
    "across",
    "choose",
    "figures",
    "findings",
    "gather",
    "html",
    "judge",
    "markdown",
    "review_of",
    "rule_of",
    "write",
    "write_across",
]
