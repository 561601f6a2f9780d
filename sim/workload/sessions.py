"""Replay of recorded agent sessions: the length of each prompt is known, the text is not.

File format ``turns``, one JSON object a session:

    {"session_id": "a7", "output_tokens": 246, "prompt_tokens": [14082, 26227, 26518]}

The prompt of turn k extends the prompt of turn k-1: what lies between is the recorded answer and what the tools said.
The engine generates ``output_tokens`` each turn, to the end, and they are discarded: no later prompt repeats them. A
turn starts when the one before has ended. Each session is a group of its own; sessions share ``shared_prefix_tokens``.

A replication draws what the recording does not fix, the order in which sessions start, and if ``resample`` is on which
sessions there are (drawn whole, with replacement). Left out: tool time, sessions that fork or are compacted.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._chains import Chains, Columns
from sim.workload._check import MOST_REQUESTS, within
from sim.workload._lengths import Floats, Ints, repeat
from sim.workload._model import Encoding, Travel, Workload
from sim.workload._rows import Trace, find
from sim.workload._traces.turns import sessions as sessions_of


@dataclass(frozen=True, slots=True)
class Sessions:
    """Replay of recorded sessions whose prompts extend each other; generated tokens are discarded."""

    file: str
    """JSON lines, plain or .gz, relative to the scenario."""
    format: Literal["turns"] = "turns"
    """How the file is written."""
    limit: int | None = None
    """Only the first sessions of the file, at most this many."""
    order: Literal["shuffled", "data", "longest"] = "shuffled"
    """Order in which sessions start: drawn in each replication, that of the file, or most turns first."""
    resample: bool = False
    """Draw as many sessions as there are, with replacement, in each replication."""
    shared_prefix_tokens: int = 0
    """First tokens that all prompts have in common."""
    encoding: Encoding = "chat"
    """How a prompt travels."""
    chars_per_token: float | None = None
    """Characters of a token in the routing text; None: 4, of token ids 5.5."""

    def __post_init__(self) -> None:
        """Refuse an empty choice of sessions."""
        if self.limit is not None:
            within("limit", self.limit, 1, MOST_REQUESTS)
        within("shared_prefix_tokens", self.shared_prefix_tokens, 0)
        Travel(self.encoding, self.chars_per_token)

    def files(self, base: Path) -> list[Path]:
        """The recording."""
        return [base / self.file]

    def generate(self, streams: Streams, base: Path) -> Workload:
        """The sessions of one replication."""
        recorded = _load(find(base / self.file))
        rows = self._choose(streams, len(recorded.turns))
        count = len(rows)
        arrival_s: Floats = np.zeros(count)
        return Chains(
            self._columns(recorded, rows),
            self.shared_prefix_tokens,
            np.arange(count),
            arrival_s,
            self._order(streams, recorded.turns[rows]),
            False,
            Travel(self.encoding, self.chars_per_token),
        )

    def _order(self, streams: Streams, turns: Ints) -> Ints:
        match self.order:
            case "shuffled":
                return streams.column("workload/order").permutation(len(turns))
            case "data":
                return np.arange(len(turns))
            case "longest":
                return np.argsort(-turns, kind="stable")

    def _choose(self, streams: Streams, recorded: int) -> Ints:
        count = recorded if self.limit is None else min(self.limit, recorded)
        if not self.resample:
            return np.arange(count)
        return np.floor(streams.column("workload/resample").random(count) * count).astype(np.int64)

    def _columns(self, recorded: "_Recorded", rows: Ints) -> Columns:
        shortest = int(recorded.prompts[recorded.starts[rows]].min())
        if self.shared_prefix_tokens > shortest:
            raise ScenarioError(f"shared_prefix_tokens must be at most the shortest first prompt, {shortest:,}")
        return Columns(
            starts=recorded.starts[rows],
            turns=recorded.turns[rows],
            head_tokens=repeat(0, len(rows), 0),
            own=recorded.prompts - self.shared_prefix_tokens,
            output=recorded.output,
            limit=recorded.output,
            delay_s=np.broadcast_to(np.float64(0), recorded.output.shape),
        )


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A file as columns: prompts and outputs are flat, one element a request."""

    starts: Ints
    turns: Ints
    prompts: Ints
    output: Ints


@lru_cache(maxsize=4)
def _load(trace: Trace) -> _Recorded:
    """Read a file once for all replications of a process."""
    turns: list[int] = []
    output: list[int] = []
    prompts: list[int] = []
    for _, _, tokens, own in sessions_of(trace.path):
        turns.append(len(own))
        output.append(tokens)
        prompts += own
    lengths = np.array(turns, dtype=np.int64)
    each = np.repeat(np.array(output, dtype=np.int64), lengths)
    return _Recorded(np.cumsum(lengths) - lengths, lengths, np.array(prompts, dtype=np.int64), each)
