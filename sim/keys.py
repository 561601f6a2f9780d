"""Routing keys of sessions: which requests share one, by the client's scope.

As in slime's pull request 2206: each session (sample) has a random id that is its key; under group scope the siblings
share one key, an explicit key of one sibling becomes the key of all, and two different explicit keys inside one group
are refused, because either choice would break somebody's placement.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from sim.errors import ScenarioError


def group_keys(group_of: Iterable[int], explicit: Iterable[str]) -> dict[int, str]:
    """Explicit key by group, of groups that have one; two different ones in a group are an error."""
    keys: dict[int, str] = {}
    for session, (group, key) in enumerate(zip(group_of, explicit, strict=True)):
        if key and keys.setdefault(int(group), key) != key:
            raise ScenarioError(
                f"session {session} of group {group} has the explicit key {key!r}, another of its group has "
                f"{keys[int(group)]!r}: under key_scope group a group has one key"
            )
    return keys


def session_keys(
    scope: Literal["request", "session", "group"],
    session_ids: Sequence[str],
    group_ids: Sequence[str],
    group_of: Sequence[int],
    explicit: Sequence[str],
) -> list[str]:
    """Header value of each session; empty under request scope, where each request is its own key.

    ``session_ids`` and ``group_ids`` are the random ids of a replication, ``explicit`` the keys that the data or the
    scenario sets ("" where none). An explicit key is kept under every scope.
    """
    if scope == "group":
        shared = group_keys(group_of, explicit)
        return [shared.get(int(group)) or group_ids[int(group)] for group in group_of]
    if scope == "session":
        return [key or own for key, own in zip(explicit, session_ids, strict=True)]
    return list(explicit)
