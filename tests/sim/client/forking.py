"""A workload with forks and followers, for tests: the sessions of another one, and what starts what."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sim.workload._model import Child


@dataclass
class Forking:
    """A workload whose sessions fork as ``children`` says, and whose groups follow as ``follows`` says."""

    inner: Any
    children: dict[int, list[Child]] = field(default_factory=dict)
    follows: dict[int, int] = field(default_factory=dict)

    def generate(self, streams, base):
        workload = self.inner.generate(streams, base)
        workload.children, workload.follows = self.children, self.follows
        late = set(self.follows.values())
        order = workload.order.tolist()
        workload.order = np.array([g for g in order if g not in late] + [g for g in order if g in late])
        return workload


def forking(cell, children=None, follows=None):
    """The cell with forks and followers."""
    return replace(cell, workload=Forking(cell.workload, children or {}, follows or {}))
