"""L12: how policies rank over four engines with exponential service; all serve the same customers.

A central queue waits least, then least load, then power of two and round robin, whose order depends on the load, and
random waits most. Seeds are fixed beforehand; intervals of the paired differences hold at a family-wise 99 %.
"""

import pytest

from tests.laws.theory import controlled, student
from tests.laws.theory_worlds import EXPONENTIAL, Customers, Queue, run

WORLDS = {
    "central": {"policy": "least_load", "cap": 4},
    "least load": {"policy": "least_load"},
    "power of two": {"policy": "power_of_two"},
    "round robin": {"policy": "round_robin"},
    "random": {"policy": "random"},
}
ORDER = [
    ("central", "least load"),
    ("least load", "power of two"),
    ("least load", "round robin"),
    ("power of two", "random"),
    ("round robin", "random"),
]
QUICK, SLOW = (0.7,), (0.3, 0.5, 0.85, 0.9, 0.95)


def _check(load, customers):
    seen = {
        name: Customers.of(run(Queue(EXPONENTIAL, 4 * load, customers), 41, engines=4, **world), EXPONENTIAL)
        for name, world in WORLDS.items()
    }
    level = 0.01 / (len(ORDER) * len(QUICK + SLOW))
    for less, more in ORDER:
        difference = (seen[more].wait - seen[less].wait)[customers // 10 :]
        found = student(*controlled(difference, [], batches=20), level)
        assert found.mean > found.half, (less, more, found)


@pytest.mark.parametrize("load", QUICK)
def test_order_of_policies(load):
    """L12: each waits longer than the one before, beyond chance."""
    _check(load, 6_000)


@pytest.mark.slow
@pytest.mark.parametrize("load", SLOW)
def test_order_of_policies_at_other_loads(load):
    """L12: the same where differences are small, or take long to show."""
    _check(load, 100_000)
