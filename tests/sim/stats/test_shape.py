"""Quantiles, humps and correlation against published tables, definitions and known laws."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from sim.stats.shape import common, dip, humps, quantile_interval, quantile_ranks

RNG = np.random.default_rng(17)
EVEN = (np.arange(200) + 0.5) / 200


@pytest.mark.parametrize(
    ("n", "low", "high"),
    [(64, 89, 101.6), (128, 90.6, 99.2), (256, 92.2, 98.0), (512, 93.0, 97.1), (1024, 93.7, 96.4), (4096, 94.3, 95.7)],
)
def test_ranks_around_the_95th_percentile(n: int, low: float, high: float) -> None:
    """Share of the values below either end; with 64 values there is no upper end."""
    ranks = quantile_ranks(n, 0.95)
    assert [100 * rank / n for rank in ranks] == [pytest.approx(low, abs=0.07), pytest.approx(high, abs=0.07)]


@given(st.integers(5, 400), st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.99]))
def test_ranks_miss_by_half_of_the_error_on_each_side(n: int, q: float) -> None:
    """The next rank inwards would miss more than 2.5 % on that side; the chosen one does not."""
    from scipy.stats import binom

    low, high = quantile_ranks(n, q)
    assert binom.cdf(low - 1, n, q) <= 0.025 < binom.cdf(low, n, q)
    assert binom.sf(high - 1, n, q) <= 0.025 < binom.sf(high - 2, n, q)


def test_quantile_with_and_without_an_upper_end() -> None:
    """1..200: the median lies between ranks 86 and 115; of 30 values the 95th percentile has no upper limit."""
    found = quantile_interval(np.arange(1.0, 201), 0.5)
    assert (found.value, found.lo, found.hi) == (100.5, 86.0, 115.0)
    assert quantile_interval(RNG.normal(size=30), 0.95).hi is None
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_interval(np.ones(3), 1.0)


def reference(x: np.ndarray) -> float:
    """The dip by its definition, as linear programs: convex up to a knot, concave from it, nearest to the steps."""
    x = np.sort(x)
    n, best = len(x), 1.0
    for mode in range(n):
        places = [*range(mode + 1), *range(mode, n)]  # the mode may hold an atom, so it stands on both sides
        width = len(places) + 1
        rows, bounds = [], []

        def require(terms: dict[int, float], bound: float, rows=rows, bounds=bounds, width=width) -> None:
            row = np.zeros(width)
            for place, factor in terms.items():
                row[place] = factor
            rows.append(row)
            bounds.append(bound)

        for v, i in enumerate(places):
            upper = i if i == mode and v == mode else i + 1  # value of the steps that the law must stay above
            lower = i + 1 if i == mode and v == mode + 1 else i
            require({v: -1, width - 1: -1}, -upper / n)
            require({v: 1, width - 1: -1}, lower / n)
        require({mode: 1, mode + 1: -1}, 0)
        for side, (start, stop) in ((1, (0, mode)), (-1, (mode + 1, width - 2))):
            slopes = [(v, 1 / (x[places[v + 1]] - x[places[v]])) for v in range(start, stop)]
            for v, s in slopes:
                require({v: s, v + 1: -s}, 0)
            for (v, s), (w, t) in pairwise(slopes):
                require({v: -side * s, w: side * (s + t), w + 1: -side * t}, 0)
        goal = np.eye(width)[-1]
        best = min(best, linprog(goal, A_ub=np.array(rows), b_ub=bounds, bounds=(0, 1)).fun)
    return best


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=3, max_size=11, unique=True))
def test_dip_is_the_distance_to_the_nearest_unimodal_law(values: list[int]) -> None:
    """Against the definition, solved as linear programs."""
    assert dip(np.array(values, float)) == pytest.approx(reference(np.array(values, float)), abs=1e-6)


def test_dip_at_its_ends() -> None:
    """Evenly spread values have the smallest dip, two atoms the largest, and equal values are one hump."""
    assert dip(np.arange(50.0)) == pytest.approx(1 / 100)
    assert dip(np.repeat([0.0, 1.0], 20)) == pytest.approx(0.25)
    assert dip(np.ones(8)) == 1 / 16


def test_two_humps_are_found_and_long_tails_are_none() -> None:
    """Arms that win in 40 % of the pairs and lose in the others; exponential and t3 noise have one hump."""
    split = np.where(np.arange(100) < 40, 0.8, 1.3) + RNG.normal(0, 0.03, 100)
    found = humps(split)
    assert found.are_two
    assert (found.low, found.high, found.share_high) == (
        pytest.approx(0.8, abs=0.01),
        pytest.approx(1.3, abs=0.01),
        0.6,
    )
    claims = sum(humps(law(100)).are_two for law in (RNG.standard_exponential, lambda n: RNG.standard_t(3, n)) * 20)
    assert claims <= 4
    assert humps(split[:19]) is None
    assert humps(np.ones(30)) is None


def test_common_random_numbers() -> None:
    """Independent arms: no correlation, variance ratio 1. A shared workload with a little of their own: 0.01 of it."""
    shared, own = RNG.normal(0, 1, 4000), RNG.normal(0, 0.1, (2, 4000))
    paired = common(np.exp(shared + own[0]), np.exp(shared + own[1]))
    alone = common(np.exp(shared), np.exp(RNG.normal(0, 1, 4000)))
    assert (paired.correlation, paired.variance_ratio) == (
        pytest.approx(0.99, abs=0.005),
        pytest.approx(0.01, abs=0.002),
    )
    assert (alone.correlation, alone.variance_ratio) == (pytest.approx(0, abs=0.06), pytest.approx(1, abs=0.06))
    opposed = common(np.exp(shared), np.exp(-shared))
    assert not opposed.has_worked
    assert paired.has_worked
    assert common(np.ones(5), np.exp(shared[:5])) is None
    assert common(np.ones(2), np.ones(2)) is None


def test_two_humps_of_many_values() -> None:
    """2,000 values: two humps are found, one is not, with the dips of 500."""
    draw = np.random.default_rng(2)
    assert not humps(draw.normal(size=2000)).are_two
    assert humps(np.concatenate([draw.normal(size=1000), draw.normal(4, 1, 1000)])).are_two
