"""Distributions of lengths and times: their laws, their rounding, what they refuse."""

import numpy as np
import pytest
from scipy.stats import binom

from sim.errors import ScenarioError
from sim.workload._lengths import Constant, Lognormal, Uniform, lengths, unrounded, values

DRAWS = 10_000
Z99 = 2.3263478740408408


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_median_and_p99_of_a_lognormal():
    """The shares below the stated median and p99 lie in the 99.9 % binomial intervals of 0.5 and 0.99."""
    drawn = values(Lognormal("lognormal", 4000, 0.85), generator(), DRAWS)
    for share, bound in ((0.5, 4000), (0.99, 4000 * np.exp(0.85 * Z99))):
        low, high = binom.interval(0.999, DRAWS, share)
        assert low <= (drawn < bound).sum() <= high


def test_a_cap_moves_only_what_lies_above_it():
    """A capped value is the cap; the others are as without a cap."""
    free = values(Lognormal("lognormal", 4000, 0.99), generator(), DRAWS)
    capped = values(Lognormal("lognormal", 4000, 0.99, cap=16_000), generator(), DRAWS)
    assert np.array_equal(capped, np.minimum(free, 16_000))


def test_the_cap_cuts_the_share_that_the_normal_law_says():
    """A cap of five medians at sigma 0.99 cuts 5.2 % (99.9 % binomial interval)."""
    capped = values(Lognormal("lognormal", 3000, 0.99, cap=15_000), generator(3), DRAWS)
    low, high = binom.interval(0.999, DRAWS, 0.052)
    assert low <= (capped == 15_000).sum() <= high


def test_uniform_lengths_include_both_ends_alike():
    """Each of the whole numbers from low to high has the same chance."""
    drawn = lengths("turns", Uniform("uniform", 3, 6), generator(), DRAWS, 1)
    assert np.unique(drawn).tolist() == [3, 4, 5, 6]
    low, high = binom.interval(0.9999, DRAWS, 0.25)
    assert all(low <= (drawn == each).sum() <= high for each in (3, 4, 5, 6))


def test_uniform_times_fill_the_range():
    """Times are not rounded."""
    drawn = values(Uniform("uniform", 0.5, 1.5), generator(), DRAWS)
    assert drawn.min() >= 0.5
    assert drawn.max() < 1.5
    assert drawn.mean() == pytest.approx(1.0, abs=0.012)


def test_doubling_the_median_doubles_every_draw():
    """L9: a distribution scales with its parameters, exactly."""
    once = values(Lognormal("lognormal", 0.85, 2.4, cap=180), generator(), DRAWS)
    twice = values(Lognormal("lognormal", 1.7, 2.4, cap=360), generator(), DRAWS)
    assert np.array_equal(twice, 2 * once)


@pytest.mark.parametrize(
    "length", [Uniform("uniform", 1, 9), Lognormal("lognormal", 50, 1.0), Constant("constant", 4), 4]
)
def test_a_longer_column_begins_with_the_shorter_one(length):
    """Element i does not move when the number grows."""
    assert np.array_equal(unrounded(length, generator(), 1000)[:100], unrounded(length, generator(), 100))


def test_lengths_are_whole_and_not_below_the_least():
    """A drawn length below the least that makes sense is raised to it."""
    drawn = lengths("output_tokens", Lognormal("lognormal", 0.5, 1.0), generator(), 1000, 1)
    assert drawn.dtype == np.int64
    assert drawn.min() == 1


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Constant("constant", -1), "value must be from 0"),
        (lambda: Uniform("uniform", -1, 3), "low must be from 0"),
        (lambda: Uniform("uniform", 3, 2), "high must be at least low, 3, not 2"),
        (lambda: Lognormal("lognormal", 0, 1), "median must be above 0"),
        (lambda: Lognormal("lognormal", float("nan"), 1), "median must be above 0"),
        (lambda: Lognormal("lognormal", 10, -0.1), "sigma must be from 0"),
        (lambda: Lognormal("lognormal", 10, float("inf")), "sigma must be from 0"),
        (lambda: Lognormal("lognormal", 10, 1, cap=0), "cap must be above 0"),
    ],
)
def test_what_is_refused(make, rule):
    """The message opens with the name of the parameter and is the rule."""
    with pytest.raises(ScenarioError, match=f"^{rule}"):
        make()


def test_a_draw_beyond_any_context_is_refused():
    """A tail that runs away asks for a cap instead of wrapping round."""
    with pytest.raises(ScenarioError, match=r"observation_tokens drew .*: give the distribution a cap"):
        lengths("observation_tokens", Lognormal("lognormal", 1e6, 20), generator(), 1000, 0)
