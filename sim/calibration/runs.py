"""A measured serving run as a log: the tables that a simulated run writes, so that metrics and charts read both.

One engine; requests, groups and decisions in order of arrival. What was not measured stays empty: the engines table has
no rows, ``scheduled`` is -1 where the file has no such column, nothing counts as cached or preempted. Columns of the
file: ``sim/workload/_serving_csv.py``.
"""

from pathlib import Path

import numpy as np

from sim.errors import ScenarioError
from sim.log.record import FINISHED, UNSEEN, Log
from sim.workload._rows import find
from sim.workload._serving_csv import read_run

MEASURED = "measured"
"""Branch of the decisions: nobody knows how the request came to the engine."""


def read_measured(path: Path, *, tick_s: float = 1e-9, limit: int | None = None) -> Log:
    """The log of a measured run; ScenarioError if the file does not say when tokens came out."""
    run = read_run(find(path))
    for name in ("first_token_s", "last_token_s"):
        if name not in run.times:
            raise ScenarioError(f"{path}: has no column {name}: it can be replayed but not compared with")
    ticks = {name: np.rint(column / tick_s).astype(np.int64).tolist() for name, column in run.times.items()}
    unknown = [-1] * len(run.request_id)
    prompts, outputs = run.prompt.tolist(), run.output.tolist()
    scheduled = ticks.get("scheduled_s", unknown)
    log = Log([MEASURED], tick_s=tick_s)
    branch = log.branch_code(MEASURED)
    for i in np.argsort(run.times["queued_s"][:limit], kind="stable").tolist():
        queued, first, last = ticks["queued_s"][i], ticks["first_token_s"][i], ticks["last_token_s"][i]
        log.requests.append((
            i, i, i, 0, 1, 0, 0, queued, queued, scheduled[i], first, last, prompts[i], 0, 0, 0, outputs[i],
            outputs[i], prompts[i], 0, 0, FINISHED, 0, -1,
        ))  # fmt: skip
        log.decisions.append((i, 0, queued, 0, branch, 0, 0, 0, *UNSEEN))
        log.groups.append((i, queued, last, 1, 1))
    return log
