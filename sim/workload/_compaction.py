"""Contexts that are compacted: once a prompt has grown past a threshold, the agent goes on with a summary of it.

The turn whose prompt is longer than ``at_tokens`` generates ``summary_tokens`` instead of an answer; its observation is
lost, and the next prompt is the head that others share, and the summary as new text. Nothing behind the head is found
in a cache then. The last turn of a session is never one of these.

Left out: agents that keep some of the latest turns beside the summary.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim.errors import ScenarioError
from sim.workload._chains import Chains
from sim.workload._check import within
from sim.workload._lengths import Ints, Length, check_length
from sim.workload._model import Session, Turn

_EPOCH: Final = 1 << 40
"""Between the sources of a session before and after a compaction: more than there are sessions."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A summary in place of a context that has grown too long."""

    at_tokens: int
    """A turn whose prompt is longer asks for the summary."""
    summary_tokens: Length
    """Tokens of the summary; a draw below 1 is 1."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a length."""
        within("at_tokens", self.at_tokens, 1)
        check_length("summary_tokens", self.summary_tokens, 1)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Columns of one element a request, as compaction leaves them."""

    own: Ints
    """Tokens of the session's own in the prompt."""
    output: Ints
    limit: Ints
    epoch: Ints
    """Compactions of the session before this turn."""


def compact(
    at_tokens: int, heads: Ints, starts: Ints, turns: Ints, output: Ints, added: Ints, summaries: Ints, max_tokens: int
) -> Contexts:
    """Contexts that grow by ``output`` and ``added`` until they are compacted; ``heads`` is by session."""
    if (heads + summaries.max(initial=0) >= at_tokens).any():
        raise ScenarioError(f"at_tokens must be above head and summary, {int(heads.max() + summaries.max()):,} tokens")
    own, epoch = np.zeros_like(added), np.zeros_like(added)
    length, limit = output.copy(), np.full_like(added, max_tokens)
    context, era = np.zeros_like(heads), np.zeros_like(heads)
    for turn in range(int(turns.max(initial=0))):
        active = np.flatnonzero(turns > turn)
        here = starts[active] + turn
        own[here], epoch[here] = context[active], era[active]
        is_long = (heads[active] + context[active] > at_tokens) & (turns[active] > turn + 1)
        asks = here[is_long]
        length[asks] = limit[asks] = summaries[asks]
        context[active] = np.where(is_long, summaries[here], context[active] + length[here] + added[here])
        era[active] += is_long
    return Contexts(own, length, limit, epoch)


class Compacted(Chains):
    """Chains whose contexts begin anew behind the head, once or more."""

    def __init__(self, *args: Any, epoch: Ints) -> None:
        """``epoch``: of each request, the compactions before it."""
        super().__init__(*args)
        self._epoch = epoch.data

    def session(self, index: int) -> Session:
        """Session ``index``; after a compaction its own text is another source."""
        session = super().session(index)
        start, own = self._start[index], 2 * index + 2
        turns = [self._moved(turn, own, self._epoch[start + j]) for j, turn in enumerate(session.turns)]
        return Session(index, session.group, turns)

    @staticmethod
    def _moved(turn: Turn, own: int, epoch: int) -> Turn:
        if not epoch:
            return turn
        source = own + epoch * _EPOCH
        *head, (_, tokens) = turn.prompt
        output_source = source if turn.output_source == own else turn.output_source
        return turn._replace(prompt=(*head, (source, tokens)), output_source=output_source)
