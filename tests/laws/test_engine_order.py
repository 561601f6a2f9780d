"""L10: which engine is called the first matters to no policy with fair ties; to one with first ties it does."""

import numpy as np
import pytest

from sim.replication import replicate
from tests.strategies import POLICIES, cell_of, world

FIRST = {
    "aibrix.prefix_cache_preble": "costs are equal while nothing is known",
    "gym.counter": "sessions are counted through the list",
    "least_load": "",
    "openrlhf.least_unfinished": "",
    "preble.e2": "costs are equal while nothing is known",
    "ray.prefix_aware": "trees are equal at first",
    "roll.env_affinity": "",
    "roll.prompt_affinity": "",
    "skyrl.agent_service": "the turn begins at the first",
    "round_robin": "the turn begins at the first",
    "slime.router": "",
    "sticky_least_loaded": "",
    "verl.global_load_balancer": "",
}
"""Policies whose defaults favour an engine by its place in a list that is always the same; why, where it is no tie."""


def shares(policy, pairs, requests=12, first=False):
    """Requests that an engine of three gets of ``requests`` which never overlap, over replications."""
    counts = np.zeros(3)
    workload = {"groups": 1 if first else requests, "output_tokens": 1}
    workload["arrivals"] = {"kind": "poisson", "groups_per_s": 0.05}
    cell = cell_of(world(engines=3, workload=workload, policy=policy))
    for pair in range(pairs):
        engine = replicate(cell, pair).numpy("requests")["engine"]
        counts += np.bincount(engine, minlength=3)
    return counts / counts.sum()


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "random"},
        {"kind": "power_of_two"},
        {"kind": "round_robin"},
        {"kind": "least_load", "tie": "random"},
        {"kind": "least_load", "tie": "rotate"},
        {"kind": "smg.consistent_hashing"},
        {"kind": "sglang.consistent_hashing"},
    ],
    ids=lambda policy: "-".join(policy.values()),
)
def test_engines_are_alike(policy):
    """L10: each of three equal engines gets a third of 1,800 requests, within four standard errors."""
    # Binomial: sqrt(1/3 * 2/3 / 1800) = 0.0111. A ring favours an engine within a replication; over names it does not,
    # but the requests of a replication share a ring: the spread of arcs, CV about sqrt(2/(3*150)) = 0.067, adds
    # 0.067/3/sqrt(150) = 0.0018.
    assert shares(policy, pairs=150) == pytest.approx([1 / 3] * 3, abs=4 * 0.0113)


@pytest.mark.parametrize("kind", [kind for kind in POLICIES if kind not in FIRST])
def test_every_other_policy_begins_anywhere(kind):
    """L10 over all: the first request of a replication goes to each of three engines with the same probability."""
    # Binomial over 120 replications: sqrt(1/3 * 2/3 / 120) = 0.043.
    assert shares({"kind": kind}, pairs=120, first=True) == pytest.approx([1 / 3] * 3, abs=4 * 0.043)


@pytest.mark.parametrize("kind", FIRST)
def test_exceptions_do_depend_on_order(kind):
    """L10's exceptions: the first request of every replication goes to the same engine."""
    assert shares({"kind": kind}, pairs=5, first=True).max() == 1.0


def test_first_ties_do_depend_on_order():
    """Least load with ties to the first sends all that never overlaps to one engine."""
    assert shares({"kind": "least_load", "tie": "first"}, pairs=5).max() == 1.0
