"""Tests hold their size, and verdicts say no more than they may."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from sim.stats.inference import Verdict, equivalence_p, kendall, permutation_p, spearman, verdict
from sim.stats.many import dunnett, holm

RNG = np.random.default_rng(13)


def test_permutation_p_counts_all_sign_flips() -> None:
    """Four equal gains: of 16 flips two are as far from zero. Without any difference p is 1."""
    assert permutation_p(np.array([0.1, 0.2, 0.3, 0.4])) == 2 / 16
    assert permutation_p(np.zeros(8)) == 1.0


def test_permutation_p_of_many_pairs_is_near_students() -> None:
    """Normal noise, 60 pairs: both tests ask the same."""
    logs = RNG.normal(0.02, 0.08, 60)
    assert permutation_p(logs) == pytest.approx(scipy_stats.ttest_1samp(logs, 0).pvalue, abs=0.02)


def test_kendall_counts_pairs_in_order() -> None:
    """Of six pairs of four things five are ordered alike; all in order, none in order, nothing to order."""
    four = np.arange(4.0)
    assert kendall(four, np.array([10.0, 20.0, 40.0, 30.0])) == pytest.approx((5 - 1) / 6)
    assert (kendall(four, four**3), kendall(four, -four)) == (1, -1)
    assert np.isnan(kendall(four, np.ones(4)))


def test_spearman_is_scipys_with_a_p_of_permutations() -> None:
    """Rho with ties as SciPy has it; p exact for five pairs: a perfect order is 1 of 120, two-sided 2."""
    x, y = np.array([1.0, 1, 2, 2, 2, 3, 4]), np.array([9.0, 7, 7, 5, 6, 3, 4])
    assert spearman(x, y).rho == pytest.approx(scipy_stats.spearmanr(x, y).statistic)
    assert spearman(np.arange(5.0), np.arange(5.0) ** 2).p == pytest.approx(2 / 120)
    assert spearman(np.ones(5), np.arange(5.0)) is None
    assert spearman(np.arange(2.0), np.arange(2.0)) is None


def test_published_spearman_of_the_placements_alone() -> None:
    """From slime 2206: class effects alone correlate fully with imbalance; noise is what makes it -0.691."""
    imbalance = np.repeat([1.0, 1.5, 2.0], [8, 10, 2])
    effect = np.repeat([1.357, 1.149, 0.848], [8, 10, 2])
    found = spearman(imbalance, effect)
    assert found.rho == pytest.approx(-1)
    assert found.p < 0.001


def test_equivalence_is_two_one_sided_tests() -> None:
    """The larger of SciPy's two one-sided p values; certain without spread; a margin must be positive."""
    logs = RNG.normal(0.005, 0.02, 15)
    bound = np.log(1.02)
    sides = (
        scipy_stats.ttest_1samp(logs, bound, alternative="less").pvalue,
        scipy_stats.ttest_1samp(logs, -bound, alternative="greater").pvalue,
    )
    assert equivalence_p(logs, 0.02) == pytest.approx(max(sides))
    assert (equivalence_p(np.zeros(5), 0.02), equivalence_p(np.full(5, 0.1), 0.02)) == (0.0, 1.0)
    assert equivalence_p(np.zeros(1), 0.02) == 1.0
    with pytest.raises(ValueError, match="must be positive"):
        equivalence_p(logs, 0.0)


def test_equivalence_holds_its_size() -> None:
    """Arms that are apart by exactly the margin are called equal in 5 % of 4,000 comparisons, to 99 % bounds."""
    claims = sum(equivalence_p(RNG.normal(np.log(1.02), 0.02, 20), 0.02) < 0.05 for _ in range(4000))
    assert 0.041 < claims / 4000 < 0.059


@pytest.mark.parametrize(
    ("centre", "spread", "better", "says"),
    [
        (0.10, 0.02, "higher", "better, by more than the smallest interesting effect"),
        (0.10, 0.02, "lower", "worse"),
        (-0.10, 0.02, "lower", "better, by more than the smallest interesting effect"),
        (0.0, 0.005, "higher", "equal within 2 %"),
        (0.01, 0.005, "higher", "better, equal within 2 %"),
        (0.0, 0.5, "higher", "not separable, harm not excluded"),
    ],
)
def test_verdicts_in_words(centre: float, spread: float, better: str, says: str) -> None:
    """Direction, equality, interest and harm, each by its own line."""
    noise = spread * scipy_stats.norm.ppf((np.arange(30) + 0.5) / 30)
    assert str(verdict(centre + noise, better)) == says


def test_one_pair_separates_nothing() -> None:
    """A single run is never a result."""
    assert verdict(np.array([3.0]), "higher") == Verdict("not separable", False, False, False, 0.02)


def test_holm_by_hand() -> None:
    """Smallest times three, next times two, and never below the one before."""
    assert holm([0.04, 0.01, 0.03]) == [pytest.approx(0.06), pytest.approx(0.03), pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def orthogonal(correlation: np.ndarray, pairs: int) -> np.ndarray:
    """Columns whose sample correlation is exactly this."""
    raw = RNG.normal(size=(pairs, len(correlation)))
    free = np.linalg.qr(raw - raw.mean(axis=0))[0]
    free -= free.mean(axis=0)
    return free @ np.linalg.cholesky(correlation).T


@pytest.mark.parametrize(("arms", "table"), [(1, 2.09), (2, 2.38), (3, 2.54), (4, 2.65), (5, 2.73)])
def test_critical_values_are_dunnetts(arms: int, table: float) -> None:
    """His two-sided 5 % table at 20 degrees of freedom, whose arms correlate by one half."""
    shared = np.full((arms, arms), 0.5) + 0.5 * np.eye(arms)
    assert dunnett(orthogonal(shared, 21)).critical == pytest.approx(table, abs=0.006)


def test_equal_arms_pay_for_one() -> None:
    """Three copies of an arm are one comparison: Student's own interval, up to the drawing towards zero."""
    logs = np.repeat(RNG.normal(0, 0.1, (20, 1)), 3, axis=1)
    assert dunnett(logs).critical == pytest.approx(scipy_stats.t.ppf(0.975, 19), abs=0.06)


def test_adjusted_p_lies_between_one_comparison_and_bonferroni() -> None:
    """An arm among four pays more than alone, and less than four times as much."""
    runs = RNG.normal(0, 0.1, (12, 5))
    logs = runs[:, 1:] - runs[:, :1] + 0.1
    found = dunnett(logs)
    for column, p in zip(logs.T, found.p, strict=True):
        alone = scipy_stats.ttest_1samp(column, 0).pvalue
        assert alone < p < 4 * alone
    assert found.lo < found.ratio < found.hi


@pytest.mark.slow
def test_simultaneous_intervals_and_holm_keep_one_claim_in_twenty() -> None:
    """Four equal arms against their baseline: at most 31 of 400 tables claim (99 % bound), single tests more."""
    joint = stepwise = single = 0
    for _ in range(400):
        runs = RNG.normal(0, 0.1, (12, 5))
        logs = runs[:, 1:] - runs[:, :1]
        p = scipy_stats.ttest_1samp(logs, 0).pvalue.tolist()
        joint += min(dunnett(logs).p) < 0.05
        stepwise += min(holm(p)) < 0.05
        single += min(p) < 0.05
    assert max(joint, stepwise) <= 31 < single


def test_dunnett_refuses_what_has_no_interval() -> None:
    """Two pairs, or an arm that never differs."""
    with pytest.raises(ValueError, match="three pairs"):
        dunnett(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="constant"):
        dunnett(np.column_stack([RNG.normal(size=5), np.zeros(5)]))
