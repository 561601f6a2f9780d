"""What happens first when things happen at one instant, and how to make something happen at an instant.

At one tick: steps end and answers go out, then failures, submissions of clients, deliveries of routers, telemetry, and
last the forming of batches, so that a batch sees all arrivals of its instant. Within one kind the order is by the id of
what acts (engine, request, session), never by which was scheduled first, so jumping and stepping engines, which
schedule differently, give the same run.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

import simpy
from simpy.events import Event

STEP_END: Final = 0
ANSWER: Final = 1 << 48
FAILURE: Final = 2 << 48
SUBMIT: Final = 3 << 48
DELIVER: Final = 4 << 48
TELEMETRY: Final = 5 << 48
FORM: Final = 6 << 48


class Clock(simpy.Environment):
    """SimPy's environment, in whole ticks."""

    _now: int

    def __init__(self, initial_time: int = 0) -> None:
        super().__init__(initial_time)
        self.agenda = self._queue
        """What is to happen, a heap: tick, priority, serial number and event."""
        self.background = 0
        """Of it, events of who only watches, and watches as long as anything else is to happen; and events that have
        come to nothing."""

    @property
    def now(self) -> int:
        """The present tick."""
        return self._now

    def run_out(self) -> None:
        """Let everything happen until nothing is left, as ``run`` does, without its call for each event."""
        agenda = self.agenda
        while agenda:
            self._now, _, _, event = heappop(agenda)  # type: ignore[assignment]
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)


class Instant(Event):
    """Calls back at tick ``at``, with itself and its ``value``; ``priority`` is a kind plus an id.

    Who makes it is the only one that waits on it, so ``callbacks`` is a tuple, made once for many of them.
    """

    _ok = True

    def __init__(
        self, env: Clock, at: int, priority: int, callbacks: tuple[Callable[[Event], None]], value: Any = None
    ) -> None:
        # As SimPy's own Timeout does, everything is set here, and what ``Environment.schedule`` would push is pushed:
        # one call for each thing that happens.
        self.callbacks = callbacks  # type: ignore[assignment]
        self._value = value
        heappush(env.agenda, (at, priority, next(env._eid), self))  # type: ignore[misc]


def answer(env: Clock, event: Event, priority: int, value: Any) -> None:
    """Let an event happen now, after all that ends at this instant."""
    event._ok = True
    event._value = value
    env.schedule(event, priority)  # type: ignore[arg-type]


def conclude(event: Event, value: Any) -> None:
    """Let an event happen within the one that is happening: what waits on it is called back before this returns."""
    event._ok = True
    event._value = value
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
