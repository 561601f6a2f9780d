"""Periodic work of a router, done lazily: before a choice, for the passes due by then.

A router's timer thread runs every so many seconds from its start. Between two choices nothing changes that it works
on, so one pass before the next choice leaves the same state as all the passes due since the last one.
"""


class Passes:
    """Passes at every multiple of an interval, in seconds; 0: never."""

    def __init__(self, interval_s: float) -> None:
        self._interval = interval_s
        self._next = interval_s or float("inf")
        self.last = 0.0
        """Time of the last pass that was due."""

    def are_due(self, now: float) -> bool:
        """Whether a pass was due since the last one; counts it as done."""
        if now < self._next:
            return False
        self.last = now // self._interval * self._interval
        self._next = self.last + self._interval
        return True
