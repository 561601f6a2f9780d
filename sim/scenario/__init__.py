"""Scenarios: a YAML file becomes cells that can be run."""

from sim.scenario._cell import RESULTS_VERSION, Cell
from sim.scenario._load import Scenario, load_scenario, locate, shipped

__all__ = ["RESULTS_VERSION", "Cell", "Scenario", "load_scenario", "locate", "shipped"]
