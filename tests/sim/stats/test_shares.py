"""Fieller's interval of a ratio of means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as theory

from sim.stats.shares import p_more_often, ratio_of_means, share_of_all


def test_by_hand():
    """Two pairs, x 1 and 3, y 1 and 1: r = 1/2; v_xx = 1, v_yy = v_xy = 0; t = 12.7, so x is not told from 0."""
    found = ratio_of_means(np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    assert (found.value, found.lo, found.hi) == (0.5, None, None)
    assert ratio_of_means(np.ones(3), np.array([-1.0, 0.0, 1.0])) is None
    assert ratio_of_means(np.array([2.0]), np.array([4.0])).lo is None


def test_a_constant_share_has_no_width():
    """Y is 0.3 x in every pair."""
    x = np.array([10.0, 11.0, 12.0, 9.0, 10.5])
    found = ratio_of_means(0.3 * x, x)
    assert (found.lo, found.hi) == (pytest.approx(0.3), pytest.approx(0.3))


def test_it_covers():
    """In 2,000 draws of 12 pairs with a spread of a quarter the true share is inside in 95 of 100, give or take 1.5."""
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(2000):
        x = 4 + rng.normal(size=12)
        y = 0.25 * x + 0.5 + 0.7 * rng.normal(size=12)
        found = ratio_of_means(y, x)
        inside += found.lo <= 1.5 / 4 <= found.hi
    assert inside / 2000 == pytest.approx(0.95, abs=0.015)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(1, 9)), min_size=3, max_size=12), st.floats(0.1, 10))
def test_it_holds_its_value_and_follows_units(pairs, unit):
    """The value is inside; seconds or hours, the share is the same."""
    y, x = (np.array(each) for each in zip(*pairs, strict=True))
    one, other = ratio_of_means(y, x), ratio_of_means(unit * y, unit * x)
    assert one.value == pytest.approx(other.value, abs=1e-9)
    if one.lo is not None:
        assert one.lo - 1e-9 <= one.value <= one.hi + 1e-9
        assert (one.lo, one.hi) == (pytest.approx(other.lo, abs=1e-6), pytest.approx(other.hi, abs=1e-6))


def test_planned_strata_are_weighted():
    """One pair in three lies where it counts two thirds: the share is that of the weighted means, and is covered so."""
    rng = np.random.default_rng(8)
    first = np.arange(18) < 6
    masks, weights = [first, ~first], [2 / 3, 1 / 3]
    inside, apart = 0, []
    for _ in range(2000):
        x = np.where(first, 8.0, 2.0) + rng.normal(size=18)
        y = np.where(first, 6.0, 0.5) + 0.5 * rng.normal(size=18)
        found = ratio_of_means(y, x, (masks, weights))
        inside += found.lo <= (4 + 1 / 6) / 6 <= found.hi
        apart.append(found.value - ratio_of_means(y, x).value)
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)
    assert np.mean(apart) > 0.08
    assert ratio_of_means(x, x, ([first, np.zeros(18, bool)], weights)) is None


@given(st.integers(1, 60), st.data())
def test_the_interval_of_a_count_is_scipys_exact_one(of: int, data: st.DataObject) -> None:
    """Clopper and Pearson; its ends are 0 and 1 where nothing or all was counted."""
    count = data.draw(st.integers(0, of))
    exact = theory.binomtest(count, of).proportion_ci(0.95, "exact")
    assert share_of_all(count, of) == pytest.approx((exact.low, exact.high))


def test_two_of_six() -> None:
    """Tell of 4 to 78 %."""
    assert share_of_all(2, 6) == pytest.approx((0.0433, 0.7772), abs=1e-4)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 30), st.integers(0, 30))
def test_more_often_is_fishers_exact_test(some, missed, others, missed_others):
    """As SciPy has it; without a hit more than chance gives there is nothing to tell."""
    own = p_more_often(some, some + missed, others, others + missed_others)
    table = [[some, missed], [others, missed_others]]
    assert own == pytest.approx(theory.fisher_exact(table, alternative="greater").pvalue, abs=1e-12)
    assert p_more_often(0, some + missed, others, others + missed_others) == pytest.approx(1)
