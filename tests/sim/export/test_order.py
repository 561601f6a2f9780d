"""The order of runs: balanced in every block, drawn from the seed, and the same whatever the length of the campaign."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sim.export._order import order_of_runs

SEEDS = st.integers(0, 2**63 - 1)


@given(st.integers(2, 5), st.integers(0, 20), SEEDS)
def test_a_drift_that_is_straight_in_a_block_favours_nobody(arms, blocks, seed):
    """In every block of two pairs the positions of each arm have the same sum."""
    names = [f"arm {index}" for index in range(arms)]
    order = order_of_runs(names, 2 * blocks, seed)
    assert all(sorted(pair) == sorted(names) for pair in order)
    for block in range(blocks):
        runs = [*order[2 * block], *order[2 * block + 1]]
        sums = {name: sum(at for at, each in enumerate(runs) if each == name) for name in names}
        assert len(set(sums.values())) == 1


@given(st.integers(1, 21), st.integers(0, 20), SEEDS)
def test_a_longer_campaign_begins_as_the_shorter_one(pairs, more, seed):
    """An extension runs no pair anew."""
    assert order_of_runs(["a", "b"], pairs + more, seed)[:pairs] == order_of_runs(["a", "b"], pairs, seed)


def test_both_orders_come_equally_often():
    """ABBA and BAAB are a fair coin over seeds and over blocks: 2,000 draws lie within 5 standard deviations."""
    campaigns = [order_of_runs("AB", 2, seed) for seed in range(1000)] + [order_of_runs("AB", 2000, 7)]
    blocks = ["".join(order[at] + order[at + 1]) for order in campaigns for at in range(0, len(order), 2)]
    counts = Counter(blocks)
    assert set(counts) == {"ABBA", "BAAB"}
    assert abs(counts["ABBA"] - 1000) < 5 * (2000 / 4) ** 0.5
