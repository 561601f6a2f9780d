"""Where keys and requests land: closed forms and published facts; docs/placement.md says what comes out."""

import math
import statistics
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from policies.kubeai.prefix_hash import PrefixHash
from policies.power_of_two import PowerOfTwo
from policies.random import Random
from policies.rendezvous import Rendezvous
from policies.sglang.consistent_hashing import ConsistentHashing as Modulo
from policies.sticky_least_loaded import StickyLeastLoaded
from tests.policies.placement import (
    FLEETS,
    KEYS,
    MOVERS,
    MULTINOMIAL,
    PAGE,
    POINTS,
    PUBLISHED_RENDEZVOUS,
    PUBLISHED_RING,
    SESSIONS,
    TABLES,
    balls,
    counts_of,
    fleet,
    largest,
    most_chance,
    moved,
    places,
    ring_cv,
    ring_shares,
    ring_worlds,
    sequential,
    session_cvs,
    table,
    variation,
)
from tests.policies.worlds import Desk

SLOW = ("sessions", "spread", "caches")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TABLES]
)
def test_the_page_says_what_comes_out(name):
    """Every row of the table stands on the page, and the page has no row more in that table."""
    lines, page = table(name), PAGE.read_text(encoding="utf-8").splitlines()
    head = page.index(lines[0])
    assert page[head : head + len(lines)] == lines
    assert not page[head + len(lines)].startswith("|")


# Hash placement

PUBLISHED = {
    2: "1.38/2.00 1.28/1.75 1.20/1.50 1.14/1.38 1.10/1.25 1.07/1.17",
    4: "2.13/3.00 1.77/2.50 1.54/2.00 1.37/1.75 1.26/1.50 1.19/1.34",
    8: "3.30/6.00 2.60/4.00 2.10/3.00 1.76/2.25 1.53/1.88 1.37/1.63",
    12: "4.35/6.00 3.39/4.50 2.61/3.75 2.10/2.63 1.76/2.25 1.53/1.88",
    28: "8.46/14.0 6.07/10.5 4.37/7.00 3.27/4.38 2.54/3.50 2.05/2.63",
}
"""Largest over mean count, mean and 95th percentile, by engines; one cell each for 4 to 128 keys."""


@pytest.mark.parametrize("engines", FLEETS)
def test_the_exact_multinomial_is_the_published_one(engines):
    """The published table was simulated: its means within 0.025, its percentiles to their rounding."""
    for keys, cell in zip(KEYS, PUBLISHED[engines].split(), strict=True):
        mean, p95 = map(float, cell.split("/"))
        assert largest(engines, keys)[0] == pytest.approx(mean, abs=0.025)
        assert largest(engines, keys)[1] == pytest.approx(p95, abs=0.006)


def test_all_keys_on_one_engine():
    """N^(1-K), the chance that nobody has fewer than all of them."""
    assert 1 - most_chance(4, 6)[5] == pytest.approx(4.0**-5)


@pytest.mark.parametrize("kind", MULTINOMIAL)
@pytest.mark.parametrize("engines", FLEETS)
def test_hashed_keys_are_multinomial(kind, engines):
    """Mean and 95th percentile of the largest count and the variance (N-1)/K, within what so many worlds can tell."""
    worlds = 40 if kind == "rendezvous" else 120
    seen = [counts_of(MULTINOMIAL[kind], engines, world) for world in range(worlds)]
    for place, keys in enumerate(KEYS):
        most = np.array([each[place].max() for each in seen])
        mean, p95 = (value * keys / engines for value in largest(engines, keys))
        assert most.mean() == pytest.approx(mean, abs=4.5 * max(most.std(), 0.3) / math.sqrt(worlds))
        below = most_chance(engines, keys)
        for count in (round(p95) - 1, round(p95)):
            chance = min(float(below[count]), 1.0)
            assert np.mean(most <= count) == pytest.approx(
                chance, abs=4.5 * math.sqrt(chance * (1 - chance) / worlds) + 1e-9
            )
        variance = np.mean([each[place].var() for each in seen]) * (engines / keys) ** 2
        assert variance == pytest.approx((engines - 1) / keys, rel=4.5 * math.sqrt(3 / (worlds * (engines - 1))))


