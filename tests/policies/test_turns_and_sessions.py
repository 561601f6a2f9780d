"""production-stack's round robin at a6c01db05 and AIBrix's session affinity at e3e10f9e4, by hand."""

from policies.aibrix.session_affinity import SessionAffinity, _score
from policies.production_stack.roundrobin import Roundrobin
from tests.policies.worlds import Desk


def test_turns_by_address():
    """In order of addresses, whatever the router's order and the load; nothing available: nothing."""
    desk = Desk(Roundrobin(), 9, 0, 0)
    desk.fleet.engines.reverse()
    desk.fleet.available[:] = desk.fleet.engines
    assert [desk.choose()[0] for _ in range(4)] == [0, 1, 2, 0]
    desk.up(False, False, False)
    assert desk.choose() == (None, "no_engine")


def test_each_set_has_its_own_turn():
    """A failure begins a new count at the first address; when the set is whole again it goes on where it was."""
    desk = Desk(Roundrobin(), 0, 0, 0)
    assert desk.choose()[0] == 0
    desk.up(False, True, True)
    assert [desk.choose()[0] for _ in range(3)] == [1, 2, 1]
    desk.up(True, True, True)
    assert desk.choose()[0] == 1
    desk.up(False, True, True)
    assert desk.choose()[0] == 2
    desk.up(True, True, True)
    desk.join()
    assert [desk.choose()[0] for _ in range(5)] == [0, 1, 2, 3, 0]


def test_the_hash():
    """FNV-1a: of nothing but the zero byte it is offset * prime; of "a" and "b" around it, three rounds."""
    assert _score("", "") == 14695981039346656037 * 1099511628211 % 2**64
    rounds = 14695981039346656037
    for byte in (97, 0, 98):
        rounds = (rounds ^ byte) * 1099511628211 % 2**64
    assert _score("a", "b") == rounds
    assert _score("ab", "c") != _score("a", "bc")


def test_a_key_has_its_pod():
    """The largest hash among the ready; a failed pod's sessions go to their next, and return when it does."""
    desk = Desk(SessionAffinity(), 9, 0, 0)
    scores = [_score("s", f"engine-{place}:8000") for place in range(3)]
    home = scores.index(max(scores))
    assert desk.choose(x_aibrix_session_key="s") == (home, "key")
    desk.up(*(place != home for place in range(3)))
    second = scores.index(sorted(scores)[1])
    assert desk.choose(x_aibrix_session_key="s") == (second, "key")
    desk.up(True, True, True)
    assert desk.choose(x_aibrix_session_key="s") == (home, "key")


def test_without_a_key_it_is_random():
    """No key, or one of 257 bytes: any pod; 256 bytes are a key."""
    desk = Desk(SessionAffinity(), 0, 0, 0)
    assert desk.choose()[1] == "no_key"
    assert desk.tied == [0, 1, 2]
    assert desk.choose(x_aibrix_session_key="x" * 257)[1] == "no_key"
    assert desk.choose(x_aibrix_session_key="x" * 256)[1] == "key"
    desk.up(False, False, False)
    assert desk.choose(x_aibrix_session_key="s") == (None, "no_engine")


def test_who_echoes_stays_where_it_went():
    """An echoing client whose pod failed keeps the one that served it since; one whose pod left goes by its hash."""
    desk = Desk(SessionAffinity(client_echoes=True), 0, 0, 0)
    home = desk.choose(x_aibrix_session_key="s")[0]
    assert desk.choose(x_aibrix_session_key="s") == (home, "echoed")
    desk.up(*(place != home for place in range(3)))
    away, branch = desk.choose(x_aibrix_session_key="s")
    assert branch == "key"
    desk.up(True, True, True)
    assert desk.choose(x_aibrix_session_key="s") == (away, "echoed")
    desk.leave(away)
    assert desk.choose(x_aibrix_session_key="s") == (home, "key")
