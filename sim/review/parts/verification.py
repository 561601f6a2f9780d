"""Part 5: whether the simulator did what it says."""

from sim.review._gather import Evidence
from sim.review._model import Part, Table


def verification(ev: Evidence) -> Part:
    """5: whether the simulator did what it says."""
    words = {True: "holds", False: "FAILS", None: "not applicable"}
    rows = [(check.name, check.says, words[check.held]) for check in ev.checks]
    return Part(5, "Verification", tables=[Table("5.1", "Checks of these runs", ("check", "says", "verdict"), rows)])
