"""Many replications: of the arms of one scenario (``run``), or of the arms of many variants of it (``sweep``)."""

from sim.sweep._run import run
from sim.sweep._sweep import SweepResult, Winner, sweep, winner

__all__ = ["SweepResult", "Winner", "run", "sweep", "winner"]
