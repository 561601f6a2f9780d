"""Which assumption would turn the answer: both arms run again with it otherwise, under the same random numbers.

    tornado      each assumption at its ends, the ratio and the decision there
    conditions   the same for sizes of the job and of the fleet
    break-even   where a ratio crosses 1, or the smallest effect of interest, closed in on by further runs
    grid         the two widest bars against each other
    worth        what knowing an assumption is worth, by what measuring it costs
    joint        all assumptions drawn at once: the width that inputs give to the ratio

A decision elsewhere is made as that of the review is, from the interval there. With fewer pairs it is wider: where it
lies on one side of the smallest effect of interest it decides all the same, else it is undecided, and no flip. How
many pairs a setting gets follows from a budget of requests, not of time, so that the same command
gives the same numbers on any machine.
"""

from sim.review.sensitivity._bars import Bar, End
from sim.review.sensitivity._break_evens import BreakEven
from sim.review.sensitivity._budget import BUDGET, LEAST_REQUESTS, Budget
from sim.review.sensitivity._centre import Centre
from sim.review.sensitivity._grid import Grid, Tile
from sim.review.sensitivity._joint import Joint
from sim.review.sensitivity._study import Sensitivity, registered, study
from sim.review.sensitivity._worth import Worth

__all__ = [
    "BUDGET",
    "LEAST_REQUESTS",
    "Bar",
    "BreakEven",
    "Budget",
    "Centre",
    "End",
    "Grid",
    "Joint",
    "Sensitivity",
    "Tile",
    "Worth",
    "registered",
    "study",
]
