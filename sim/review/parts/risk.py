"""Part 10: when the candidate is worse, and how often that is."""

import math
from typing import Final

from sim.metrics import METRICS
from sim.report.contrast import log_ratios
from sim.review._gather import Evidence
from sim.review._model import Part, Row, Table

WORST: Final = 5
"""Pairs shown where there are no placement classes."""


def risk(ev: Evidence) -> Part:
    """10: when the candidate is worse, and how often that is."""
    metric = ev.primary.metric
    placements = [each for each in ev.result.placements if each.candidate == ev.candidate]
    if placements:
        rows = [
            (
                each.name,
                f"{each.p_exact:.1%}",
                f"{each.p_simulated:.1%}",
                str(each.pairs),
                "–" if each.ratio.get(metric) is None else f"{each.ratio[metric]:.3f}",
                "worse" if _is_worse(ev, each.ratio.get(metric)) else "",
            )
            for each in placements
        ]
        head = ("keys per engine", "exact share", "simulated", "pairs", f"ratio of {metric}", "")
        table = Table("10.1", f"Placement classes of arm {ev.candidate}", head, rows)
        text = ["The class is luck of the hash: it can be planned in a real campaign (part 11), not in production."]
        return Part(10, "Regression risk", text, [table])
    table = Table(
        "10.1", f"The pairs in which {ev.candidate} does worst", ("pair", f"ratio of {metric}"), worst_pairs(ev)
    )
    text = ["There are too many keys, or no keys, for placement classes; any pair can be run again by its number."]
    return Part(10, "Regression risk", text, [table])


def worst_pairs(ev: Evidence) -> list[Row]:
    """The pairs with the worst ratios, worst first."""
    metric = ev.primary.metric
    found = log_ratios(ev.found.baseline, ev.found.candidate, metric)
    rows = found.sort("log_ratio", descending=METRICS[metric].better == "lower").head(WORST).rows()
    return [(str(pair), f"{math.exp(log_ratio):.3f}") for pair, log_ratio in rows]


def _is_worse(ev: Evidence, ratio: float | None) -> bool:
    return ratio is not None and (ratio > 1 if METRICS[ev.primary.metric].better == "lower" else ratio < 1)
