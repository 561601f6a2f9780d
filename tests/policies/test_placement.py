"""Where keys and sequential requests land: closed forms and published facts."""

import math
import statistics
from collections import Counter

import pytest

from policies.gym.sha256_mod import Sha256Mod
from policies.least_load import LeastLoad
from policies.sglang.consistent_hashing import ConsistentHashing as Modulo
from policies.smg.consistent_hashing import ConsistentHashing as Ring
from policies.sticky_least_loaded import StickyLeastLoaded
from policies.vllm.consistent_hash import ConsistentHash
from tests.policies.worlds import Picks, ask, finish, fleet_of, send


def sequential(policy, requests=200, engines=4):
    """Requests that never overlap, each with a key of its own: how many each engine gets."""
    fleet, picks, counts = fleet_of(engines), Picks(3), Counter()
    policy.start(fleet)
    for serial in range(requests):
        request = ask(serial, ((serial, 9),), x_session_id=f"s{serial}", x_smg_routing_key=f"s{serial}")
        engine = send(policy, fleet, request, picks)
        counts[engine.index] += 1
        finish(policy, request, engine)
    return [counts[place] for place in range(engines)]


def test_first_on_ties_is_an_avalanche():
    """200 sequential requests over four engines all go to the first one."""
    assert sequential(LeastLoad(tie="first")) == [200, 0, 0, 0]
    assert sequential(StickyLeastLoaded(count="requests", tie="first")) == [200, 0, 0, 0]


def test_other_ties_spread():
    """Rotating ties and counting sessions split them evenly; random ties as a multinomial does."""
    assert sequential(LeastLoad(tie="rotate")) == [50, 50, 50, 50]
    assert sequential(StickyLeastLoaded(count="sessions")) == [50, 50, 50, 50]
    assert sequential(StickyLeastLoaded(count="requests", tie="sessions")) == [50, 50, 50, 50]
    assert sequential(StickyLeastLoaded(count="requests", tie="rotate")) == [50, 50, 50, 50]
    for policy in (LeastLoad(tie="random"), StickyLeastLoaded(count="requests", tie="random")):
        chi2 = sum((count - 50) ** 2 / 50 for count in sequential(policy))
        assert chi2 < 16.3  # the 99.9 % point of chi-square with 3 degrees of freedom


def counts_of(policy, engines, keys, world):
    fleet = fleet_of(engines)
    policy.start(fleet)
    counts = Counter()
    for key in range(keys):
        name = f"{world}/{key}"
        request = ask(key, x_session_id=name, x_smg_routing_key=name)
        counts[policy.choose(request, fleet, 0.0, Picks(0))[0].index] += 1
    return [counts[place] for place in range(engines)]


@pytest.mark.parametrize("policy", [Modulo, Sha256Mod])
@pytest.mark.parametrize(("engines", "keys", "peak"), [(2, 8, 1.28), (4, 16, 1.54), (8, 64, 1.53), (12, 64, 1.76)])
def test_hashed_keys_are_multinomial(policy, engines, keys, peak):
    """Mean of the largest over the mean count, and its variance (N-1)/K, are those of a multinomial."""
    worlds = [counts_of(policy(), engines, keys, world) for world in range(400)]
    assert statistics.mean(max(counts) * engines / keys for counts in worlds) == pytest.approx(peak, abs=0.04)
    variance = statistics.mean(statistics.pvariance(counts) for counts in worlds) * (engines / keys) ** 2
    assert variance == pytest.approx((engines - 1) / keys, rel=4 * math.sqrt(2 / (400 * (engines - 1))))


def test_four_keys_on_two_engines():
    """The split is 2:2 in 37.5 %, 3:1 in 50 % and 4:0 in 12.5 % of worlds."""
    worlds = 3000
    classes = Counter(max(counts_of(Modulo(), 2, 4, world)) for world in range(worlds))
    for largest, share in [(2, 0.375), (3, 0.5), (4, 0.125)]:
        assert classes[largest] / worlds == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / worlds))


def moved(policy_of, engines=8, keys=400):
    """Share of keys that move, and of those the share not to or from the engine that leaves."""
    before, after = policy_of(), policy_of()
    whole, rest = fleet_of(engines), fleet_of(engines - 1)
    before.start(whole)
    after.start(rest)
    changed = between = 0
    for key in range(keys):
        request = ask(key, x_session_id=f"k{key}", x_smg_routing_key=f"k{key}")
        old = before.choose(request, whole, 0.0, Picks(0))[0].index
        new = after.choose(request, rest, 0.0, Picks(0))[0].index
        changed += old != new
        between += old not in (new, engines - 1)
    return changed / keys, between / keys


def test_rings_move_one_share_and_modulo_nearly_all():
    """Without one of N, a ring moves about 1/N of the keys and none between survivors; a modulo moves 1 - 1/N."""
    for policy in (Ring, ConsistentHash):
        share, between = moved(policy)
        assert share == pytest.approx(1 / 8, abs=0.06)
        assert between == 0
    for policy in (Modulo, Sha256Mod):
        assert moved(policy)[0] == pytest.approx(7 / 8, abs=0.06)


def test_least_sessions_keep_equal_keys_level():
    """Placed by sessions, numbers of keys differ by at most one at any time."""
    for keys in (1, 5, 16, 61):
        counts = counts_of(StickyLeastLoaded(), 4, keys, "w")
        assert max(counts) - min(counts) <= 1
