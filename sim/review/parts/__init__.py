"""The parts of a review, a file each, from the evidence to text and tables.

Numbers of parts are those that design reviews of this kind have.
"""

from sim.review._gather import Evidence
from sim.review._model import Part
from sim.review.parts.after import after
from sim.review.parts.assumptions import assumptions
from sim.review.parts.calibration import calibration
from sim.review.parts.files import files
from sim.review.parts.opposite import opposite
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
    first = (
        question,
        system,
        workload,
        assumptions,
        verification,
        calibration,
        predictions,
        why,
        sensitivity,
    )
    return [
        *(each(ev) for each in first),
        risk(ev, command),
        *(each(ev) for each in (real_runs, rule)),
        files(ev, command),
        *(each(ev) for each in (threats, opposite)),
        reproduce(ev, command),
        after(ev),
    ]
