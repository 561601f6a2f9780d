"""Replay of a recorded trace, in any of the formats that others publish (docs/traces.md).

A session starts when it did in the recording; its next turn follows the answer to the one before after the recorded
wait, so that slow engines slow a session down. Where a format has no waits they are what is left of the time between
two calls once the recorded answer is taken off; where it has no times either, sessions start at once and turns follow
at once. ``pace: recorded`` sends every call at its recorded time instead, whatever became of the others.

What an engine generates is discarded, as the recorded answer is in the next prompt (``mode: replay``), or is itself
part of it (``mode: live``). A replication draws what the recording leaves open: the order of sessions that start
together, which sessions a sample holds, arrivals where a process is named.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np

from sim.errors import ScenarioError
from sim.rng import Streams
from sim.workload._arrivals import Arrivals
from sim.workload._check import MOST_SECONDS, positive, within
from sim.workload._lengths import Floats, Ints
from sim.workload._located import files_within, located
from sim.workload._model import Encoding, Travel, Turn, Workload
from sim.workload._replay import Replay
from sim.workload._rows import find
from sim.workload._traces._call import Format, Reading
from sim.workload._traces._formats import files_of, find_format
from sim.workload._traces._load import load
from sim.workload._traces._recording import Recording
from sim.workload._traces._selection import Chosen, choose, groups_within, one_by_one

FormatName = Literal[
    "auto", "windtunnel", "mooncake", "lmcache", "dynamo", "bailian", "weka", "tracelab", "nemo_gym_shapes", "nemo_gym",
    "llmservingsim", "turns", "azure", "burstgpt", "serving_run",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trace:
    """Replay of a recorded trace, sessions closed loop or every call at its recorded time."""

    file: str
    """A file, plain or gzip, or a folder of files, relative to the scenario."""
    format: FormatName = "auto"
    """How it is written; ``auto``: as its first row looks."""
    pace: Literal["sessions", "recorded"] = "sessions"
    """A turn follows the answer before it, or is sent at its recorded time."""
    mode: Literal["replay", "live"] = "replay"
    """What is in the next prompt: the recorded answer, or what the engine generated."""
    limit: int | None = None
    """Only the first groups of the file (sessions, where none are named), at most this many."""
    window_s: tuple[float, float] | None = None
    """Only sessions that start from here to before there; time starts anew with the window."""
    sample_share: float = 1.0
    """Share of groups that a replication takes, each by a draw of its own."""
    resample: bool = False
    """Draw as many groups as there are, with replacement, in each replication."""
    order: Literal["data", "shuffled"] = "data"
    """Order of groups that start at one instant: that of the file, or drawn in each replication."""
    rate_scale: float = 1.0
    """Groups arrive this many times as fast as recorded; waits inside a session stay."""
    time_scale: float = 1.0
    """All recorded times and waits are this many times as long."""
    arrivals: Arrivals | None = None
    """When groups arrive; absent: as recorded."""
    token_s: float = 0.0
    """Seconds that a generated token took in the recording, where the file does not say how long an answer took."""
    rows: Literal["cover", "add"] | None = None
    """Whether a Mooncake row of a session covers its whole prompt or adds to the history; absent: it covers."""
    block_tokens: int | None = None
    """Tokens of a block of the file, which need not be those of the engine; absent: as the format has it."""
    common_prefix: bool = False
    """Tools and system prompts of Weka sessions are one text: their first blocks are shared by all."""
    shared_prefix_tokens: int = 0
    """First tokens that all prompts have in common, where a file has no block ids."""
    max_tokens: int | None = None
    """The client's limit on generated tokens; absent: the recorded length, decoded to the end."""
    encoding: Encoding | None = None
    """How a prompt travels; absent: as the file says, else as chat."""
    chars_per_token: float | None = None
    """Characters of a token in the routing text, and in texts of the file; absent: as the file says, else 4, of token
    ids 5.5."""

    def __post_init__(self) -> None:
        """Refuse an empty choice of sessions, and blocks, rates and times that are not positive."""
        for name, least in (("limit", 1), ("block_tokens", 1), ("max_tokens", 1), ("shared_prefix_tokens", 0)):
            value = getattr(self, name)
            if value is not None:
                within(name, value, least)
        positive("rate_scale", self.rate_scale)
        positive("time_scale", self.time_scale)
        within("sample_share", self.sample_share, 0, 1)
        positive("sample_share", self.sample_share)
        within("token_s", self.token_s, 0, MOST_SECONDS)
        if self.window_s is not None and not 0 <= self.window_s[0] < self.window_s[1]:
            raise ScenarioError(f"window_s must be a start and a later end, not {list(self.window_s)}")
        if self.arrivals is not None and (self.rate_scale != 1.0 or self.pace == "recorded"):
            raise ScenarioError("arrivals replaces recorded times: rate_scale and pace recorded have no effect with it")
        Travel(self.encoding or "chat", self.chars_per_token)

    def files(self, base: Path) -> list[Path]:
        """The recording, and what arrivals read."""
        return [*files_of(base / self.file), *files_within(self.arrivals, base)]

    def generate(self, streams: Streams, base: Path) -> Workload:
        """The sessions of one replication."""
        recording = self.recording(base)
        groups = self._groups(streams, recording)
        chosen = choose(recording, groups) if self.pace == "sessions" else one_by_one(recording, groups)
        arrival_s = self._arrivals(streams, chosen, base)
        workload = Replay(
            self._limited(self._stretched(chosen.turns)),
            chosen.group_of,
            arrival_s,
            self._order(streams, arrival_s, chosen),
            self._travel(recording),
            {
                parent: [each._replace(delay_s=each.delay_s * self.time_scale) for each in children]
                for parent, children in chosen.children.items()
            },
        )
        workload.key_owner = chosen.key_owner
        workload.follows = chosen.follows
        workload.has_boots = any(each[0].delay_s for each in chosen.turns)
        workload.keys = chosen.keys or workload.keys
        return workload

    def recording(self, base: Path) -> Recording:
        """The whole trace, read once in a process."""
        path = base / self.file
        versions = tuple(find(each) for each in files_of(path))
        form = find_format(path, self.format)
        return load(
            path,
            versions,
            form.name,
            self.reading(form),
            is_live=self.mode == "live",
            shared_tokens=self.shared_prefix_tokens,
            token_s=self.token_s,
        )

    def reading(self, form: Format) -> Reading:
        """How the rows are to be read; ``chars_per_token`` is of the file as well, where that holds texts."""
        reading = Reading(self.block_tokens, self.rows, self.common_prefix)
        if self.chars_per_token is None or "chars_per_token" not in form.accepts:
            return reading
        return replace(reading, chars_per_token=self.chars_per_token)

    def _groups(self, streams: Streams, recording: Recording) -> list[int]:
        if not recording.groups:
            raise ScenarioError(f"{self.file}: holds no calls")
        groups = groups_within(recording, self.window_s, self.limit)
        if self.sample_share < 1:
            kept = streams.column("workload/sample").random(recording.groups) < self.sample_share
            groups = [each for each in groups if kept[each]]
        if not groups:
            raise ScenarioError(f"{self.file}: no session is left: the window or the sample is empty")
        if self.resample:
            drawn = np.floor(streams.column("workload/resample").random(len(groups)) * len(groups)).astype(np.int64)
            groups = [groups[each] for each in drawn.tolist()]
        return groups

    def _arrivals(self, streams: Streams, chosen: Chosen, base: Path) -> Floats:
        if self.arrivals is not None:
            return located(self.arrivals, base).times(streams.column("workload/arrivals"), len(chosen.at_s))
        start = self.window_s[0] if self.window_s else 0.0
        times: Floats = (chosen.at_s - start) * (self.time_scale / self.rate_scale)
        within("rate_scale: the last arrival, in seconds,", float(times.max()), 0, MOST_SECONDS)
        return times

    def _order(self, streams: Streams, arrival_s: Floats, chosen: Chosen) -> Ints:
        rank = chosen.rank
        if self.order == "shuffled":
            rank = streams.column("workload/order").permutation(len(arrival_s))
        waits = np.array([group in chosen.follows for group in range(len(arrival_s))])
        # Who follows another group has no time of its own, and keeps its place behind all that have.
        order: Ints = np.lexsort((rank, np.where(waits, np.inf, arrival_s)))
        return order

    def _travel(self, recording: Recording) -> Travel:
        encoding = cast("Encoding", self.encoding or recording.encoding or "chat")
        own = recording.chars_per_token if self.encoding is None else None
        return Travel(encoding, self.chars_per_token or own)

    def _stretched(self, turns: list[list[Turn]]) -> list[list[Turn]]:
        scale = self.time_scale
        if scale == 1.0:
            return turns
        return [[turn._replace(delay_s=turn.delay_s * scale) for turn in each] for each in turns]

    def _limited(self, turns: list[list[Turn]]) -> list[list[Turn]]:
        limit = self.max_tokens
        if limit is None:
            return turns
        return [
            [turn._replace(output_tokens=min(turn.output_tokens, limit), max_tokens=limit) for turn in each]
            for each in turns
        ]
