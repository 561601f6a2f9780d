"""What happens again and again while a run lasts, and must not be what keeps it going."""

from collections.abc import Callable
from typing import Any

from sim.instants import Clock


class Watch:
    """Calls ``act`` at times that it names itself, until nothing is left to happen but the calls of such watchers."""

    def __init__(self, env: Clock, act: Callable[[], int | None], priority: int) -> None:
        """``act`` returns the tick of the next call; None: there is none."""
        self.env = env
        self.act = act
        self.priority = priority

    def start(self, at: int) -> None:
        """Call for the first time at tick ``at``."""
        self.env.background += 1
        self.env.at(at, self.priority, self._fire)

    def _fire(self, _: None) -> None:
        env = self.env
        env.background -= 1
        if len(env.agenda) <= env.background:
            return
        at = self.act()
        if at is not None:
            self.start(at)


def whisper(env: Clock, at: int, priority: int, act: Callable[[Any], None], value: Any) -> None:
    """Call ``act`` with the value at a tick, without keeping the run going."""
    env.background += 1

    def fire(given: Any) -> None:
        env.background -= 1
        act(given)

    env.at(at, priority, fire, value)
