"""Part 4: what is taken for given."""

from sim.review._assumptions import register
from sim.review._gather import Evidence
from sim.review._model import Part


def assumptions(ev: Evidence) -> Part:
    """4: what is taken for given."""
    return Part(4, "Assumptions register", tables=[register(ev.assumptions)])
