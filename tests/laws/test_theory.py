"""L12: one engine of batch 1, steps of constant length, one token each, Poisson arrivals: M/D/1.

Mean wait over service time is rho / (2 (1 - rho)). Seeds are fixed beforehand; the intervals are Student's over
replications, 99 % over all that a test looks at together (Bonferroni).
"""

import numpy as np
import pytest
from scipy import stats

from sim.replication import replicate
from tests.strategies import cell_of, world

STEP_S = 0.01


def waits(load, *, customers, pairs, overlap=False):
    """Mean wait in units of a step, for each replication; the first tenth, from an empty start, is left out."""
    workload = {
        "groups": customers,
        "prompt": {"group_tokens": 10},
        "output_tokens": 1,
        "max_tokens": 1,
        "arrivals": {"kind": "poisson", "groups_per_s": load / STEP_S},
    }
    cell = cell_of(world(engine={"max_num_seqs": 1, "overlap": overlap}, workload=workload, seed=11))
    means = []
    for pair in range(pairs):
        requests = replicate(cell, pair).numpy("requests")
        order = np.argsort(requests["arrived"], kind="stable")[customers // 10 :]
        wait = requests["first_token"][order] - requests["arrived"][order]
        means.append(wait.mean() / (STEP_S * 1e9) - 1)
    return np.array(means)


def interval(means, tests):
    """Mean and half-width of its interval at a family-wise 99 %."""
    spread = stats.t.ppf(1 - 0.01 / tests / 2, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
    return means.mean(), spread


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_waits_of_a_queue_with_constant_service(load):
    """L12: the closed form lies in the interval."""
    mean, spread = interval(waits(load, customers=2000, pairs=12), 2)
    assert abs(mean - load / (2 * (1 - load))) < spread < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.5, 0.7, 0.85])
def test_waits_of_a_queue_with_constant_service_closely(load):
    """L12: the same with a half-width below 3 % of the value."""
    theory = load / (2 * (1 - load))
    mean, spread = interval(waits(load, customers=40_000, pairs=40), 4)
    assert abs(mean - theory) < spread < 0.03 * theory


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
