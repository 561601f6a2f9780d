"""Something with few places: a tool with limited concurrency, hosts that boot few sandboxes at once.

Who comes waits for a place in order of arrival, keeps it for its time, and goes on when the time is over. A place that
becomes free goes to the next one at that instant.
"""

from collections import deque
from typing import Any

from simpy.events import Event

from sim.instants import SUBMIT, Clock, Instant


class Pool:
    """A first-come, first-served pool of places."""

    def __init__(self, env: Clock, places: int) -> None:
        self.env = env
        self.free = places
        self.queue: deque[tuple[int, int, Any, Any]] = deque()
        self.ending = (self._end,)

    def use(self, duration: int, index: int, then: Any, live: Any) -> None:
        """Hold a place for ``duration`` ticks once one is free, then ``then(live)``; ``index`` orders an instant."""
        if self.free:
            self.free -= 1
            Instant(self.env, self.env._now + duration, SUBMIT + 1 + index, self.ending, (then, live))
        else:
            self.queue.append((duration, index, then, live))

    def _end(self, event: Event) -> None:
        then, live = event._value
        if self.queue:
            duration, index, *follower = self.queue.popleft()
            Instant(self.env, self.env._now + duration, SUBMIT + 1 + index, self.ending, tuple(follower))
        else:
            self.free += 1
        then(live)
