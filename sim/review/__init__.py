"""The design review: what a maintainer reads before GPU time is spent, made of one scenario's two arms."""

from sim.review._figures import Figure, figures
from sim.review._gather import Evidence, choose, gather
from sim.review._judge import Findings, judge
from sim.review._model import Check, Judgement, Line, Part, Review, Table
from sim.review._page import findings, review_of
from sim.review._render import html, markdown, write

__all__ = [
    "Check",
    "Evidence",
    "Figure",
    "Findings",
    "Judgement",
    "Line",
    "Part",
    "Review",
    "Table",
    "choose",
    "figures",
    "findings",
    "gather",
    "html",
    "judge",
    "markdown",
    "review_of",
    "write",
]