def test_four_keys_on_two_engines():
    """The split is 2:2 in 37.5 %, 3:1 in 50 % and 4:0 in 12.5 % of worlds."""
    worlds = 3000
    classes = Counter(int(counts_of(Modulo, 2, world, [4])[0].max()) for world in range(worlds))
    for most, share in [(2, 0.375), (3, 0.5), (4, 0.125)]:
        assert classes[most] / worlds == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / worlds))


def test_published_placements_and_their_ratio():
    """8, 10 and 2 of 20 pairs are what a hash gives (chi-square p > 0.9); the ratios of the classes make 1.191."""
    seen, chances, ratios = (8, 10, 2), (0.375, 0.5, 0.125), (1.357, 1.149, 0.848)
    assert stats.chisquare(seen, [20 * chance for chance in chances]).pvalue == pytest.approx(0.94, abs=0.01)
    drawn, expected = (
        math.exp(sum(weight * math.log(ratio) for weight, ratio in zip(weights, ratios, strict=True)))
        for weights in ([count / 20 for count in seen], chances)
    )
    assert drawn == pytest.approx(1.191, abs=0.001)
    assert expected == pytest.approx(1.177, abs=0.001)


def test_least_sessions_keep_equal_keys_level():
    """Placed by sessions, numbers of keys differ by at most one at any time."""
    for keys in (1, 5, 16, 61):
        desk = Desk(StickyLeastLoaded(), 0, 0, 0, 0)
        counts = Counter(desk.send(x_session_id=f"{key}")[0] for key in range(keys))
        assert max(counts.values()) - min(counts[place] for place in range(4)) <= 1


# Rings


@pytest.mark.parametrize(
    ("engines", "published"),
    [(8, (2.73, 1.49, 1.24, 1.15, 1.12, 1.09, 1.045)), (40, (4.28, 1.81, 1.38, 1.23, 1.18, 1.14, 1.07))],
)
def test_the_largest_share_of_a_ring(engines, published):
    """Mean of the largest share over the mean share by points; the variance of a share is that of Beta(V, (N-1)V)."""
    for points, value in zip(POINTS, published, strict=True):
        worlds = ring_worlds(points)
        shares = ring_shares(engines, points, worlds) * engines
        assert shares.sum(axis=1) == pytest.approx(np.full(worlds, engines))
        most = shares.max(axis=1)
        assert most.mean() == pytest.approx(value, abs=4 * most.std() / math.sqrt(worlds) + 0.005)
        spread = np.sqrt(((shares - 1) ** 2).mean())
        assert spread == pytest.approx(
            math.sqrt((engines - 1) / (engines * points + 1)), rel=4 * math.sqrt(1 / (worlds * (engines - 1)))
        )


@pytest.mark.parametrize("points", [1, 10, 100])
def test_a_share_is_beta(points):
    """The share of one engine over worlds, by the Kolmogorov-Smirnov test at 1 %."""
    shares = ring_shares(8, points, 150)[:, 3]
    assert stats.kstest(shares, stats.beta(points, 7 * points).cdf).pvalue > 0.01


def test_keys_follow_the_shares():
    """What a ring's arcs promise is where its keys land."""
    counts = counts_of(MOVERS["bounded_loads"], 8, 5, [8000])[0]
    shares = ring_shares(8, 150, 6)[5]
    assert stats.chisquare(counts, shares * 8000).pvalue > 0.01


def test_ring_and_rendezvous_as_published():
    """40 ranks: the published CVs are theory's, with about 190 points (c = 0.072) and with none."""
    assert math.sqrt(39 / (40 * 190 + 1)) == pytest.approx(0.072, abs=0.001)
    for sessions, ring, even in zip(SESSIONS, PUBLISHED_RING, PUBLISHED_RENDEZVOUS, strict=True):
        assert ring_cv(sessions, 190) == pytest.approx(ring, rel=0.02)
        assert math.sqrt(39 / 40 / sessions) == pytest.approx(even, rel=0.015)


