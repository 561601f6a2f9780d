"""Sessions whose context only grows: a head shared with others, then tokens of the session's own.

Content of turn k of session i with head h, in a rollout that of its group, else that of its tenant:

    ((system, S), (head h, P_h), (session i, own_k))          own_0 <= own_1 <= ...

A session that forks from another, its parent p, starts from the first tokens of the parent's own source:

    ((system, S), (head h, P_h), (session p, kept), (session i, own_k))

``own`` and the other columns are flat, one element a request, sessions one after the other: session i holds elements
``start_i .. start_i + turns_i - 1``. Sources: system 0, heads odd, sessions even, so that none of them changes when
groups are added. Constant columns are broadcast views and take no room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policies._content import PRIVATE, Content
from sim.workload._lengths import Floats, Ints
from sim.workload._model import Child, Session, Travel, Turn, Workload
from sim.workload._ragged import indices

_new = tuple.__new__
"""Makes a named tuple as its constructor does, without the constructor's call: one is made for each request."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The numbers of a workload of chains; all but the first three have one element a request."""

    starts: Ints
    """First element of each session."""
    turns: Ints
    """Turns of each session."""
    head_tokens: Ints
    """Tokens that the sessions of a head share, beyond the system prompt; by head."""
    own: Ints
    """Tokens of the session's own source in the prompt."""
    output: Ints
    """Realised length."""
    limit: Ints
    """The client's max_tokens."""
    delay_s: Floats


class Chains(Workload):
    """Sessions built from columns, on demand."""

    def __init__(
        self,
        columns: Columns,
        system_tokens: int,
        group_of: Ints,
        arrival_s: Floats,
        order: Ints,
        live: bool,
        travel: Travel,
        head_of: Ints | None = None,
    ) -> None:
        """``live``: generated tokens are content of the session, else PRIVATE; ``head_of`` sessions: None, groups."""
        super().__init__(group_of, arrival_s, order, travel)
        self._columns = columns
        self.system_tokens = system_tokens
        self.head_of = group_of if head_of is None else head_of
        self.head_tokens = columns.head_tokens[self.head_of]
        """By session: tokens of its prompts that others have too, beyond the system prompt."""
        self._live = live
        # Indexing a memoryview gives plain numbers, at a quarter of the cost of an array's scalar and its conversion.
        self._group, self._head = group_of.data, self.head_of.data
        self._start, self._turns = columns.starts.data, columns.turns.data
        self._tokens = columns.head_tokens.data
        self._own, self._output = columns.own.data, columns.output.data
        self._limit, self._delay = columns.limit.data, columns.delay_s.data

    def first_requests(self) -> Ints:
        """Turns of the sessions before, summed."""
        turns = self._columns.turns
        return np.cumsum(turns) - turns

    def head(self, index: int) -> Content:
        """What the prompts of a session start with and others have too."""
        head = self._head[index]
        tokens = self._tokens[head]
        own = ((2 * head + 1, tokens),) if tokens else ()
        return ((0, self.system_tokens), *own) if self.system_tokens else own

    def session(self, index: int) -> Session:
        """Session ``index``, built from the columns."""
        head = self.head(index)
        source = 2 * index + 2
        output_source = source if self._live else PRIVATE
        start = self._start[index]
        own, output, limit, delay = self._own, self._output, self._limit, self._delay
        turns = []
        for j in range(start, start + self._turns[index]):
            tokens = own[j]
            prompt = (*head, (source, tokens)) if tokens else head
            turns.append(_new(Turn, (prompt, output[j], output_source, limit[j], delay[j])))
        return _new(Session, (index, self._group[index], turns))

    def flat(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Of each request: tokens of its head, its own, its answer where that is content; then where sessions begin."""
        columns = self._columns
        used = indices(columns.starts, columns.turns)
        heads = np.repeat(self.head_tokens + self.system_tokens, columns.turns)
        answers = columns.output[used] if self._live else np.zeros_like(used)
        return heads, columns.own[used], answers, self.first_requests()

    def summary(self) -> dict[str, int]:
        """Totals over the columns."""
        columns = self._columns
        used = indices(columns.starts, columns.turns)
        prompts = np.repeat(self.head_tokens + self.system_tokens, columns.turns) + columns.own[used]
        sizes = prompts + columns.limit[used]
        return {
            "requests": len(used),
            "sessions": self.sessions,
            "groups": self.groups,
            "prompt_tokens": int(prompts.sum()),
            "output_tokens": int(columns.output[used].sum()),
            "largest_request_tokens": int(sizes.max()),
            "smallest_request_tokens": int(sizes.min()),
        }


class Forks(Chains):
    """Chains of which some start out of others: a parent's context is the first part of a child's."""

    def __init__(
        self,
        columns: Columns,
        system_tokens: int,
        group_of: Ints,
        arrival_s: Floats,
        order: Ints,
        live: bool,
        travel: Travel,
        head_of: Ints,
        *,
        parent: Ints,
        kept: Ints,
        children: Mapping[int, Sequence[Child]],
    ) -> None:
        """By session: its ``parent``, and the tokens of the parent's own source that are ``kept``; 0: it has none."""
        super().__init__(columns, system_tokens, group_of, arrival_s, order, live, travel, head_of)
        self.head_tokens = self.head_tokens + kept
        self.children = children
        self._parent, self._kept = parent.data, kept.data

    def head(self, index: int) -> Content:
        """What the prompts of a session start with and others have too; of a child also what it kept of its parent."""
        head, kept = super().head(index), self._kept[index]
        return (*head, (2 * self._parent[index] + 2, kept)) if kept else head
