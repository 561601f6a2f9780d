"""Strata of placements and the plan of a blocked campaign."""

from itertools import pairwise, product
from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import placement


@pytest.mark.parametrize(("keys", "engines"), [(2, 2), (3, 3), (5, 2), (6, 4)])
def test_fullest_engine_against_all_placements(keys: int, engines: int) -> None:
    """The generating function equals counting every placement."""
    counted = [0] * (keys + 1)
    for held in product(range(engines), repeat=keys):
        counted[max(held.count(engine) for engine in range(engines))] += 1
    assert placement.fullest(keys, engines) == pytest.approx([n / engines**keys for n in counted])


@pytest.mark.parametrize(("keys", "engines", "expected"), [(64, 4, 1.26), (64, 8, 1.53), (16, 28, 4.37)])
def test_published_expectations(keys: int, engines: int, expected: float) -> None:
    """Largest over mean of hashed keys, as tabulated."""
    assert placement.max_over_mean(keys, engines) == pytest.approx(expected, abs=0.01)


@given(st.integers(2, 8), st.integers(2, 4))
def test_strata_hold_every_class_once_and_none_is_rare(keys: int, engines: int) -> None:
    """Shares add up to one, each is the sum of its classes, and at least a twentieth."""
    classes = placement.exact(keys, engines)
    strata = placement.strata(keys, engines)
    assert sorted(name for each in strata for name in each.classes) == sorted(classes)
    assert fsum(each.share for each in strata) == pytest.approx(1)
    for each in strata:
        assert each.share == pytest.approx(fsum(classes[name] for name in each.classes))
        assert each.share >= placement.LEAST_SHARE


@given(st.integers(2, 8), st.integers(2, 4), st.integers(1, 300))
def test_every_prefix_of_a_plan_is_balanced(keys: int, engines: int, pairs: int) -> None:
    """No stratum lags behind, or leads, its share by more than one pair per other stratum; prefixes agree."""
    shares = [each.share for each in placement.strata(keys, engines)]
    chosen = placement.plan(shares, pairs)
    assert placement.plan(shares, pairs + 10)[:pairs] == chosen
    for index, share in enumerate(shares):
        assert abs(chosen.count(index) - share * pairs) < max(2, len(shares) - 1)


def test_the_plan_of_four_keys_on_two_engines() -> None:
    """Of 8 pairs 3, 4 and 1: the exact shares."""
    names = [placement.planned(4, 2, pair).name for pair in range(800)]
    for start in range(0, 800, 8):
        assert sorted(names[start : start + 8]) == ["2:2"] * 3 + ["3:1"] * 4 + ["4:0"]


def test_classes_are_for_few_keys_on_few_engines() -> None:
    """Nine keys, five engines, or one of either have none."""
    fits = [placement.has_classes(*each) for each in ((4, 2), (8, 4), (9, 2), (4, 5), (1, 2), (4, 1))]
    assert fits == [True, True, False, False, False, False]


def test_chance_of_a_pile_falls_with_the_share() -> None:
    """All keys on one of N engines: N**(1 - K)."""
    assert placement.p_fullest(6, 3, 1.0) == pytest.approx(3.0**-5)
    shares = [placement.p_fullest(12, 3, share) for share in (0.4, 0.6, 0.8, 1.0)]
    assert all(more > less for more, less in pairwise(shares))
