"""The prediction interval of a mean to come."""

import math

import numpy as np
import pytest

from sim.stats.future import prediction


def test_by_hand():
    """Deviation 1 of two values, one to come: 12.706 times the root of 1.5 to either side."""
    lo, hi = prediction(np.array([0.0, math.sqrt(2)]), 1)
    assert (hi - lo) / 2 == pytest.approx(12.7062 * math.sqrt(1.5), rel=1e-4)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_it_covers(noise):
    """The mean of three to come falls inside 95 times of 100, also where those have noise of their own."""
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(4000):
        lo, hi = prediction(rng.normal(size=40), 3, noise=noise)
        inside += lo <= (rng.normal(size=3) + noise * rng.normal(size=3)).mean() <= hi
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)
