"""Changes under common random numbers, break-evens, and what knowing is worth, against what is known exactly."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.stats.paired import compare, t_interval
from sim.stats.sensitivity import Estimate, Response, Spread, change, crossing, elsewhere, latin, narrow, spread

DRAW = np.random.default_rng(5)


def exact(ratio: float) -> Estimate:
    return Estimate(ratio, ratio, ratio, 4)


def test_what_changes_nothing_is_one_exactly() -> None:
    """Not one but for rounding; the ratio there is the centre's with the centre's interval."""
    every = DRAW.normal(0.1, 0.2, 40)
    none = change(every[:8], every[:8])
    assert (none.ratio, none.lo, none.hi) == (1.0, 1.0, 1.0)
    there = elsewhere(every, every[:8], every[:8])
    assert there.ratio == pytest.approx(math.exp(every.mean()), abs=1e-12)
    assert there.lo < compare(np.ones(40), np.exp(every), "none").lo  # 7 degrees of freedom in place of 39


def test_all_pairs_elsewhere_is_students_interval() -> None:
    """With as many pairs there as at the centre nothing is left to borrow, whatever the correlation."""
    every, there = DRAW.normal(0.1, 0.2, 12), DRAW.normal(0.3, 0.1, 12)
    found = elsewhere(every, every, there)
    assert (found.lo, found.hi) == pytest.approx(tuple(np.exp(t_interval(there))))


def test_few_pairs_that_vary_together_say_more_than_alone() -> None:
    """A shift of 0.2 in all pairs but for little: 6 pairs and the centre's 400 against the 6 by themselves."""
    every = DRAW.normal(0.0, 0.3, 400)
    there = every[:6] + 0.2 + DRAW.normal(0, 0.01, 6)
    found, alone = elsewhere(every, every[:6], there), np.exp(t_interval(there))
    assert found.hi - found.lo < 0.2 * (alone[1] - alone[0])
    assert found.lo < math.exp(0.2) < found.hi


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_intervals_elsewhere_hold_the_truth(correlation: float) -> None:
    """In 95 % of 600 samples of 10 pairs beside 60 at the centre, but for chance and the choice of an estimate."""
    held = 0
    for _ in range(600):
        every, other = DRAW.normal(0, 1, 60), DRAW.normal(0, 1, 10)
        there = 0.5 + correlation * every[:10] + math.sqrt(1 - correlation**2) * other
        found = elsewhere(every, every[:10], there)
        held += found.lo < math.exp(0.5) < found.hi
    assert 0.92 < held / 600 < 0.98


def test_pairs_without_a_value_are_left_out() -> None:
    """And where none is left there is no estimate; of one pair there is no interval."""
    nan = np.nan
    assert change(np.array([0.0, nan, 0.1]), np.array([0.2, 0.3, nan])).pairs == 1
    one = elsewhere(np.array([0.0, 0.1]), np.array([0.0]), np.array([0.3]))
    assert one.ratio == pytest.approx(math.exp(0.35))
    assert one.lo is None
    assert elsewhere(np.array([0.0]), np.array([nan]), np.array([0.1])).ratio is None


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(0.2, 4), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_a_bracket_holds_its_root(shapes: list[tuple[float, float, bool]], rounds: int) -> None:
    """Of monotone responses with known roots, all narrowed at once; exact responses have intervals inside brackets."""
    seen: list[dict[float, float]] = [{} for _ in shapes]

    def value(x: float, root: float, power: float, rises: bool) -> float:
        gap = (abs(x - root)) ** power * (1 if x >= root else -1)
        return gap if rises else -gap

    def respond(points, which):
        found = [value(x, *shapes[i]) for x, i in zip(points.tolist(), which, strict=True)]
        for x, y, i in zip(points.tolist(), found, which, strict=True):
            seen[i][x] = y
        return np.array(found)

    narrow(respond, [(0.0, 1.0)] * len(shapes), rounds)
    for (root, _, rises), points in zip(shapes, seen, strict=True):
        levels = sorted(points)
        where = crossing(np.array(levels), [exact(math.exp(points[x])) for x in levels], 1.0, 0.5)
        assert where.bracket[0] <= root <= where.bracket[1]
        assert where.bracket[0] <= where.value <= where.bracket[1]
        assert where.falls != rises
        assert where.interval == pytest.approx((where.value, where.value), abs=1e-9)


def test_a_straight_response_with_an_interval() -> None:
    """A log ratio of 1 - x with ±0.25: it crosses 1 at x = 1, surely between 0.75 and 1.25; e**0.5 too."""
    x = np.array([0.0, 0.5, 1.5, 2.0])
    values = [Estimate(math.exp(1 - a), math.exp(0.75 - a), math.exp(1.25 - a), 9) for a in x]
    where = crossing(x, values, 1.0, 1.0)
    assert where.value == pytest.approx(1.0)
    assert where.interval == pytest.approx((0.75, 1.25))
    assert where.falls
    assert crossing(x, values, math.exp(0.5), 1.0) is not None
    assert crossing(x, values, 4.0, 1.0) is None


