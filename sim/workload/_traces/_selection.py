"""Which of the recorded sessions a replication replays, and when: windows, samples, resampling, rates.

Whole sessions are taken, with their sub-agents and with all sessions of their group, so that what prompts of one
session share stays as it was. A rate scales when groups arrive and leaves what happens inside a session alone; a time
scale stretches both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from policies._content import PRIVATE, Content
from sim.errors import ScenarioError
from sim.workload._lengths import Floats, Ints
from sim.workload._model import Child, Turn
from sim.workload._traces._recording import Recorded, Recording

_NEW: Final = 1 << 60
"""First source of copies, above all that a recording has."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Groups of a recording, renumbered; a group may be taken twice."""

    turns: list[list[Turn]]
    group_of: Ints
    at_s: Floats
    """When each group arrives, on the clock of the file."""
    children: dict[int, list[Child]]
    rank: Ints
    """Place of each group among those that arrive at one instant."""
    follows: dict[int, int] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    key_owner: Ints | None = None


def groups_within(recording: Recording, window_s: tuple[float, float] | None, limit: int | None) -> list[int]:
    """Groups that arrive in a window, which has its start and not its end; of these the first ``limit``."""
    at = arrivals(recording)
    low, high = window_s or (-np.inf, np.inf)
    found: list[int] = np.flatnonzero((at >= low) & (at < high))[:limit].tolist()
    return found


def arrivals(recording: Recording) -> Floats:
    """When each group's first call was made."""
    at = np.full(recording.groups, np.inf)
    for each in recording.sessions:
        if each.root == each.index:
            at[each.group] = min(at[each.group], each.at_s)
    return at


def choose(recording: Recording, groups: Sequence[int]) -> Chosen:
    """The sessions of groups, one group after the other; of all groups once, as the file has them."""
    if len(groups) == recording.groups == len(set(groups)):
        chosen = list(recording.sessions)
        copies: list[int] = [0] * len(chosen)
        numbers = dict(enumerate(groups))
        number_of = [each.group for each in chosen]
    else:
        if recording.follows:
            raise ScenarioError("groups that follow others are taken all or none: leave window, limit and samples out")
        members: dict[int, list[Recorded]] = {}
        for each in recording.sessions:
            members.setdefault(each.group, []).append(each)
        seen: dict[int, int] = {}
        chosen, copies, number_of = [], [], []
        for number, group in enumerate(groups):
            seen[group] = seen.get(group, -1) + 1
            chosen += members[group]
            copies += [seen[group]] * len(members[group])
            number_of += [number] * len(members[group])
        numbers = dict(enumerate(groups))
    renaming = _Copies(recording)
    new = {(each.index, number): at for at, (each, number) in enumerate(zip(chosen, number_of, strict=True))}
    own = list(zip(chosen, copies, number_of, strict=True))
    at, rank = arrivals(recording), np.arange(recording.groups) if recording.rank is None else recording.rank
    taken = [numbers[number] for number in range(len(groups))]
    owners = [new[each.index if each.owner is None else each.owner, number] for each, _, number in own]
    return Chosen(
        [renaming.of(each.turns, each.group, copy) if copy else each.turns for each, copy, _ in own],
        np.array(number_of, dtype=np.int64),
        at[taken],
        {
            new[each.index, number]: [c._replace(session=new[c.session, number]) for c in each.children]
            for each, _, number in own
            if each.children
        },
        rank[taken],
        dict(recording.follows),
        [each.key for each in chosen],
        np.array(owners) if any(each.owner is not None for each in chosen) else None,
    )


def one_by_one(recording: Recording, groups: Sequence[int]) -> Chosen:
    """Each call of the sessions of groups a session and a group of its own, at its recorded time."""
    wanted = set(groups)
    turns: list[list[Turn]] = []
    at_s: list[float] = []
    owner: list[int] = []
    first: dict[int, int] = {}
    for each in recording.sessions:
        if each.group not in wanted:
            continue
        for turn, at in zip(each.turns, each.times, strict=True):
            if at is None:
                raise ScenarioError(f"pace recorded needs a time of each call, and session {each.name!r} lacks one")
            owner.append(first.setdefault(each.root, len(turns)))
            turns.append([turn._replace(delay_s=0.0)])
            at_s.append(at)
    everyone = np.arange(len(turns))
    return Chosen(turns, everyone, np.array(at_s), {}, everyone, key_owner=np.array(owner, dtype=np.int64))


class _Copies:
    """A group that is drawn again keeps what it shares with others, and has the rest anew."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._owner: dict[int, int] = {}
        self._new: dict[tuple[int, int], int] = {}

    def of(self, turns: list[Turn], group: int, copy: int) -> list[Turn]:
        owner = self._owner or self._find_owners()

        def renamed(source: int) -> int:
            if source == PRIVATE or owner[source] != group:
                return source
            return self._new.setdefault((copy, source), _NEW + len(self._new))

        return [
            turn._replace(prompt=_renamed(turn.prompt, renamed), output_source=renamed(turn.output_source))
            for turn in turns
        ]

    def _find_owners(self) -> dict[int, int]:
        """The group of each source, -1 where more than one has it."""
        for each in self._recording.sessions:
            for turn in each.turns:
                for source in (*(source for source, _ in turn.prompt), turn.output_source):
                    if self._owner.setdefault(source, each.group) != each.group:
                        self._owner[source] = -1
        return self._owner


def _renamed(prompt: Content, rename: Callable[[int], int]) -> Content:
    return tuple((rename(source), tokens) for source, tokens in prompt)
