"""What a policy knows of caches: nothing of the content, exactly what is there, or what was there a moment ago."""

import pytest

from policies._protocol import Policy
from sim.router.spec import ExactIndex
from tests.sim.router.desks import Desk


class Looks(Policy):
    """Sends everything to engine 0 and notes what is known of its cache, for whatever content."""

    reads_content = True
    sees_all = False

    def __init__(self):
        self.seen = []

    def choose(self, request, fleet, now, pick):
        engine = next(each for each in fleet.engines if each.index == 0)
        look = engine.cached_tokens
        self.seen.append((len(request.content), None if look is None else look(((0, 60), (7, 1000)))))
        return engine, "look", 0


@pytest.mark.parametrize(
    ("index", "known"),
    [
        ("approximate", [(1, None)] * 4),
        ("none", [(0, None)] * 4),
        (ExactIndex(), [(1, 50)] * 4),
        (ExactIndex(lag_s=0.005), [(1, 0), (1, 0), (1, 50), (1, 50)]),
        (ExactIndex(lag_s=0.02), [(1, 0), (1, 0), (1, 0), (1, 50)]),
    ],
)
def test_what_is_known_of_a_cache(index, known):
    """The engine holds 50 tokens of what the first request, first token at 5, began with; asked at 0, 9, 10, 25."""
    desk = Desk(Looks(), engines=1, cache_index=index)
    desk.engines[0].cached = 50
    desk.send(0, 9, 10, 25, prompt=60).run()
    assert desk.router.policy.seen == known


def test_the_answer_is_known_later_than_the_prompt():
    """First token at 5, end at 10; a lag of 20: 100 tokens of prompt from 25 on, ten more of the answer from 30 on."""
    desk = Desk(Looks(), engines=1, cache_index=ExactIndex(lag_s=0.02))
    desk.engines[0].cached = 1000
    content = ((0, 100), (1, 500))
    known = []
    for tick in (24, 25, 29, 30, 40):
        desk.at(tick, lambda _: known.append(desk.router.views[0].cached_tokens(content)), priority=7 << 48)
    desk.send(0, 50).run()
    assert known == [0, 100, 100, 110, 110]


def test_evictions_are_known_at_once_and_a_new_process_holds_nothing():
    """Whatever was told before."""
    desk = Desk(Looks(), engines=1, cache_index=ExactIndex(lag_s=0.001))
    engine, known = desk.engines[0], []
    engine.cached = 100

    def look(_):
        known.append(desk.router.views[0].cached_tokens(((0, 100), (9, 9))))

    def come_back(_):
        desk.router.leave(0)
        desk.router.join(engine, "http://engine-0")

    desk.at(20, look).at(30, lambda _: setattr(engine, "cached", 40)).at(31, look).at(32, come_back).at(33, look)
    desk.send(0, 50).run()
    assert known == [100, 40, 0]


def test_replicas_share_what_engines_tell():
    """A prompt that one replica sent is known to the other after the lag."""
    desk = Desk(Looks, engines=1, replicas=2, assignment="connection", cache_index=ExactIndex(lag_s=0.001))
    desk.engines[0].cached = 60
    desk.send(0, 0, 50, 50, prompt=60).run()
    assert [router.policy.seen for router in desk.router.routers] == [[(1, 0), (1, 60)]] * 2
