"""Recorded decisions of real routers, held against the policies.

``check`` reads vectors from files and folders and says for each how far our policy agrees; ``replay`` does it for one
vector and a policy of the caller's choice; ``judge`` holds recorded counts of random choices against exact
probabilities. The format is described in ``tests/conformance/vectors/README.md``.
"""

from sim.conform._counts import CaseResult, judge
from sim.conform._files import FileResult, Outcome, check
from sim.conform._products import NotApplicableError, model_of
from sim.conform._replay import Row, World, distribution, open_world, outcomes, replay

__all__ = [
    "CaseResult",
    "FileResult",
    "NotApplicableError",
    "Outcome",
    "Row",
    "World",
    "check",
    "distribution",
    "judge",
    "model_of",
    "open_world",
    "outcomes",
    "replay",
]
