"""Which sessions share a routing key."""

import pytest

from sim.errors import ScenarioError
from sim.keys import session_keys

IDS = ["s0", "s1", "s2", "s3"]
GROUPS = ["g0", "g1"]
OF = [0, 0, 1, 1]
NONE = ["", "", "", ""]


def test_siblings_share_one_value_under_group_scope_and_none_under_session_scope() -> None:
    """Group scope: one value a group; session scope: one a session; request scope: none, a request is its own key."""
    assert session_keys("group", IDS, GROUPS, OF, NONE) == ["g0", "g0", "g1", "g1"]
    assert session_keys("session", IDS, GROUPS, OF, NONE) == IDS
    assert session_keys("request", IDS, GROUPS, OF, NONE) == NONE


def test_an_explicit_key_is_inherited_by_its_group() -> None:
    """One sibling's key becomes that of all, whichever sibling has it; equal keys do not conflict."""
    assert session_keys("group", IDS, GROUPS, OF, ["", "", "", "mine"]) == ["g0", "g0", "mine", "mine"]
    assert session_keys("group", IDS, GROUPS, OF, ["a", "a", "", ""]) == ["a", "a", "g1", "g1"]


def test_an_explicit_key_stays_its_sessions_own_under_the_other_scopes() -> None:
    """Without group scope nobody inherits."""
    explicit = ["", "mine", "", ""]
    assert session_keys("session", IDS, GROUPS, OF, explicit) == ["s0", "mine", "s2", "s3"]
    assert session_keys("request", IDS, GROUPS, OF, explicit) == explicit


def test_two_explicit_keys_in_one_group_are_refused() -> None:
    """Either choice would break somebody's placement, so there is none."""
    with pytest.raises(
        ScenarioError, match="session 3 of group 1 has the explicit key 'b', another of its group has 'a'"
    ):
        session_keys("group", IDS, GROUPS, OF, ["", "", "a", "b"])
    assert session_keys("session", IDS, GROUPS, OF, ["", "", "a", "b"])[2:] == ["a", "b"]