@pytest.mark.parametrize(
    ("kind", "points", "trials", "most"), [("ring", 190, 10, 256), ("vllm", 160, 10, 64), ("rendezvous", None, 4, 64)]
)
def test_sessions_on_forty_ranks(kind, points, trials, most):
    """The policies' CVs are theory's at every number of sessions, within four standard errors."""
    policy_of = {
        "ring": lambda: MOVERS["bounded_loads"](points=190),
        "vllm": MOVERS["vllm.consistent_hash"],
        "rendezvous": Rendezvous,
    }[kind]
    for sessions, found in zip(SESSIONS, session_cvs(policy_of, trials, most), strict=False):
        wanted = ring_cv(sessions, points) if points else math.sqrt(39 / 40 / sessions)
        assert found == pytest.approx(wanted, rel=4 * math.sqrt(1 / (2 * trials * 39)))


# Joins and leaves


@pytest.mark.parametrize("kind", MOVERS)
def test_a_join_and_a_leave(kind):
    """A ring and rendezvous give 1/9 of the keys to a ninth engine and none to another; a modulo moves 8/9."""
    shares = [moved(MOVERS[kind], 8, world, 300) for world in range(10)]
    changed, strays, lost = np.mean(shares, axis=0)
    is_modulo = kind in MULTINOMIAL and kind != "rendezvous"
    assert changed == pytest.approx(8 / 9 if is_modulo else 1 / 9, abs=0.03)
    assert strays == (pytest.approx(7 / 9, abs=0.03) if is_modulo else 0)
    assert lost == 0


# Bounded loads

prompts = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=150)


@given(prompts, st.sampled_from([100, 125, 200]))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_kubeai_holds_one_more_than_its_bound(steps, percentage):
    """It compares the load before the request is added: at most floor(threshold) + 1 in flight."""
    desk, sent = Desk(PrefixHash(mean_load_percentage=percentage), *[0] * 5), []
    for group, ends in steps:
        if ends and sent:
            desk.end(*sent.pop(0))
        total = sum(engine.in_flight for engine in desk.fleet.engines)
        sent.append(desk.send(desk.request(((group, 400),))))
        threshold = percentage / 100 * (total + 1) / 5
        assert desk.fleet.engines[sent[-1][0]].in_flight <= math.floor(threshold) + 1


def test_kubeai_reaches_it():
    """One head at 100 % over two engines, with 3 in flight: the threshold is 2, the engine with 2 takes a third."""
    desk = Desk(PrefixHash(mean_load_percentage=100), 0, 0)
    own = desk.choose(desk.request(((0, 400),)))[0]
    desk.load(*((2, 1) if own == 0 else (1, 2)))
    assert desk.choose(desk.request(((0, 400),)))[0] == own
    desk.load(*((3, 0) if own == 0 else (0, 3)))
    assert desk.choose(desk.request(((0, 400),)))[0] == 1 - own


# Choices by load


@pytest.mark.parametrize(("bins", "worlds", "one", "two"), [(8, 1500, 2.58, 1.96), (64, 250, 3.92, 2.42)])
def test_balls_in_bins(bins, worlds, one, two):
    """Mean largest load. Two different choices of eight: 1.96, where two that may be the same one give 2.03."""
    for kind, value in ((Random, one), (PowerOfTwo, two)):
        most = [balls(kind, bins, world) for world in range(worlds)]
        assert statistics.mean(most) == pytest.approx(value, abs=4 * statistics.stdev(most) / math.sqrt(worlds) + 0.02)


FIRST = (
    ("least_load", {"tie": "first"}),
    ("sticky_least_loaded", {"count": "requests", "tie": "first"}),
    ("verl.global_load_balancer", {}),
    ("slime.router", {}),
    ("nemo_rl.least_in_flight", {}),
    ("vllm.cache_aware", {}),
)


