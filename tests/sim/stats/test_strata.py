"""Strata recombined: weights count, not the luck of a draw."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from sim.stats import bca_interval, compare
from sim.stats.strata import pooled, weighted_mean

RNG = np.random.default_rng(11)


def test_one_stratum_is_the_plain_comparison() -> None:
    """The same mean, the same t interval, the same bootstrap."""
    logs = RNG.normal(0.1, 0.05, 40)
    alone, plain = pooled([logs]), compare(np.ones(40), np.exp(logs), "higher")
    assert (alone.ratio, alone.lo, alone.hi) == (
        pytest.approx(plain.ratio), pytest.approx(plain.lo), pytest.approx(plain.hi),
    )  # fmt: skip
    assert (alone.boot_lo, alone.boot_hi) == (pytest.approx(plain.boot_lo), pytest.approx(plain.boot_hi))
    assert np.log([alone.boot_lo, alone.boot_hi]) == pytest.approx(bca_interval(logs))


def test_two_strata_are_welchs_interval() -> None:
    """With weights 1/2 and a sign the estimate is half of Welch's difference; so is its interval."""
    a, b = RNG.normal(0.0, 0.1, 12), RNG.normal(0.3, 0.02, 30)
    welch = scipy_stats.ttest_ind(a, -b, equal_var=False)
    ci = welch.confidence_interval(0.95)
    found = pooled([a, b])
    assert np.log([found.lo, found.hi]) == pytest.approx([ci.low / 2, ci.high / 2])
    assert found.p == pytest.approx(welch.pvalue)


def test_cells_weigh_alike_whatever_their_pairs() -> None:
    """100 pairs of a doubling and 2 of a halving cancel."""
    assert pooled([np.full(100, np.log(2)), np.full(2, np.log(0.5))]).ratio == pytest.approx(1)


def test_published_classes_under_drawn_and_exact_weights() -> None:
    """From slime 2206: 8, 10 and 2 pairs of 1.357, 1.149 and 0.848 give 1.1913; exact weights 1.177."""
    classes = [np.full(n, np.log(ratio)) for n, ratio in ((8, 1.357), (10, 1.149), (2, 0.848))]
    assert compare(np.ones(20), np.exp(np.concatenate(classes)), "higher").ratio == pytest.approx(1.1913, abs=5e-5)
    assert pooled(classes, [0.375, 0.5, 0.125]).ratio == pytest.approx(1.177, abs=5e-4)


def test_no_spread_no_width_and_one_pair_no_interval() -> None:
    """Classes without noise have an interval of width zero; a class of one pair leaves none."""
    exact = pooled([np.zeros(3), np.full(3, 1.0)])
    assert exact.lo == exact.hi == exact.ratio
    alone = pooled([np.zeros(3), np.array([1.0])])
    assert (alone.lo, alone.reason) == (None, "a stratum of one pair, no interval")


def test_refusals() -> None:
    """Weights that do not add up, and a stratum without a pair."""
    with pytest.raises(ValueError, match="add up to 1"):
        pooled([np.zeros(2), np.zeros(2)], [0.5, 0.6])
    with pytest.raises(ValueError, match="no pair"):
        pooled([np.zeros(2), np.zeros(0)])


def test_few_and_skewed_pairs_refuse_the_bootstrap() -> None:
    """19 pairs, or residuals with a long tail."""
    assert pooled([RNG.normal(size=9), RNG.normal(size=10)]).caution == "few"
    tail = 0.1 * scipy_stats.expon.ppf((np.arange(12) + 0.5) / 12)
    assert pooled([tail, tail]).caution == "skewed"


def test_weighted_mean() -> None:
    """Means by weight with Satterthwaite's t; no interval where a stratum has one value; none needed without spread."""
    a, b = np.array([1.0, 2.0, 3.0]), np.array([10.0, 12.0])
    centre, half = weighted_mean([a, b], [0.75, 0.25])
    assert centre == pytest.approx(0.75 * 2 + 0.25 * 11)
    parts = [0.75**2 * 1 / 3, 0.25**2 * 2 / 2]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    assert half == pytest.approx(scipy_stats.t.ppf(0.975, freedom) * sum(parts) ** 0.5)
    assert weighted_mean([a, b[:1]], [0.5, 0.5]) == (pytest.approx(6.0), None)
    assert weighted_mean([np.ones(2), np.ones(2)], [0.5, 0.5]) == (1.0, 0.0)


def test_stratified_interval_covers() -> None:
    """Two cells of 6 and 13 pairs with unlike spreads: 95 % in 2,000 campaigns, to 99 % binomial bounds."""
    hits = 0
    for _ in range(2000):
        found = pooled([RNG.normal(0.2, 0.3, 6), RNG.normal(0.0, 0.05, 13)])
        hits += found.lo <= np.exp(0.1) <= found.hi
    assert 0.935 < hits / 2000 < 0.965
