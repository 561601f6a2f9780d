"""A scenario as files for the real benchmark: paired traces, how each arm is started, the order of runs, a manifest."""

from sim.export._arms import fleet_size
from sim.export._check import check_export, read_manifest, warnings
from sim.export._manifest import MANIFEST
from sim.export._starts import Start, changed_lines, starts
from sim.export._write import FORMATS, Plan, export

__all__ = [
    "FORMATS",
    "MANIFEST",
    "Plan",
    "Start",
    "changed_lines",
    "check_export",
    "export",
    "fleet_size",
    "read_manifest",
    "starts",
    "warnings",
]
