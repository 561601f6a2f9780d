"""Validation: published results, analytic truths and null controls, each a case that one command runs again.

A case is a YAML file under ``scenarios/validation`` with a world and rows; ``_case.py`` says what a row holds. What the
rows gave ships as ``record.json``.
"""

from sim.validation._case import Case, Repeats, Row, case_names, load_case
from sim.validation._page import page
from sim.validation._record import (
    Agreement,
    RatioError,
    Record,
    RecordedCase,
    RecordedRow,
    agreement,
    dump,
    merged,
    ratio_errors,
    read_record,
    recall,
    record_of,
)
from sim.validation._run import Outcome, Verdicts, run_case, run_cases
from sim.validation._traits import Traits, traits_of

__all__ = [
    "Agreement",
    "Case",
    "Outcome",
    "RatioError",
    "Record",
    "RecordedCase",
    "RecordedRow",
    "Repeats",
    "Row",
    "Traits",
    "Verdicts",
    "agreement",
    "case_names",
    "dump",
    "load_case",
    "merged",
    "page",
    "ratio_errors",
    "read_record",
    "recall",
    "record_of",
    "run_case",
    "run_cases",
    "traits_of",
]
