"""The fullest engine under a good hash, for any number of keys: the published table, exact counts, limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import placement
from sim.occupancy import max_over_mean, quantile_over_mean

KEYS = (4, 8, 16, 32, 64, 128)
PUBLISHED = {
    2: ((1.38, 2.00), (1.28, 1.75), (1.20, 1.50), (1.14, 1.38), (1.10, 1.25), (1.07, 1.17)),
    4: ((2.13, 3.00), (1.77, 2.50), (1.54, 2.00), (1.37, 1.75), (1.26, 1.50), (1.19, 1.34)),
    8: ((3.30, 6.00), (2.60, 4.00), (2.10, 3.00), (1.76, 2.25), (1.53, 1.88), (1.37, 1.63)),
    12: ((4.35, 6.00), (3.39, 4.50), (2.61, 3.75), (2.10, 2.63), (1.76, 2.25), (1.53, 1.88)),
    28: ((8.46, 14.0), (6.07, 10.5), (4.37, 7.00), (3.27, 4.38), (2.54, 3.50), (2.05, 2.63)),
}
TABLE = [(engines, keys, *cell) for engines, row in PUBLISHED.items() for keys, cell in zip(KEYS, row, strict=True)]


@pytest.mark.parametrize(("engines", "keys", "expected", "p95"), TABLE)
def test_the_published_table(engines, keys, expected, p95):
    """E[max/mean] and its 95 % quantile of hashed keys; the table was simulated, to 0.35 % and one key."""
    assert max_over_mean(keys, engines) == pytest.approx(expected, abs=0.006 + 0.0035 * expected)
    assert quantile_over_mean(keys, engines) == pytest.approx(p95, abs=engines / keys + 0.006)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 10))
def test_few_keys_are_those_counted_in_whole_numbers(keys, engines):
    """The transform gives what the generating function gives exactly."""
    assert max_over_mean(keys, engines) == pytest.approx(placement.max_over_mean(keys, engines), rel=1e-9)
    chances = np.cumsum(placement.fullest(keys, engines))
    at = quantile_over_mean(keys, engines) * keys / engines
    assert chances[round(at)] >= 0.95 - 1e-9
    assert at < 1 or chances[round(at) - 1] < 0.95 + 1e-9


def test_a_session_population_on_twelve_engines():
    """610 keys on 12 engines: 20,000 drawn placements have the mean and the quantile that are computed."""
    drawn = np.random.Generator(np.random.PCG64(3)).multinomial(610, [1 / 12] * 12, size=20_000).max(axis=1) * 12 / 610
    assert max_over_mean(610, 12) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / math.sqrt(20_000))
    assert quantile_over_mean(610, 12) == pytest.approx(np.quantile(drawn, 0.95), abs=1.01 * 12 / 610)


@pytest.mark.parametrize("engines", [4, 64])
def test_many_keys_are_close_to_normal(engines):
    """A million keys: the excess of the fullest is that of the largest of N normal variables, to a few percent."""
    keys = 1_000_000
    excess = (max_over_mean(keys, engines) - 1) * math.sqrt(keys / engines)
    drawn = np.random.Generator(np.random.PCG64(5)).standard_normal((2000, engines))
    normal = (drawn - drawn.mean(axis=1, keepdims=True)).max(axis=1).mean()
    assert excess == pytest.approx(normal, rel=0.04)


def test_one_engine_holds_all():
    """And nothing is no placement."""
    assert max_over_mean(7, 1) == quantile_over_mean(7, 1) == 1
    with pytest.raises(ValueError, match="needs keys"):
        max_over_mean(0, 3)
