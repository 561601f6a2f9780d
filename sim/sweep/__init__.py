"""Many replications: of the arms of one scenario (``run``), or of the arms of many variants of it (``sweep``)."""

from sim.sweep._run import run

__all__ = ["run"]
