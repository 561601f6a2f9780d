"""The ring: successors, skips, stability, and the spread that its number of points gives."""

import statistics
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies._hash_ring import HashRing
from policies._hashes import blake3_u64, furc_u64
from tests.policies.worlds import fleet_of, set_available

KEYS = [f"session-{number}" for number in range(300)]


def label(url, point):
    return f"{url}#{point}"


def ring_of(engines, points=20, place=blake3_u64):
    ring = HashRing(points, label, place)
    ring.build(engines)
    return ring


@given(st.integers(1, 6), st.data())
@settings(max_examples=40, deadline=None)
def test_lookup_is_the_first_available_point(size, data):
    """Find equals a linear walk over all points, clockwise from the key."""
    fleet = fleet_of(size)
    set_available(fleet, data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    ring = ring_of(fleet.engines)
    points = sorted(
        (blake3_u64(label(engine.url, point)), engine.index) for engine in fleet.engines for point in range(20)
    )
    for key in KEYS[:40]:
        at = bisect_left(points, (blake3_u64(key), -1))
        walk = [fleet.engines[index] for _, index in points[at:] + points[:at]]
        assert ring.owner(key) is walk[0]
        assert ring.find(key) is next((engine for engine in walk if engine.is_available), None)


def test_only_keys_of_a_leaving_engine_move():
    """Between two engines that stay, no key moves; a joining one takes about 1/N."""
    fleet = fleet_of(8)
    before = {key: ring_of(fleet.engines[:7], 150).find(key) for key in KEYS}
    after = {key: ring_of(fleet.engines, 150).find(key) for key in KEYS}
    moved = [key for key in KEYS if before[key] is not after[key]]
    assert all(after[key] is fleet.engines[7] for key in moved)
    assert len(moved) / len(KEYS) == pytest.approx(1 / 8, abs=0.06)


def test_an_unavailable_engine_is_skipped_like_an_absent_one():
    """Keys of an engine that is down go where they would go without it, and return."""
    fleet = fleet_of(5)
    ring, without = ring_of(fleet.engines), ring_of(fleet.engines[:4])
    at_home = [ring.find(key) for key in KEYS]
    set_available(fleet, [True] * 4 + [False])
    assert [ring.find(key) for key in KEYS] == [without.find(key) for key in KEYS]
    set_available(fleet, [True] * 5)
    assert [ring.find(key) for key in KEYS] == at_home


def shares(places, engines):
    """Share of the circle that each engine's points own."""
    points = sorted((place, engine) for engine, own in enumerate(places) for place in own)
    owned = [0.0] * engines
    for (before, _), (place, engine) in zip([points[-1], *points], points, strict=False):
        owned[engine] += (place - before) % (1 << 64) / (1 << 64)
    return owned


@pytest.mark.parametrize(
    ("points", "place", "worlds", "largest"), [(150, blake3_u64, 150, 1.12), (160, furc_u64, 15, 1.12)]
)
def test_ring_shares_spread_as_beta(points, place, worlds, largest):
    """Over 8 engines: CV of shares is sqrt((N-1)/(NV+1)) and the mean largest share 1.12 of the mean."""
    spreads, maxima = [], []
    for world in range(worlds):
        owned = shares(
            [[place(f"http://{world}.{engine}:{point}") for point in range(points)] for engine in range(8)], 8
        )
        spreads.append(statistics.pvariance(owned) * 64)
        maxima.append(max(owned) * 8)
    assert statistics.mean(maxima) == pytest.approx(largest, abs=0.03)
    assert statistics.mean(spreads) == pytest.approx(7 / (8 * points + 1), rel=0.25)