def test_an_interval_that_leaves_the_range_is_open() -> None:
    """The upper bound never falls below the line on the right."""
    x = np.array([0.0, 1.0, 2.0])
    values = [exact(math.e), Estimate(1.1, 1.05, 1.2, 9), Estimate(0.95, 0.8, 1.1, 9)]
    where = crossing(x, values, 1.0, 1.0)
    assert where.bracket == (1.0, 2.0)
    assert where.interval[0] is not None
    assert where.interval[1] is None


def test_what_lies_on_the_line_ends_no_bracket() -> None:
    """One engine gives a ratio of 1 by law: that is neither side, unless both sides are beyond it."""
    assert crossing(np.array([1.0, 2.0]), [exact(1.0), exact(1.2)], 1.0, 2.0) is None
    where = crossing(np.array([0.0, 1.0, 2.0]), [exact(0.9), exact(1.0), exact(1.2)], 1.0, 2.0)
    assert (where.value, where.bracket) == (1.0, (0.0, 2.0))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (-3.0, 1.0), (2.0, -2.0), (0.5, 1.0), (-1.0, -0.1)])
def test_worth_of_a_straight_line(low: float, high: float) -> None:
    """Uniform gain from a to b: E max(gain, 0) = b^2 / 2 (b - a) where it crosses 0; chance by the smaller part."""
    found = Response((low, high), (2.0, 5.0))
    below, above = min(low, high), max(low, high)
    positive = max(above, 0) ** 2 / (2 * (above - below)) if below < 0 else (low + high) / 2
    share = max(above, 0) / (above - below) if below < 0 else 1.0
    assert found.mean == pytest.approx((low + high) / 2)
    assert found.variance == pytest.approx((high - low) ** 2 / 12)
    assert found.worth == pytest.approx(max(positive - max((low + high) / 2, 0), 0), abs=1e-12)
    assert found.chance == pytest.approx(1 - share if found.mean > 0 else share, abs=1e-12)


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=5),
    st.lists(st.floats(0.1, 2), min_size=4, max_size=4),
)
def test_worth_of_a_bent_line_is_that_of_many_points(gains: list[float], widths: list[float]) -> None:
    """Against the mean over a fine grid; never negative, and nothing where no gain changes its sign."""
    points = np.concatenate([[0.0], np.cumsum(widths)])[: len(gains)]
    found = Response(tuple(gains), tuple(points))
    fine = np.interp((np.arange(4000) + 0.5) / 4000 * points[-1], points, gains)
    assert found.mean == pytest.approx(fine.mean(), abs=2e-3)
    assert found.variance == pytest.approx(fine.var(), abs=4e-3)
    assert found.worth == pytest.approx(np.maximum(fine, 0).mean() - max(fine.mean(), 0), abs=2e-3)
    assert found.worth >= 0
    if min(gains) > 0 or max(gains) < 0:
        assert found.worth == pytest.approx(0, abs=1e-12)
        assert found.chance == pytest.approx(0, abs=1e-12)


def test_worth_of_values_that_are_alike_likely() -> None:
    """Gains of 1, 1 and -1: the mean says go; who knew would save a third of 1."""
    found = Response((1.0, 1.0, -1.0))
    assert (found.mean, found.chance, found.worth) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@pytest.mark.parametrize(("mean", "sd"), [(0.1, 0.05), (-0.2, 0.3)])
def test_what_lies_below_the_width(mean: float, sd: float) -> None:
    """A half below the mean, one in forty below the lower end of 95 %; without a spread it is certain."""
    own = Spread(20, mean, sd, 0.0, 1.0, 1.0)
    assert own.p_below(mean) == pytest.approx(0.5)
    assert own.p_below(mean - own.half) == pytest.approx(0.025)
    assert replace(own, sd=0.0).p_below(mean + 1e-9) == 1
    assert replace(own, sd=0.0).p_below(mean) == 0


def test_the_noise_of_pairs_is_taken_out_of_the_spread() -> None:
    """Inputs of SD 0.1 seen through pairs of SD 0.2: what is left is 0.1; and 0 where inputs do nothing."""
    draw = np.random.default_rng(7)
    inputs = draw.normal(0, 0.1, 3000)
    seen = [x + draw.normal(0, 0.2, 4) for x in inputs]
    found = spread(seen)
    assert found.sd == pytest.approx(0.1, rel=0.1)
    assert found.noise == pytest.approx(0.1, rel=0.1)
    assert spread([draw.normal(0, 0.2, 4) for _ in range(3000)]).sd < 0.03
    assert spread(seen[:2]) is None


def test_draws_fill_every_stratum() -> None:
    """One point in each tenth of each input; the same each time."""
    drawn = latin(10, 3)
    assert [sorted((drawn[:, i] * 10).astype(int)) for i in range(3)] == [[*range(10)]] * 3
    assert (latin(10, 3) == drawn).all()
