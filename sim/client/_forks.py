"""Sessions that start out of other sessions: sub-agents, branches of a search.

A child starts ``delay_s`` after a turn of its parent has finished. A later turn of the parent may wait for it: the turn
is sent when its own delay is over and all children that join there have ended, well or not. Children belong to the
group of their parent and hold no place under a cap: a sample holds one for its whole life, so that a parent that waits
never waits for places that others hold. Children of turns that never finish do not start; they count as ended.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from sim.client._client import Live
from sim.instants import SUBMIT, Clock
from sim.workload._model import Child


class Host(Protocol):
    """What is needed of the client."""

    env: Clock
    ticks: float
    group_of: list[int]
    suspended: set[int]
    has_ended: bytearray

    def start_child(self, session: int) -> None:
        """A child's time has come."""

    def give_up(self, session: int) -> None:
        """A child will never start."""

    def join(self, live: Live) -> None:
        """The children that a session waited for have ended."""


class Forks:
    """Starts children, and lets parents wait for them."""

    def __init__(self, client: Host, children: Mapping[int, Sequence[Child]]) -> None:
        self.client = client
        self.children = children
        self.parents = {child.session: parent for parent, born in children.items() for child in born}
        self.joins = {child.session: child.joins_turn for born in children.values() for child in born}
        self.awaited = Counter((parent, child.joins_turn) for parent, born in children.items() for child in born)
        """Children that have not ended, by parent and the turn that waits for them."""
        self.waiting: dict[int, Live] = {}
        """Parents whose next turn waits for children."""
        self.postponed: dict[int, list[int]] = defaultdict(list)
        """By group, children whose time came while their group was suspended."""

    def is_child(self, session: int) -> bool:
        """Whether a session starts out of another one."""
        return session in self.parents

    def must_wait(self, live: Live) -> bool:
        """Whether children that join the next turn have not ended; the client is told when they have."""
        if self.awaited[live.index, live.turn] <= 0:
            return False
        self.waiting[live.index] = live
        return True

    def turn_finished(self, live: Live) -> None:
        """The children of the turn that has just finished start, each after its delay."""
        client = self.client
        for child in self.children.get(live.index, ()):
            if child.after_turn == live.turn:
                at = client.env._now + round(child.delay_s * client.ticks)
                client.env.at(at, SUBMIT + 1 + child.session, self._begin, child.session)

    def _begin(self, session: int) -> None:
        client = self.client
        group = client.group_of[session]
        if group in client.suspended:
            self.postponed[group].append(session)
        elif not client.has_ended[session]:
            client.start_child(session)

    def resume(self, group: int) -> None:
        """A suspended group goes on: children whose time has come meanwhile start."""
        for session in self.postponed.pop(group, ()):
            self.client.start_child(session)

    def session_ended(self, session: int, turns_finished: int) -> None:
        """What never starts now counts as ended; who waited for this session may go on."""
        for child in self.children.get(session, ()):
            if child.after_turn >= turns_finished and not self.client.has_ended[child.session]:
                self.client.give_up(child.session)
        parent = self.parents.get(session, -1)
        turn = self.joins.get(session, -1)
        self.awaited[parent, turn] -= 1
        live = self.waiting.get(parent)
        if live is not None and live.turn == turn and self.awaited[parent, turn] <= 0:
            del self.waiting[parent]
            self.client.join(live)
