"""A result, shown: a table for people, one JSON document for programs, charts for both."""

from sim.report.comparison import Comparison
from sim.report.document import document, schema, to_json
from sim.report.pictures import save_charts
from sim.report.result import Arm, Placement, Result, assemble
from sim.report.table import print_result

__all__ = [
    "Arm",
    "Comparison",
    "Placement",
    "Result",
    "assemble",
    "document",
    "print_result",
    "save_charts",
    "schema",
    "to_json",
]
