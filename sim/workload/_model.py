"""What a workload is to the client: groups that arrive, sessions of a group, turns of a session.

    group 7 arrives ---+--- session 14: turn 0, answer, delay, turn 1, answer, delay, turn 2 ...
                       +--- session 15: turn 0, ...

Ids follow the order of the data, not of submission. A session is built when someone asks for it, from columns drawn
once for each purpose, so a million sessions fit in memory and asking twice gives the same answer. Everything handed out
is plain Python (numpy scalars are slow to compute with, one at a time).

A session may start others (sub-agents, branches of a search): a child begins when a turn of its parent has ended, its
context is the parent's up to there or less and then its own, and a later turn of the parent may wait for it.

    parent: turn 0, answer ---+--- turn 1, answer, delay ---------------- turn 2 ...
                              +--- delay, child: turn 0 ... turn 5 ---+   (waits for the child, which joins turn 2)

Left out: turns of one session that overlap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from policies._content import Content
from sim.workload._check import positive
from sim.workload._lengths import Floats, Ints

Encoding = Literal["text", "chat", "input_ids"]


# Named tuples where other values are frozen dataclasses: as immutable, and built three times as fast, once a request.
class Turn(NamedTuple):
    """One request of a session."""

    prompt: Content
    """The whole prompt of this turn."""
    output_tokens: int
    """Realised length, 1 or more; hidden from routers and from the scheduling of engines."""
    output_source: int
    """Source of the generated tokens; PRIVATE where no later prompt repeats them."""
    max_tokens: int
    """The client's limit; equal to ``output_tokens``: the answer is ended by its limit."""
    delay_s: float
    """Wait between the end of the previous turn and the submission of this one; of a first turn: between the start of
    the session and its submission, while its environment boots. 0 for the first turn of a child."""


class Session(NamedTuple):
    """The turns of one agent or sample, in order."""

    id: int
    group: int
    turns: Sequence[Turn]


ALONE: Final = -1
"""In place of the turn that a child joins: nobody waits for it."""


class Child(NamedTuple):
    """A session that starts out of another one, its parent, and belongs to the parent's group."""

    session: int
    """Id of the child, above its parent's."""
    after_turn: int
    """The child starts when this turn of its parent has finished; where that turn does not, it never starts."""
    delay_s: float
    """Wait between the end of that turn and the submission of the child's first."""
    joins_turn: int = ALONE
    """A later turn of the parent, submitted no earlier than the child has ended, however it ended; or ALONE."""


@dataclass(frozen=True, slots=True)
class Travel:
    """How prompts travel from the client to the engines."""

    encoding: Encoding = "text"
    chars_per_token: float | None = None
    """Characters of a token in the routing text; None: 4, and 5.5 for token ids sent as decimal numbers."""

    def __post_init__(self) -> None:
        """Refuse a length that is not positive."""
        if self.chars_per_token is not None:
            positive("chars_per_token", self.chars_per_token)

    @property
    def chars(self) -> float:
        """Characters of a token."""
        if self.chars_per_token is not None:
            return self.chars_per_token
        return 5.5 if self.encoding == "input_ids" else 4.0


class Workload:
    """Base of what the kinds generate: who belongs to which group, when groups arrive, how prompts travel."""

    def __init__(self, group_of: Ints, arrival_s: Floats, order: Ints, travel: Travel) -> None:
        """Group of each session; arrival of each group; groups in the order in which they arrive."""
        self.group_of = group_of
        self.arrival_s = arrival_s
        self.order = order
        """Every group once, by arrival; those of one instant in the order in which they start. Groups that follow
        others (``follows``) stand last."""
        self.sessions = len(group_of)
        self.groups = len(arrival_s)
        self.keys = [""] * self.sessions
        """Routing key of each session as the data gives it, or empty."""
        self.children: Mapping[int, Sequence[Child]] = {}
        """Sessions that start out of others, by parent; they have ids like all, and do not start with their group."""
        self.follows: Mapping[int, int] = {}
        """By group, the one that arrives after it has ended, its ``arrival_s`` later; those stand last in ``order``."""
        self.key_owner: Ints | None = None
        """By session, the one whose random id is its routing key; None: each has its own."""
        self.has_boots = False
        """Whether first turns have a delay: the time in which a session's environment starts."""
        self.encoding: Encoding = travel.encoding
        self.chars_per_token = travel.chars

    @property
    def is_plain(self) -> bool:
        """Whether sessions start with their groups, groups by the clock, and first turns at once."""
        return not (self.children or self.follows or self.has_boots)

    def first_requests(self) -> Ints:
        """Id of the first request of each session: requests are numbered through the sessions, in order of the data."""
        return np.arange(self.sessions, dtype=np.int64)

    def session(self, index: int) -> Session:
        """Session ``index``, the same at each call."""
        raise NotImplementedError

    def summary(self) -> dict[str, int]:
        """Totals: requests, sessions, groups, prompt_tokens, output_tokens, largest_ and smallest_request_tokens.

        The last two are prompt plus ``max_tokens`` of one request: what it may come to occupy.
        """
        raise NotImplementedError
