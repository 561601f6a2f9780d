"""What a scenario says of the client and the noise, as plain values.

They stand on the lowest floor so that the parts that act on them need not know the scenario.
"""

from dataclasses import dataclass, field
from typing import Literal

KeyScope = Literal["request", "session", "group", "sample"]

DEFAULT_HEADER = "x-smg-routing-key"


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """Who sends: how requests are keyed and how many may be under way."""

    key_scope: KeyScope = "session"
    """Requests that share a routing key: none (``request``), a session's, a group's; ``sample`` means ``session``."""
    header: str | None = None
    """Header that carries the key; absent: the first one that the policy reads, else ``x-smg-routing-key``."""
    max_sessions_in_flight: int | None = field(default=None, metadata={"min": 1})
    """Sessions under way at once, in the whole job; absent: no cap."""
    max_sessions_per_engine: int | None = field(default=None, metadata={"min": 1})
    """The same cap, given for each engine."""
    deadline_s: float | None = None
    """A request that ends within this time counts for ``goodput_per_s``; absent: every finished one does."""
    keys: dict[int, str] | None = None
    """Explicit keys by session index; under group scope the whole group inherits the key of one of its sessions."""

    def __post_init__(self) -> None:
        """Refuse two caps, and keys or headers that cannot be sent."""
        if self.max_sessions_in_flight is not None and self.max_sessions_per_engine is not None:
            raise ValueError("max_sessions_per_engine and max_sessions_in_flight are two caps of one thing: give one")
        if self.header is not None and not _is_token(self.header):
            raise ValueError(f"header must be the name of an HTTP header, not {self.header!r}")
        for session, key in (self.keys or {}).items():
            if session < 0 or not key or not key.isascii() or not key.isprintable():
                raise ValueError(f"keys maps a session index to visible text, not {session} to {key!r}")

    @property
    def scope(self) -> Literal["request", "session", "group"]:
        """The key scope without its other name."""
        return "session" if self.key_scope == "sample" else self.key_scope

    def cap(self, engines: int) -> int | None:
        """Sessions under way at once in a fleet of this size; None: no cap."""
        if self.max_sessions_per_engine is not None:
            return self.max_sessions_per_engine * engines
        return self.max_sessions_in_flight


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in text)


@dataclass(frozen=True, slots=True)
class NoiseSpec:
    """What no recording fixes: standard deviations of the log of an engine's speed and of a step's time."""

    engine_speed_sigma: float = field(default=0.0, metadata={"min": 0, "max": 10})
    """Between engines, drawn once for each engine of a replication."""
    step_sigma: float = field(default=0.0, metadata={"min": 0, "max": 10})
    """Between stretches of equal steps."""
