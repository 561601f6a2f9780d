"""Open-loop replay of recorded requests: each is sent at its recorded time, whatever became of the others.

File format ``mooncake``, one JSON object a request:

    {"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, ..., 13]}

``timestamp`` in milliseconds from the start of the trace, in order; one id for each block of the prompt, the last one
partial, so ``len(hash_ids)`` is ``input_length / block_tokens`` rounded up. Ids are chained and become spans once, at
load.

What a request generates is in no later prompt that the trace could tell of, so it is private. Each request is a session
and a group of its own. Left out: rows that wait for other rows.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from policies._content import PRIVATE, Content, count
from sim.rng import Streams
from sim.workload._block_chains import BlockChains
from sim.workload._check import MOST_REQUESTS, MOST_SECONDS, positive, within
from sim.workload._lengths import Floats, Ints
from sim.workload._model import Encoding, Session, Travel, Turn, Workload
from sim.workload._rows import Row, Trace, find, read_rows


@dataclass(frozen=True, slots=True)
class Requests:
    """Replay of recorded requests at their recorded times, prompts given as block ids."""

    file: str
    """JSON lines, plain or .gz, relative to the scenario."""
    format: Literal["mooncake"] = "mooncake"
    """How the file is written."""
    block_tokens: int = 512
    """Tokens of a block of the file, which need not be those of the engine."""
    rate_scale: float = 1.0
    """Requests come this many times as fast as recorded."""
    limit: int | None = None
    """Only the first requests of the file, at most this many."""
    max_tokens: int | None = None
    """The client's limit on generated tokens; None: the recorded length, decoded to the end."""
    encoding: Encoding = "chat"
    """How a prompt travels."""
    chars_per_token: float | None = None
    """Characters of a token in the routing text; None: 4, of token ids 5.5."""

    def __post_init__(self) -> None:
        """Refuse an empty choice of requests, and blocks and rates that are not positive."""
        within("block_tokens", self.block_tokens, 1)
        positive("rate_scale", self.rate_scale)
        if self.limit is not None:
            within("limit", self.limit, 1, MOST_REQUESTS)
        if self.max_tokens is not None:
            within("max_tokens", self.max_tokens, 1)
        Travel(self.encoding, self.chars_per_token)

    def files(self, base: Path) -> list[Path]:
        """The recording."""
        return [base / self.file]

    def generate(self, streams: Streams, base: Path) -> Workload:
        """The requests of the file; nothing is drawn."""
        recorded = _load(find(base / self.file), self.block_tokens)
        arrival_s = recorded.at_s[: self.limit] / self.rate_scale
        within("rate_scale: the last arrival, in seconds,", float(arrival_s.max()), 0, MOST_SECONDS)
        output = recorded.output[: self.limit]
        limit = output
        if self.max_tokens is not None:
            output = np.minimum(output, self.max_tokens)
            limit = np.broadcast_to(np.int64(self.max_tokens), output.shape)
        return _Recorded(recorded.prompts, output, limit, arrival_s, Travel(self.encoding, self.chars_per_token))


class _Recorded(Workload):
    """Sessions of one turn, kept as contents and columns."""

    def __init__(self, prompts: list[Content], output: Ints, limit: Ints, arrival_s: Floats, travel: Travel) -> None:
        super().__init__(np.arange(len(output)), arrival_s, np.argsort(arrival_s, kind="stable"), travel)
        self._prompts = prompts
        self._output = output.data
        self._limit = limit.data

    def session(self, index: int) -> Session:
        turn = Turn(self._prompts[index], self._output[index], PRIVATE, self._limit[index], 0.0)
        return Session(index, index, [turn])

    def summary(self) -> dict[str, int]:
        prompts = [count(prompt) for prompt in self._prompts[: self.sessions]]
        sizes = [prompt + limit for prompt, limit in zip(prompts, self._limit, strict=True)]
        return {
            "requests": self.sessions,
            "sessions": self.sessions,
            "groups": self.groups,
            "prompt_tokens": sum(prompts),
            "output_tokens": sum(self._output),
            "largest_request_tokens": max(sizes),
            "smallest_request_tokens": min(sizes),
        }


@dataclass(frozen=True, slots=True)
class _File:
    """A file as columns, one element a request."""

    at_s: Floats
    prompts: list[Content]
    output: Ints


@lru_cache(maxsize=4)
def _load(trace: Trace, block_tokens: int) -> _File:
    """Read a file once for all replications of a process."""
    chains = BlockChains(block_tokens)
    at_s: list[float] = []
    prompts: list[Content] = []
    output: list[int] = []
    for row in read_rows(trace.path):
        at = row.number("timestamp", 1000 * MOST_SECONDS) / 1000
        if at_s and at < at_s[-1]:
            raise row.refuse(f"timestamp {1000 * at:,.15g} is before the row above: rows stand in order of arrival")
        at_s.append(at)
        prompts.append(_prompt(row, chains, block_tokens))
        output.append(row.whole("output_length", 1))
    return _File(np.array(at_s), prompts, np.array(output, dtype=np.int64))


def _prompt(row: Row, chains: BlockChains, block_tokens: int) -> Content:
    tokens = row.whole("input_length", 1)
    ids = row.wholes("hash_ids", 0, 2**63 - 1)
    blocks = -(-tokens // block_tokens)
    if len(ids) != blocks:
        raise row.refuse(
            f"hash_ids must hold {blocks:,} ids, one for each {block_tokens:,} of {tokens:,} tokens, not {len(ids):,}"
        )
    return chains.encode(ids, tokens)
