"""Sessions whose context only grows: a head shared with others, then tokens of the session's own.

Content of turn k of session i in group g:

    ((system, S), (group g, P_g), (session i, own_k))          own_0 <= own_1 <= ...

``own`` and the other columns are flat, one element a request, sessions one after the other: session i holds elements
``start_i .. start_i + turns_i - 1``. Sources: system 0, groups odd, sessions even, so that none of them changes when
groups are added. Constant columns are broadcast views and take no room.
"""

from dataclasses import dataclass

import numpy as np

from policies._content import PRIVATE, Content
from sim.workload._lengths import Floats, Ints
from sim.workload._model import Session, Travel, Turn, Workload
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
    group_tokens: Ints
    """Tokens that the sessions of a group share, beyond the system prompt; by group."""
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
    ) -> None:
        """``live``: generated tokens are content of the session; else they are PRIVATE."""
        super().__init__(group_of, arrival_s, order, travel)
        self._columns = columns
        self.system_tokens = system_tokens
        self.group_tokens = columns.group_tokens
        self._live = live
        # Indexing a memoryview gives plain numbers, at a quarter of the cost of an array's scalar and its conversion.
        self._group = group_of.data
        self._start, self._turns = columns.starts.data, columns.turns.data
        self._head = columns.group_tokens.data
        self._own, self._output = columns.own.data, columns.output.data
        self._limit, self._delay = columns.limit.data, columns.delay_s.data

    def first_requests(self) -> Ints:
        """Turns of the sessions before, summed."""
        turns = self._columns.turns
        return np.cumsum(turns) - turns

    def head(self, group: int) -> Content:
        """What the sessions of a group share."""
        tokens = self._head[group]
        own = ((2 * group + 1, tokens),) if tokens else ()
        return ((0, self.system_tokens), *own) if self.system_tokens else own

    def session(self, index: int) -> Session:
        """Session ``index``, built from the columns."""
        group = self._group[index]
        head = self.head(group)
        source = 2 * index + 2
        output_source = source if self._live else PRIVATE
        start = self._start[index]
        own, output, limit, delay = self._own, self._output, self._limit, self._delay
        turns = []
        for j in range(start, start + self._turns[index]):
            tokens = own[j]
            prompt = (*head, (source, tokens)) if tokens else head
            turns.append(_new(Turn, (prompt, output[j], output_source, limit[j], delay[j])))
        return Session(index, group, turns)

    def flat(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Of each request: tokens of its head, its own, its answer where that is content; then where sessions begin."""
        columns = self._columns
        used = indices(columns.starts, columns.turns)
        heads = np.repeat(columns.group_tokens[self.group_of] + self.system_tokens, columns.turns)
        answers = columns.output[used] if self._live else np.zeros_like(used)
        return heads, columns.own[used], answers, self.first_requests()

    def summary(self) -> dict[str, int]:
        """Totals over the columns."""
        columns = self._columns
        used = indices(columns.starts, columns.turns)
        head = columns.group_tokens[self.group_of] + self.system_tokens
        prompts = np.repeat(head, columns.turns) + columns.own[used]
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
