"""Replay of a measured serving run: the arrivals and lengths of its requests, as a CSV of per-request times has them.

Each request arrives at its ``queued_s`` and generates its ``output_toks``, whatever becomes of the others. What the
prompts said is not recorded, so they share nothing. Columns: ``_serving_csv.py``. ``windtunnel calibrate --check``
compares what the simulator makes of such a run with the times that were measured.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from policies._content import PRIVATE
from sim.rng import Streams
from sim.workload._check import MOST_REQUESTS, within
from sim.workload._model import Encoding, Travel, Turn, Workload
from sim.workload._replay import Replay
from sim.workload._rows import find
from sim.workload._serving_csv import read_run


@dataclass(frozen=True, slots=True)
class ServingRun:
    """Replay of a measured serving run by its arrivals and lengths; prompts share nothing."""

    file: str
    """CSV of one request a row, relative to the scenario."""
    limit: int | None = None
    """Only the first requests of the file, at most this many."""
    encoding: Encoding = "chat"
    """How a prompt travels."""
    chars_per_token: float | None = None
    """Characters of a token in the routing text; None: 4, of token ids 5.5."""

    def __post_init__(self) -> None:
        """Refuse an empty choice of requests."""
        if self.limit is not None:
            within("limit", self.limit, 1, MOST_REQUESTS)
        Travel(self.encoding, self.chars_per_token)

    def files(self, base: Path) -> list[Path]:
        """The recording."""
        return [base / self.file]

    def generate(self, streams: Streams, base: Path) -> Workload:
        """The requests of the file; nothing is drawn."""
        run = read_run(find(base / self.file))
        arrival_s = run.times["queued_s"][: self.limit]
        pairs = zip(run.prompt.tolist(), run.output.tolist(), strict=True)
        turns = [
            [Turn(((request, prompt),), output, PRIVATE, output, 0.0)] for request, (prompt, output) in enumerate(pairs)
        ]
        order = np.argsort(arrival_s, kind="stable")
        return Replay(
            turns[: self.limit],
            np.arange(len(arrival_s)),
            arrival_s,
            order,
            Travel(self.encoding, self.chars_per_token),
        )
