"""One recorded model call, as every reader hands it on.

Formats differ in what they know of a prompt: the ids of its blocks, how much of the session's last prompt it repeats,
how much it adds to it, or only its length. Times are seconds on the clock of the file, or of the session where each
session starts its own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from policies._content import Content
from sim.workload._rows import Row

REPEATS_ALL: Final = 1 << 62
"""``kept_tokens`` of a prompt that repeats all that came before it in its session."""


class Call(NamedTuple):
    """A request of a trace."""

    row: Row
    """Where it stands, for errors."""
    input_tokens: int
    """Tokens of the prompt; of what it adds where ``adds`` is set."""
    output_tokens: int
    session: str = ""
    """Name of its session; empty: a session of its own."""
    line: str = ""
    """Name of the sub-agent that makes it, unique within the session; empty: the session itself."""
    group: str = ""
    """Sessions of one group start from one prompt; empty: a group of its own."""
    at_s: float | None = None
    """When it was made."""
    took_s: float | None = None
    """How long its answer took."""
    delay_s: float | None = None
    """Wait between the answer before it and this call; None: what times say of it."""
    ids: list[int] | None = None
    """Ids of the blocks of the prompt from its start: the last one may be partial, or left out where it is."""
    block_tokens: int = 0
    """Tokens of a block; 1: ids are the tokens themselves."""
    is_local: bool = False
    """Ids mean something within the session only."""
    common_blocks: int = 0
    """First blocks that are the same in all sessions, whatever their ids."""
    kept_tokens: int = -1
    """Tokens from the start of the session's last prompt and answer that the prompt repeats; -1: nothing is known."""
    adds: bool = False
    """The prompt is the session's last prompt, its answer, and ``input_tokens`` more."""
    after_line: str | None = None
    """Of the first call of a sub-agent: the line that it starts out of."""
    after_turn: int = -1
    """The call of that line after which it starts; -1: the latest."""
    content: Content | None = None
    """The prompt itself, where a file says it."""
    joins: tuple[str, ...] = ()
    """Sub-agents that must have ended before this call is made."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a user may say of how a file is to be read; None: as the format has it."""

    block_tokens: int | None = None
    rows: Literal["cover", "add"] | None = None
    """Whether a row of a session covers its whole prompt or what it adds to the history."""
    common_prefix: bool = False
    """Whether the tools and the system prompt are the same in all sessions, where ids are local."""
    chars_per_token: float = 4.0
    """Characters of a token, where a file holds texts."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how it is recognised and read."""

    name: str
    what: str
    """One line for the list of formats."""
    fits: Callable[[Row], bool]
    """Whether a first row is of this format."""
    read: Callable[[Path, Reading], Iterator[Call]]
    is_table: bool = False
    """CSV; else one JSON object a line."""
    is_open: bool = False
    """Times are of one clock and ascend through the file."""
    accepts: tuple[str, ...] = ()
    """Fields of ``Reading`` that change how this format is read."""
