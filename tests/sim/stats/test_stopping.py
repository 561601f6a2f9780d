"""Stopping, selection and steady state against closed forms and stated probabilities."""

import numpy as np
import pytest

from sim.stats.selection import kn, ocba, p_correct
from sim.stats.steady import batch_means, mser5
from sim.stats.stopping import Pairs, Precision, half_width

RNG = np.random.default_rng(19)


def test_pairs_count() -> None:
    """So many and no more; the arm that is furthest behind decides."""
    rule = Pairs(10)
    assert (rule.is_met([np.zeros(10)]), rule.is_met([np.zeros(10), np.zeros(9)])) == (True, False)
    assert rule.still_needed([np.zeros(4), np.zeros(9)]) == 6


def test_half_width_is_that_of_the_ratio() -> None:
    """A ratio near 2 has twice the half-width of one near 1; below two pairs there is none."""
    logs = RNG.normal(0, 0.1, 30)
    assert half_width(logs + np.log(2)) == pytest.approx(2 * half_width(logs))
    assert half_width(logs[:1]) == float("inf")


def test_precision_stops_at_the_asked_half_width() -> None:
    """The default is a quarter of 5 %; it stops where the interval is first as narrow, not before 20 pairs."""
    rule, logs = Precision(), RNG.normal(0.1, 0.05, 400)
    stops = next(n for n in range(1, 400) if rule.is_met([logs[:n]]))
    assert half_width(logs[:stops]) <= 0.0125 < half_width(logs[: stops - 1])
    assert not rule.is_met([np.zeros(19)])
    assert rule.is_met([np.zeros(20)])
    assert not rule.is_met([np.zeros(20), logs[:20]])


def test_precision_guesses_how_many_more() -> None:
    """From half of the pairs the guess is within a quarter of what it takes; the widest arm decides."""
    rule, logs = Precision(0.01), RNG.normal(0.1, 0.05, 1000)
    stops = next(n for n in range(20, 1000) if rule.is_met([logs[:n]]))
    guess = stops // 2 + rule.still_needed([0.1 * logs[: stops // 2], logs[: stops // 2]])
    assert guess == pytest.approx(stops, rel=0.25)
    assert rule.still_needed([logs[:stops]]) == 0
    assert rule.still_needed([logs[:1]]) == 19


def test_precision_refuses_the_impossible() -> None:
    """A width of zero, an interval of one pair."""
    with pytest.raises(ValueError, match="must be positive"):
        Precision(0.0)
    with pytest.raises(ValueError, match="needs 2 pairs"):
        Precision(fewest=1)


def campaign(means: list[float], spread: float) -> tuple[int, int]:
    """The arm that KN leaves, and after how many pairs, with noise that half is shared."""
    shared = RNG.normal(0, spread, (3000, 1))
    values = np.array(means) + (shared + RNG.normal(0, spread, (3000, len(means)))) / 2**0.5
    found = kn(values, 0.05)
    assert found.is_done
    return found.best, max(at for at in found.dropped_at if at is not None)


def test_kn_reaches_its_probability_in_the_least_favourable_case() -> None:
    """Four arms exactly delta behind: the best is left in 95 % of 400 selections or more, to a 99 % bound."""
    right = sum(campaign([0.05, 0.0, 0.0, 0.0, 0.0], 0.1)[0] == 0 for _ in range(400))
    assert right / 400 >= 0.95 - 2.33 * (0.95 * 0.05 / 400) ** 0.5


def test_kn_is_quick_where_arms_are_far_apart() -> None:
    """Arms ten deltas behind drop out with the first look."""
    assert campaign([0.5, 0.0, 0.0], 0.1) == (0, 10)


