"""Power against published arithmetic and against simulated campaigns."""

import numpy as np
import pytest

from sim import placement
from sim.stats.power import (
    Cost,
    Design,
    Spread,
    ends_of_spread,
    pairs_needed,
    power,
    recombined,
    spread_from_interval,
    within,
)
from sim.stats.strata import pooled

RNG = np.random.default_rng(23)
PUBLISHED = spread_from_interval(1.116, 1.269, 20)
"""slime's pull request 2206: 20 pairs, 95 % interval 1.116 to 1.269."""


def test_published_ratio_from_its_classes() -> None:
    """8, 10 and 2 pairs of 1.357, 1.149 and 0.848 give the published 1.191; the exact weights of 4 keys give 1.177."""
    classes = (1.357, 1.149, 0.848)
    assert recombined(classes, (8, 10, 2)) == pytest.approx(1.1913, abs=5e-5)
    assert recombined(classes, list(placement.exact(4, 2).values())) == pytest.approx(1.177, abs=5e-4)


def test_published_spread_and_pairs() -> None:
    """SD 0.1466 unrounded: 195, 73, 31, 21, 11 and 8 pairs; rounded to 0.147 the first two become 197 and 74."""
    assert PUBLISHED == pytest.approx(0.1466, abs=5e-5)
    effects = (0.03, 0.05, 0.08, 0.10, 0.15, 0.19)
    assert [pairs_needed(effect, PUBLISHED) for effect in effects] == [195, 73, 31, 21, 11, 8]
    assert [pairs_needed(effect, 0.147) for effect in effects[:2]] == [197, 74]


@pytest.mark.parametrize(
    ("spread", "pairs"),
    [
        (0.018, [(9, 11), (6, 7), (4, 4), (3, 3), (3, 3)]),
        (0.050, [(52, 69), (25, 33), (11, 14), (5, 6), (4, 4)]),
        (0.078, [(124, 165), (57, 76), (23, 29), (8, 10), (5, 6)]),
        (0.104, [(219, 292), (100, 133), (38, 50), (12, 15), (7, 8)]),
        (0.147, [(435, 581), (197, 262), (74, 98), (21, 27), (11, 14)]),
    ],
)
def test_table_of_pairs(spread: float, pairs: list[tuple[int, int]]) -> None:
    """80 and 90 % power for effects of 2, 3, 5, 10 and 15 %."""
    effects = (0.02, 0.03, 0.05, 0.10, 0.15)
    assert [tuple(pairs_needed(e, spread, wanted=p) for p in (0.8, 0.9)) for e in effects] == pairs


@pytest.mark.parametrize(
    ("groups", "largest", "piled"),
    [(4, 1.375, 62.5), (8, 1.273, 28.9), (16, 1.196, 7.7), (32, 1.140, 0.7), (64, 1.099, 0.01)],
)
def test_published_follow_up_of_more_groups(groups: int, largest: float, piled: float) -> None:
    """Two engines: expected largest over mean, and the chance that one engine holds three quarters, in percent."""
    assert placement.max_over_mean(groups, 2) == pytest.approx(largest, abs=5e-4)
    assert 100 * placement.p_fullest(groups, 2, 0.75) == pytest.approx(piled, abs=0.05)


@pytest.mark.parametrize(
    ("pairs", "effect", "spread"), [(5, 0.1, 0.06), (20, 0.05, 0.1), (20, -0.05, 0.05), (80, 0.02, 0.08)]
)
def test_power_is_that_of_simulated_campaigns(pairs: int, effect: float, spread: float) -> None:
    """Share of 4,000 campaigns whose t interval leaves out 1, within 3 points."""
    logs = RNG.normal(np.log1p(effect), spread, (4000, pairs))
    from scipy.stats import ttest_1samp

    shown = (ttest_1samp(logs, 0, axis=1).pvalue < 0.05).mean()
    assert power(pairs, effect, spread) == pytest.approx(shown, abs=0.03)


