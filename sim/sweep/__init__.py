"""Many replications: of the arms of one scenario (``run``), or of the arms of many variants of it (``sweep``)."""

from sim.sweep._pools import cores, processes
from sim.sweep._run import Progress, run, run_all
from sim.sweep._sweep import SweepResult, Winner, sweep, winner

__all__ = ["Progress", "SweepResult", "Winner", "cores", "processes", "run", "run_all", "sweep", "winner"]
