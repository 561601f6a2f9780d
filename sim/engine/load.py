"""What an engine says of itself when it is polled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """The state of one engine at an instant, counted as its scheduler has decided by then."""

    running: int
    """Requests in the batch."""
    waiting: int
    """Requests in the queue."""
    kv_share: float
    """Share of the KV pool that requests hold, 0..1."""
    tokens: int
    """Tokens of room that requests hold, and tokens to prefill of those that wait."""
    queued_tokens: int
    """Tokens to prefill of those that wait, as far as they are not cached."""
    busy: int
    """Ticks since the start in which it computed: a total, for shares of the time between two looks."""
    generated: int
    """Tokens decoded since the engine started: a total, for rates between two looks."""
