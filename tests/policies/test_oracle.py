"""The oracle, by hand: 0.05 ms a prompt token, 256 x 0.1 = 25.6 ms for each other request."""

from policies._protocol import EngineView
from policies.oracle import Oracle
from tests.policies.worlds import Desk


def holds(engine: EngineView, tokens: int) -> None:
    """Give an engine a cache that holds so much of any prompt."""
    engine.cached_tokens = lambda _: tokens


def prompt(desk: Desk, tokens: int = 1000):
    return desk.request(((1, tokens),))


def test_equal_engines_are_a_tie():
    """Nothing known, or the same of all: fewest in flight, then uniform."""
    desk = Desk(Oracle(), 0, 0, 0)
    assert desk.choose(prompt(desk)) == (0, "expected_first")
    assert desk.tied == [0, 1, 2]
    desk.load(1, 0, 0)
    desk.choose(prompt(desk))
    assert desk.tied == [1, 2]
    desk.load(5, 4, 4)
    for place in range(3):
        desk.report(place, running=3)
    desk.choose(prompt(desk))
    assert desk.tied == [1, 2]


def test_a_cache_is_worth_its_tokens():
    """512 cached tokens are worth 25.6 ms, which is one more request: exactly even; 513 are worth more."""
    desk = Desk(Oracle(), 0, 0)
    desk.report(0, running=1)
    desk.report(1)
    holds(desk.fleet.engines[1], 0)
    for tokens, place in ((511, 1), (513, 0)):
        holds(desk.fleet.engines[0], tokens)
        assert desk.choose(prompt(desk)) == (place, "expected_first"), tokens


def test_a_queue_is_worth_its_tokens():
    """Waiting prompt tokens count as this prompt's own do; a report beats the router's own count."""
    desk = Desk(Oracle(), 9, 0)
    desk.report(0, queued_tokens=400)
    desk.report(1, queued_tokens=401)
    assert desk.choose(prompt(desk)) == (0, "expected_first")
    desk.report(0, queued_tokens=402)
    assert desk.choose(prompt(desk)) == (1, "expected_first")
    desk.report(1, waiting=1, queued_tokens=0)
    assert desk.choose(prompt(desk)) == (0, "expected_first")


def test_full_engines_come_last():
    """Above the share, not at it; where all are full the rule is as without."""
    desk = Desk(Oracle(), 0, 0)
    desk.report(0, kv_share=0.95)
    desk.report(1, running=1)
    assert desk.choose(prompt(desk)) == (0, "expected_first")
    desk.report(0, kv_share=0.96)
    assert desk.choose(prompt(desk)) == (1, "expected_first")
    desk.report(1, running=1, kv_share=1.0)
    assert desk.choose(prompt(desk)) == (0, "all_full")


def test_failure_and_restart():
    """A failed engine is not asked; back and cold, it is chosen for its empty queue, not for what it held."""
    desk = Desk(Oracle(), 0, 0)
    desk.report(0, running=1)
    desk.report(1, running=1)
    holds(desk.fleet.engines[0], 900)
    assert desk.choose(prompt(desk)) == (0, "expected_first")
    desk.up(False, True)
    assert desk.choose(prompt(desk)) == (1, "expected_first")
    desk.up(True, True)
    holds(desk.fleet.engines[0], 0)
    desk.report(0)
    assert desk.choose(prompt(desk)) == (0, "expected_first")
    desk.up(False, False)
    assert desk.choose(prompt(desk)) == (None, "no_engine")
