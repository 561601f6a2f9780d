"""Validation: published results, analytic truths and null controls, each a case that one command runs again.

A case is a YAML file under ``scenarios/validation`` with a world and rows; ``_case.py`` says what a row holds.
"""

from sim.validation._case import Case, Row, case_names, load_case
from sim.validation._page import page
from sim.validation._run import Outcome, Verdicts, run_case

__all__ = ["Case", "Outcome", "Row", "Verdicts", "case_names", "load_case", "page", "run_case"]