@pytest.mark.parametrize(("kind", "parameters"), FIRST)
def test_first_on_ties_is_an_avalanche(kind, parameters):
    """200 sequential requests over four engines all go to the first one."""
    assert sequential(kind, **parameters) == [200, 0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("least_load", {"tie": "rotate"}),
        ("sticky_least_loaded", {"count": "sessions"}),
        ("sticky_least_loaded", {"count": "requests", "tie": "sessions"}),
        ("sticky_least_loaded", {"count": "requests", "tie": "rotate"}),
    ],
)
def test_other_ties_are_even(kind, parameters):
    """Rotating ties and counting sessions split them evenly."""
    assert sequential(kind, **parameters) == [50, 50, 50, 50]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("least_load", {"tie": "random"}),
        ("sticky_least_loaded", {"count": "requests", "tie": "random"}),
        ("kubeai.least_load", {}),
        ("aibrix.least_request", {}),
    ],
)
def test_random_ties_are_multinomial(kind, parameters):
    """Sums of squares over 40 worlds: chi-square with 120 degrees of freedom, at 0.1 % on either side."""
    squares = sum((count - 50) ** 2 / 50 for seed in range(40) for count in sequential(kind, seed=seed, **parameters))
    assert 0.0005 < stats.chi2(120).cdf(squares) < 0.9995


# 64 groups of 8 on 8 engines


@pytest.mark.parametrize("under_way", [1, 64, 512])
def test_round_robin_is_level(under_way):
    """CV 0, whatever is held."""
    assert variation("round_robin", 1, under_way=under_way, is_mixed=True) == 0


@pytest.mark.parametrize("kind", ["sglang.consistent_hashing", "rendezvous", "gym.sha256_mod"])
def test_hashed_groups_vary_by_a_third(kind):
    """64 group keys on eight engines: 33.1 % (root mean square), as measured ones had 46.2."""
    found = [variation(kind, world, under_way=1) for world in range(60)]
    assert math.sqrt(statistics.mean(cv**2 for cv in found)) == pytest.approx(math.sqrt(7 / 64), rel=4 / math.sqrt(840))
    assert math.sqrt(7 / 64) == pytest.approx(0.331, abs=0.0005)


def test_published_counts_vary_as_published():
    """The CVs of the counts that were printed, and those of chance: 5.8 % for 2,048 requests, 16.5 % for 256."""
    for counts, cv in (((88, 80, 59, 15, 106, 70, 73, 21), 0.462), ((24, 24, 26, 27, 29, 29, 30, 67), 0.419)):
        assert np.std(counts) / np.mean(counts) == pytest.approx(cv, abs=0.0006)
    assert math.sqrt(7 / 2048) == pytest.approx(0.058, abs=0.0005)
    assert math.sqrt(7 / 256) == pytest.approx(0.165, abs=0.0005)


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        ("sglang.cache_aware", {"under_way": 7, "is_mixed": True}),
        ("smg.cache_aware", {"under_way": 1}),
        ("smg.cache_aware", {"under_way": 5}),
        ("smg.consistent_hashing", {"under_way": 512}),
        ("sglang.consistent_hashing", {"under_way": 512}),
    ],
)
def test_what_covers_the_measured_spread(kind, case):
    """46.2 % is between the least and the most even of 40 worlds."""
    found = [variation(kind, world, **case) for world in range(40)]
    assert min(found) < 0.462 < max(found)


@pytest.mark.parametrize("under_way", [1, 24, 512])
@pytest.mark.parametrize("kind", ["sglang.cache_aware", "vllm.cache_aware", "least_load", "random"])
def test_what_does_not(kind, under_way):
    """Group after group: ties to the first are far less even with nothing held, and more even with some or all held."""
    found = [variation(kind, world, under_way=under_way) for world in range(10)]
    assert not min(found) <= 0.462 <= max(found)


def test_a_world_has_its_own_names():
    """Engines are named by world, so that rings differ between worlds."""
    assert fleet(2, 1).engines[0].url != fleet(2, 2).engines[0].url
    desk = Desk(Rendezvous(), 0, 0)
    assert set(places(desk.policy, desk.fleet, [str(key) for key in range(30)])) == {0, 1}
