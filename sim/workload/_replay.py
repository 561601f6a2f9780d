"""A workload of recorded sessions: turns that are there already, and are handed out as they are."""

from collections.abc import Mapping, Sequence

import numpy as np

from policies._content import count
from sim.workload._lengths import Floats, Ints
from sim.workload._model import Child, Session, Travel, Turn, Workload


class Replay(Workload):
    """Sessions given turn by turn."""

    def __init__(
        self,
        turns: Sequence[Sequence[Turn]],
        group_of: Ints,
        arrival_s: Floats,
        order: Ints,
        travel: Travel,
        children: Mapping[int, Sequence[Child]] | None = None,
    ) -> None:
        """Turns and group of each session; arrival of each group; groups in the order in which they arrive."""
        super().__init__(group_of, arrival_s, order, travel)
        self._given = turns
        self._group = group_of.tolist()
        self.children = children or {}

    def first_requests(self) -> Ints:
        """Turns of the sessions before, summed."""
        turns = np.array([len(each) for each in self._given], dtype=np.int64)
        return np.cumsum(turns) - turns

    def session(self, index: int) -> Session:
        """Session ``index``, as it was recorded."""
        return Session(index, self._group[index], self._given[index])

    def summary(self) -> dict[str, int]:
        """Totals over the turns."""
        prompts = [count(turn.prompt) for turns in self._given for turn in turns]
        each = [turn for turns in self._given for turn in turns]
        sizes = [prompt + turn.max_tokens for prompt, turn in zip(prompts, each, strict=True)]
        return {
            "requests": len(each),
            "sessions": self.sessions,
            "groups": self.groups,
            "prompt_tokens": sum(prompts),
            "output_tokens": sum(turn.output_tokens for turn in each),
            "largest_request_tokens": max(sizes),
            "smallest_request_tokens": min(sizes),
        }
