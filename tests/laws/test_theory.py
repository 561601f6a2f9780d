"""L12: Little's law, which holds of every queue; closed forms are in test_theory_queues.py."""

import numpy as np

from sim.replication import replicate
from tests.strategies import cell_of, world


def test_littles_law():
    """Requests present on average are arrivals a second times the mean stay, exactly, over a run that ends empty."""
    cell = cell_of(
        world(workload={"groups": 300, "arrivals": {"kind": "poisson", "groups_per_s": 30.0}, "output_tokens": 5})
    )
    requests = replicate(cell, 0).numpy("requests")
    changes = sorted(
        [(at, 1) for at in requests["submitted"].tolist()] + [(at, -1) for at in requests["ended"].tolist()]
    )
    times, steps = zip(*changes, strict=True)
    area = int(np.dot(np.cumsum(steps)[:-1], np.diff(times)))
    assert area == int((requests["ended"] - requests["submitted"]).sum())
