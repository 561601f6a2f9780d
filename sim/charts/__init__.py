"""Charts: each takes frames and gives an altair chart, whose data are those of the frame.

paired_ratios    every pair as a dot, mean and interval          ratio_by_cell   effect of each cell against lines
slopes           each pair of runs as a line between arms        metric_by_load  a metric over a swept field
completion_cdf   group completion with its p95 interval          winner_map      who wins over two swept fields
frontier         prefix hits against balance                     residuals       predicted against measured steps
shapes           distributions of what a workload holds
timeline         what each engine did when
response         a metric over a tuned parameter                tornado         a ratio with each assumption otherwise
decision_map     what is decided over two assumptions
"""

from sim.charts.cells import metric_by_load, ratio_by_cell, winner_map
from sim.charts.completions import completion_cdf
from sim.charts.files import save
from sim.charts.frontier import frontier, pareto
from sim.charts.page import document, place, split
from sim.charts.paired import NO_CLASS, Chart, paired_ratios
from sim.charts.residuals import residuals
from sim.charts.response import response
from sim.charts.shapes import shapes
from sim.charts.slopes import slopes
from sim.charts.timeline import COLOURS, timeline
from sim.charts.tornado import FLIPS, OPEN, SAME, decision_map, tornado

__all__ = [
    "COLOURS",
    "FLIPS",
    "NO_CLASS",
    "OPEN",
    "SAME",
    "Chart",
    "completion_cdf",
    "decision_map",
    "document",
    "frontier",
    "metric_by_load",
    "paired_ratios",
    "pareto",
    "place",
    "ratio_by_cell",
    "residuals",
    "response",
    "save",
    "shapes",
    "slopes",
    "split",
    "timeline",
    "tornado",
    "winner_map",
]
