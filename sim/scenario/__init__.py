"""Scenarios: a YAML file becomes cells that can be run."""

from sim.scenario._ablates import Ablates
from sim.scenario._assumed import Assumption, Basis, place_in, value_at
from sim.scenario._cell import RESULTS_VERSION, Cell
from sim.scenario._check import Checked, Facts, check, differ, differences, resolved_document
from sim.scenario._find import locate, shipped
from sim.scenario._fleet import EngineType, kv_tokens
from sim.scenario._load import DEFAULT_METRICS, Scenario, load_scenario, load_workload
from sim.scenario._occupied import Keys, spread_of_keys
from sim.scenario._presets import names as presets
from sim.scenario._rules import explicit_keys, reads_key
from sim.scenario._schema import schema
from sim.scenario._sweep import Sweep, Variant, load_sweep
from sim.scenario._yaml import dump

__all__ = [
    "DEFAULT_METRICS",
    "RESULTS_VERSION",
    "Ablates",
    "Assumption",
    "Basis",
    "Cell",
    "Checked",
    "EngineType",
    "Facts",
    "Keys",
    "Scenario",
    "Sweep",
    "Variant",
    "check",
    "differ",
    "differences",
    "dump",
    "explicit_keys",
    "kv_tokens",
    "load_scenario",
    "load_sweep",
    "load_workload",
    "locate",
    "place_in",
    "presets",
    "reads_key",
    "resolved_document",
    "schema",
    "shipped",
    "spread_of_keys",
    "value_at",
]
