"""Paired statistics against SciPy, arithmetic, and known coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from sim import stats
from sim.stats import paired

RNG = np.random.default_rng(7)


def test_ratio_is_the_geometric_mean_within_pairs() -> None:
    """2 and 1/2 cancel; the arithmetic mean of the ratios would not."""
    found = stats.compare(np.array([1.0, 4.0]), np.array([2.0, 2.0]), "higher")
    assert (found.ratio, found.p_worse, found.pairs) == (pytest.approx(1.0), 0.5, 2)


def test_interval_is_students_on_logs() -> None:
    """Both ends are what SciPy's t distribution gives for the logarithms."""
    base, candidate = RNG.lognormal(0, 0.1, 20), RNG.lognormal(0.1, 0.1, 20)
    logs = np.log(candidate / base)
    lo, hi = scipy_stats.t.interval(0.95, 19, loc=logs.mean(), scale=scipy_stats.sem(logs))
    found = stats.compare(base, candidate, "higher")
    assert (found.lo, found.hi) == (pytest.approx(np.exp(lo)), pytest.approx(np.exp(hi)))


def test_bootstrap_interval_is_scipys_bca() -> None:
    """The closed jackknife and the matrix of weights give SciPy's interval up to resampling."""
    values = RNG.exponential(1.0, 30)
    other = scipy_stats.bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=1).confidence_interval
    lo, hi = stats.bca_interval(values)
    assert (lo, hi) == (pytest.approx(other.low, abs=0.02), pytest.approx(other.high, abs=0.02))


def test_intervals_hold_for_few_pairs() -> None:
    """Three placement classes, 10 pairs: the t interval covers the mean in about 95 of 100 campaigns, BCa in fewer."""
    effects, chances = np.log([1.357, 1.149, 0.848]), [0.375, 0.5, 0.125]
    truth = float(effects @ chances)
    covered = np.zeros(2)
    for _ in range(1500):
        logs = RNG.choice(effects, p=chances, size=10) + RNG.normal(0, 0.03, 10)
        ratio = stats.compare(np.ones(10), np.exp(logs), "higher")
        boot_lo, boot_hi = stats.bca_interval(logs)
        covered += [ratio.lo <= np.exp(truth) <= ratio.hi, boot_lo <= truth <= boot_hi]
    assert 0.90 < covered[0] / 1500 < 0.97
    assert covered[1] < covered[0]


@pytest.mark.parametrize(("better", "share"), [("higher", 0.25), ("lower", 0.5), ("none", None)])
def test_worse_by_direction_and_ties_are_not_worse(better: str, share: float | None) -> None:
    """Of four pairs one falls, two rise and one is equal."""
    found = stats.compare(np.ones(4), np.array([0.5, 2.0, 2.0, 1.0]), better)
    assert found.p_worse == share


def test_p_mean_worse() -> None:
    """Clear harm is near 1, clear gain near 0, as many of both about one half; of exact ties there is none."""
    worse = stats.compare(np.ones(20), np.full(20, 1.2) + RNG.normal(0, 0.01, 20), "lower")
    gain = stats.compare(np.ones(20), np.full(20, 1.2) + RNG.normal(0, 0.01, 20), "higher")
    even = stats.compare(np.ones(20), np.tile([0.5, 2.0], 10), "higher")
    equal = stats.compare(np.ones(20), np.ones(20), "higher")
    assert (worse.p_mean_worse, gain.p_mean_worse, equal.p_mean_worse) == (1.0, 0.0, None)
    assert even.p_mean_worse == pytest.approx(0.5, abs=0.02)
    assert (equal.ratio, equal.lo, equal.hi, equal.is_tie, even.is_tie) == (1.0, 1.0, 1.0, True, False)


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=19, unique=True), st.sampled_from(["higher", "lower"]))
def test_below_twenty_pairs_p_mean_worse_is_that_of_the_interval(ratios: list[float], better: str) -> None:
    """One tail of the two-sided p: with six pairs p = 0.0096 is 0.48 %, which a bootstrap of six calls nothing."""
    found = stats.compare(np.ones(len(ratios)), np.array(ratios), better)
    if found.p is not None:
        is_worse = (found.ratio < 1) == (better == "higher")
        assert found.p_mean_worse == pytest.approx(1 - found.p / 2 if is_worse else found.p / 2)


def test_zero_has_no_ratio_but_a_direction() -> None:
    """Preemptions from none to some: no ratio, its reason, and the share of pairs that got worse."""
    found = stats.compare(np.array([0.0, 0.0, 3.0]), np.array([0.0, 2.0, 4.0]), "lower")
    assert (found.ratio, found.lo, found.hi, found.reason) == (None, None, None, "zero in 2 pairs")
    assert found.p_worse == pytest.approx(2 / 3)
    assert found.p_mean_worse == pytest.approx(scipy_stats.t.cdf(3**0.5, 2))  # differences 0, 2 and 1