def test_ends_of_power() -> None:
    """No effect is claimed at the level, one pair shows nothing, no spread shows everything; three pairs at least."""
    assert power(30, 0.0, 0.1) == pytest.approx(0.05)
    assert (power(1, 0.5, 0.1), power(2, 0.01, 0.0), pairs_needed(0.5, 0.0)) == (0.0, 1.0, 3)
    assert pairs_needed(0.05, 1e-9) == 3
    assert 0.9 < power(3, 0.05, 0.01) < power(4, 0.05, 0.01) < power(3, 0.05, 1e-4) == 1
    for bad in ({"effect": 0.0}, {"effect": -1.0}, {"effect": 0.1, "wanted": 1.0}, {"effect": 1e-6}):
        with pytest.raises(ValueError):
            pairs_needed(**{"spread": 0.2, **bad})


def test_real_noise_comes_from_both_arms() -> None:
    """A pair adds two runs; without simulated spread a pair of 1.8 % runs varies by 2.5 %."""
    assert Spread(0.0).real == pytest.approx(2**0.5 * 0.018)
    assert Spread(0.3, 0.4).real == pytest.approx((0.09 + 0.32) ** 0.5)


def test_within_classes() -> None:
    """Weighted variance within; a class of one pair is stood in for; none has two: nothing to say."""
    a, b = np.array([-1.0, 0, 1]), np.array([-2.0, 0, 2])
    assert within([a, b], [0.25, 0.75]) == pytest.approx((0.25 + 3) ** 0.5)
    assert within([a, b, b[:1]], [0.2, 0.2, 0.6]) == pytest.approx(2.5**0.5)
    with pytest.raises(ValueError, match="two pairs"):
        within([a[:1]], [1.0])


def test_gpu_hours() -> None:
    """12 pairs, 2 cells, 2 arms, 2 GPUs, 20 minutes, a tenth more for failures: 35.2, as in a review by hand."""
    assert Cost(gpus=2, run_h=1 / 3).gpu_hours(12, cells=2) == pytest.approx(35.2)
    assert Cost(gpus=2, run_h=0.25, overhead_h=0.25, failure_rate=0).gpu_hours(1) == 2


def test_products_come_out_as_printed() -> None:
    """A run's minutes have three digits, and hours are made of these: 144 runs x 2 GPUs x 10.1 min + 10 % = 53.3."""
    cost = Cost(gpus=2, run_h=6.59 / 3600, overhead_h=1 / 6)
    assert cost.minutes == 10.1
    assert cost.gpu_hours(72) == pytest.approx(144 * 2 * 10.1 * 1.1 / 60)
    assert Cost(gpus=1, run_h=2 / 3600).minutes == pytest.approx(0.0333)


def test_power_by_class_is_that_of_blocked_campaigns() -> None:
    """Share of 2,000 campaigns whose recombined interval leaves out 1; few pairs of a class cost degrees of freedom."""
    shares, centres, spreads = (0.375, 0.5, 0.125), np.log([1.25, 1.0, 0.8]), (0.05, 0.08, 0.04)
    design = Design(shares, spreads, lambda pairs: [round(share * pairs) for share in shares])
    effect = float(np.exp(np.dot(shares, centres))) - 1
    shown = 0
    for _ in range(2000):
        parts = [RNG.normal(*each) for each in zip(centres, spreads, (6, 8, 2), strict=True)]
        found = pooled(parts, shares)
        shown += not found.lo <= 1 <= found.hi
    assert design.power(16, effect) == pytest.approx(shown / 2000, abs=0.04)
    assert design.power(8, effect) == 0  # the rarest class has one pair
    assert design.power(design.needed(0.05), 0.05) >= 0.8


def test_ends_of_a_spread() -> None:
    """Six pairs know their spread to within a factor of 0.62 and 2.45; in 95 of 100 samples the ends hold it."""
    assert ends_of_spread(1.0, 6) == pytest.approx((0.624, 2.453), abs=1e-3)
    ends = np.array([ends_of_spread(each.std(ddof=1), 8) for each in RNG.normal(0, 2.0, (2000, 8))])
    assert ((ends[:, 0] < 2) & (ends[:, 1] > 2)).mean() == pytest.approx(0.95, abs=0.02)
