"""Something with few places: a tool with limited concurrency, hosts that boot few sandboxes at once.

Who comes waits for a place in order of arrival, keeps it for its time, and goes on when the time is over. A place that
becomes free goes to the next one at that instant.
"""

from collections import deque
from typing import Any

from sim.instants import SUBMIT, Clock


class Pool:
    """A first-come, first-served pool of places."""

    def __init__(self, env: Clock, places: int) -> None:
        self.env = env
        self.free = places
        self.queue: deque[tuple[int, int, Any, Any]] = deque()

    def use(self, duration: int, index: int, then: Any, live: Any) -> None:
        """Hold a place for ``duration`` ticks once one is free, then ``then(live)``; ``index`` orders an instant."""
        if self.free:
            self.free -= 1
            self.env.at(self.env._now + duration, SUBMIT + 1 + index, self._end, (then, live))
        else:
            self.queue.append((duration, index, then, live))

    def _end(self, held: tuple[Any, Any]) -> None:
        then, live = held
        if self.queue:
            duration, index, *follower = self.queue.popleft()
            self.env.at(self.env._now + duration, SUBMIT + 1 + index, self._end, tuple(follower))
        else:
            self.free += 1
        then(live)