def test_pairs_without_a_value_are_left_out() -> None:
    """NaN in either arm drops the pair; with none left there is nothing to say."""
    nan = float("nan")
    assert stats.compare(np.array([1.0, nan, 2.0]), np.array([2.0, 1.0, 4.0]), "higher").pairs == 2
    assert stats.compare(np.array([nan]), np.array([1.0]), "higher") == stats.Ratio(
        None, None, None, None, 0, reason="no pair has a value in both arms"
    )


def test_deterministic_arms_are_one_observation() -> None:
    """Equal replications repeat one run; more of them make nothing surer."""
    found = stats.compare(np.full(20, 2.0), np.full(20, 3.0), "higher", deterministic=True)
    assert (found.ratio, found.lo, found.hi, found.pairs) == (1.5, None, None, 1)
    assert found.reason == "deterministic, n = 1"
    assert stats.mean(np.full(20, 2.0), deterministic=True) == stats.Mean(2.0, None, None, 1)


def test_one_pair_has_no_interval() -> None:
    """A single run is never a result."""
    found = stats.compare(np.array([2.0]), np.array([3.0]), "higher")
    assert (found.ratio, found.lo, found.p_mean_worse, found.pairs) == (1.5, None, None, 1)


def test_mean_with_interval() -> None:
    """1, 2, 3: mean 2, half-width t(2) / sqrt(3) = 4.303 / 1.732."""
    found = stats.mean(np.array([1.0, 2.0, 3.0, float("nan")]))
    assert found.n == 3
    assert (found.mean, found.hi) == (2.0, pytest.approx(2 + 4.30265 / np.sqrt(3), abs=1e-4))


def test_resamples_are_the_same_each_time() -> None:
    """Nothing of the process or of earlier calls reaches a probability."""
    values = RNG.normal(0.1, 1, 15)
    first = stats.compare(np.ones(15), np.exp(values), "higher")
    paired._weights.cache_clear()
    assert stats.compare(np.ones(15), np.exp(values), "higher") == first


def test_geometric_ratio_of_a_class() -> None:
    """None for an empty class and for one with a zero."""
    empty = np.array([])
    assert stats.geometric_ratio(empty, empty) is None
    assert stats.geometric_ratio(np.array([1.0]), np.array([0.0])) is None
    assert stats.geometric_ratio(np.array([1.0, 1.0]), np.array([2.0, 8.0])) == pytest.approx(4.0)


def test_mean_of_one_and_of_none() -> None:
    """One value has no interval, no value has no mean."""
    assert stats.mean(np.array([2.0])) == stats.Mean(2.0, None, None, 1)
    assert stats.mean(np.array([float("nan")])) == stats.Mean(None, None, None, 0)


def test_the_bootstrap_is_refused_below_twenty_pairs_and_for_skewed_ratios() -> None:
    """19 pairs are too few, 20 symmetric ones are not, 20 of a long tail are."""
    even = np.exp(0.1 * scipy_stats.norm.ppf((np.arange(20) + 0.5) / 20))
    tail = np.exp(0.1 * scipy_stats.expon.ppf((np.arange(20) + 0.5) / 20))
    for ratios, caution in ((even[:19], "few"), (even, ""), (tail, "skewed")):
        found = stats.compare(np.ones(len(ratios)), ratios, "higher")
        assert found.caution == caution
        assert (found.boot_lo is None) == (found.boot_hi is None) == bool(caution)
        assert found.lo is not None
    assert paired.caution(np.log(np.repeat(tail, 100))) == ""  # 2,000 pairs are enough for this tail


def test_skewness_is_scipys() -> None:
    """The same moment ratio; nothing of equal values."""
    values = RNG.exponential(1.0, 50)
    assert paired.skewness(values) == pytest.approx(scipy_stats.skew(values))
    assert paired.skewness(np.ones(5)) == 0


def test_many_pairs_are_resampled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same resamples to rounding, without a table of all of them."""
    values = RNG.normal(0.0, 1.0, 60)
    whole = stats.bca_interval(values)
    monkeypatch.setattr(paired, "KEPT", 10)
    assert stats.bca_interval(values) == pytest.approx(whole)


def test_intervals_of_many_samples_are_those_of_each() -> None:
    """Row by row, also of a row without spread."""
    samples = np.vstack([RNG.exponential(1.0, (3, 30)), np.ones((1, 30))])
    rows = paired.bca_intervals(samples)
    assert rows.tolist() == [pytest.approx(stats.bca_interval(row)) for row in samples]
    assert rows[3].tolist() == [1.0, 1.0]