def test_kn_after_more_pairs_is_kn_asked_again() -> None:
    """Who dropped out stays out, at the same pair; values of dropped arms are not looked at."""
    values = np.array([0.05, 0.0, -0.1]) + RNG.normal(0, 0.1, (600, 3))
    whole = kn(values, 0.05)
    for pairs in (5, 10, 40, 200):
        part = kn(values[:pairs], 0.05)
        assert all(at is None or at == end for at, end in zip(part.dropped_at, whole.dropped_at, strict=True))
    missing = values.copy()
    for arm, at in enumerate(whole.dropped_at):
        if at is not None:
            missing[at:, arm] = np.nan
    assert kn(missing, 0.05) == whole
    assert len(kn(values[:9], 0.05).alive) == 3


@pytest.mark.parametrize("bad", [{"delta": 0.0}, {"delta": 1.0, "first": 1}, {"delta": 1.0, "confidence": 0.2}])
def test_kn_refuses(bad: dict[str, float]) -> None:
    """No zone, no variance, a confidence that a guess would have."""
    with pytest.raises(ValueError, match="selection needs"):
        kn(np.zeros((20, 3)), **bad)


def test_ocba_by_hand() -> None:
    """Equal spreads, leads 1 and 2: the nearer arm gets four times the farther one's, the best the root of squares."""
    shares = ocba(np.array([3.0, 2.0, 1.0]), np.ones(3))
    assert shares / shares[2] == pytest.approx([17**0.5, 4, 1])
    with pytest.raises(ValueError, match="share the best"):
        ocba(np.array([1.0, 1.0]), np.ones(2))
    with pytest.raises(ValueError, match="some spread"):
        ocba(np.array([1.0, 2.0]), np.array([1.0, 0.0]))


def test_probability_of_correct_selection_is_a_bound() -> None:
    """Over selections of the leading one of three, the mean of the bound stays below the share that was right."""
    means, right, said = np.array([0.05, 0.02, 0.0]), 0, 0.0
    for _ in range(600):
        values = means + RNG.normal(0, 0.1, (20, 3))
        right += int(np.argmax(values.mean(axis=0)) == 0)
        said += p_correct(values)
    assert 0.5 < said / 600 <= right / 600 + 0.02
    assert p_correct(np.zeros((1, 2))) == 0.0
    assert (p_correct(np.tile([1.0, 0.0], (3, 1))), p_correct(np.ones((3, 2)), delta=0.1)) == (1.0, 1.0)


def test_mser_cuts_a_start_up() -> None:
    """A level of ten for 100 values, then noise around zero: the cut is there, to a few means of five."""
    values = np.concatenate([np.full(100, 10.0), np.zeros(900)]) + RNG.normal(0, 1, 1000)
    cut = mser5(values)
    assert cut.is_settled
    assert 95 <= cut.first <= 150
    steady = mser5(RNG.normal(0, 1, 1000))
    assert steady.first <= 500


def test_mser_finds_that_a_trend_never_settles() -> None:
    """A queue that grows for ever: the minimum lies in the second half."""
    assert not mser5(np.arange(1000.0)).is_settled
    with pytest.raises(ValueError, match="needs 20 values"):
        mser5(np.ones(19))


def test_batch_means_cover_an_autoregressive_mean() -> None:
    """AR(1) with 0.5 and 2,000 values: the interval covers zero in 95 % of 400 series, to 99 % bounds."""
    hits = asked = 0
    for _ in range(400):
        noise = RNG.normal(0, 1, 2000)
        series = np.empty(2000)
        level = 0.0
        for i, each in enumerate(noise.tolist()):
            level = 0.5 * level + each
            series[i] = level
        found = batch_means(series)
        if found.lo is not None:
            asked += 1
            hits += found.lo <= 0 <= found.hi
    assert asked > 250
    assert 0.91 < hits / asked < 0.98


def test_batch_means_refuse_correlated_batches() -> None:
    """A slow wave: neighbouring batches are alike, so there is no interval, and the reason says by how much."""
    found = batch_means(np.sin(np.arange(400) / 60))
    assert (found.lo, found.hi) == (None, None)
    assert "neighbouring batches correlate by 0." in found.reason
    assert batch_means(np.ones(100)).lo == 1.0
    with pytest.raises(ValueError, match="need 40 values"):
        batch_means(np.ones(39))
