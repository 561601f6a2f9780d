"""Open-loop replay of recorded requests: each is sent at its recorded time, whatever became of the others.

The short form of ``trace`` for files of requests that belong to no session.

File format ``mooncake``, one JSON object a request:

    {"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, ..., 13]}

``timestamp`` in milliseconds from the start of the trace, in order; one id for each block of the prompt, the last one
partial, so ``len(hash_ids)`` is ``input_length / block_tokens`` rounded up. Ids are chained and become spans once, at
load.

What a request generates is in no later prompt that the trace could tell of, so it is private. Each request is a session
and a group of its own. Left out: rows that wait for other rows.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from sim.rng import Streams
from sim.workload._model import Encoding, Workload
from sim.workload.trace import Trace


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
        """Refuse what a trace would refuse."""
        self._trace()

    def files(self, base: Path) -> list[Path]:
        """The recording."""
        return [base / self.file]

    def generate(self, streams: Streams, base: Path) -> Workload:
        """The requests of the file; nothing is drawn."""
        return self._trace().generate(streams, base)

    def _trace(self) -> Trace:
        return Trace(**{field.name: getattr(self, field.name) for field in fields(self)})
