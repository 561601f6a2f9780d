"""Small results made by hand, for the tests of tables, documents and charts."""

from pathlib import Path

import numpy as np
import polars as pl

from sim.metrics import METRICS
from sim.report import Arm, Result, assemble
from sim.report.placements import Placed
from sim.report.warn import warnings_of

SHOWN = ("samples_per_s", "group_completion_p95_s", "load_requests_max_over_mean", "prefill_tokens", "preemptions")
CLASSES = pl.DataFrame({"pair": range(8), "class": ["2:2", "2:2", "2:2", "3:1", "3:1", "3:1", "3:1", "3:1"]})


def arm(name: str, factor: float, *, pairs: int = 8, noise: float = 0.1, **more: object) -> Arm:
    """An arm whose metrics are ``factor`` times those of the baseline, up to noise; what counts as lost is zero."""
    draw = np.random.default_rng(len(name))
    columns = {metric: factor * np.exp(draw.normal(0, noise, pairs)) for metric in METRICS}
    columns |= {metric: np.zeros(pairs) for metric in ("rejected", "failed", "unfinished", "preemptions")}
    values = pl.DataFrame({"pair": range(pairs), **columns})
    return Arm(
        **{"name": name, "hash": name, "folder": Path(), "values": values, "decisions": name, "groups": 4} | more
    )


def result(*arms: Arm, metrics: tuple[str, ...] = SHOWN) -> Result:
    """These arms compared with the first."""
    return assemble("small-world", arms[0].name, metrics, arms, warnings_of(arms, metrics))


def two_arms() -> Result:
    """A baseline, and a candidate with placement classes."""
    return result(arm("sample", 1.0), arm("group", 1.3, placed=Placed(4, 2, CLASSES), is_hashed=True))
