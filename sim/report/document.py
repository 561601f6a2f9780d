"""The result as one JSON document, the shape of ``result.schema.json``.

It holds no path, no number of jobs and no time of day: equal runs print equal bytes. A number that does not exist is
null: the interval of one replication, a ratio with a zero in it, the ratio of an empty placement class.
"""

import json
from importlib import resources
from typing import Any

from sim.report.comparison import Comparison
from sim.report.result import Placement, Result
from sim.stats import Mean


def document(result: Result) -> dict[str, Any]:
    """The whole result as plain data."""
    return {
        "scenario": result.scenario,
        "arms": {arm: {name: _mean(mean) for name, mean in means.items()} for arm, means in result.means.items()},
        "comparisons": [_comparison(comparison) for comparison in result.comparisons],
        "placements": [_placement(placement) for placement in result.placements],
        "notes": list(result.notes),
        "warnings": list(result.warnings),
    }


def to_json(result: Result) -> str:
    """The document as text, one newline at its end."""
    return json.dumps(document(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema of the document."""
    text = (resources.files("sim.report") / "result.schema.json").read_text("utf-8")
    return dict(json.loads(text))


def _mean(mean: Mean) -> dict[str, Any]:
    return {"mean": mean.mean, "lo": mean.lo, "hi": mean.hi, "n": mean.n}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    paired = comparison.paired
    return {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "metric": comparison.metric,
        "ratio": paired.ratio,
        "lo": paired.lo,
        "hi": paired.hi,
        "p": paired.p,
        "caution": paired.caution,
        "p_worse": paired.p_worse,
        "pairs": paired.pairs,
    }


def _placement(placement: Placement) -> dict[str, Any]:
    return {
        "candidate": placement.candidate,
        "class": placement.name,
        "p_exact": placement.p_exact,
        "p_simulated": placement.p_simulated,
        "pairs": placement.pairs,
        "ratio": dict(placement.ratio),
    }
