"""The parts of a review, a file each, from the evidence to text and tables.

Numbers of parts are those that design reviews of this kind have; what this version does not make is left out, also from
the table of contents: 15 the opposite conclusion.
"""

from sim.review._gather import Evidence
from sim.review._model import Part
from sim.review.parts.after import after
from sim.review.parts.assumptions import assumptions
from sim.review.parts.calibration import calibration
from sim.review.parts.files import files
from sim.review.parts.predictions import predictions
from sim.review.parts.question import question
from sim.review.parts.real_runs import real_runs
from sim.review.parts.reproduce import reproduce
from sim.review.parts.risk import risk
from sim.review.parts.rule import rule
from sim.review.parts.sensitivity import sensitivity
from sim.review.parts.system import system
from sim.review.parts.threats import threats
from sim.review.parts.verification import verification
from sim.review.parts.why import why
from sim.review.parts.workload import workload


def parts(ev: Evidence, command: str) -> list[Part]:
    """All of them, in order."""
    made = (
        question,
        system,
        workload,
        assumptions,
        verification,
        calibration,
        predictions,
        why,
        sensitivity,
        risk,
        real_runs,
        rule,
    )
    return [*(each(ev) for each in made), files(ev, command), threats(ev), reproduce(ev, command), after(ev)]
