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
from simpy.core import EmptySchedule
from simpy.events import Event

STEP_END: Final = 0
ANSWER: Final = 1 << 48
FAILURE: Final = 2 << 48
SUBMIT: Final = 3 << 48
DELIVER: Final = 4 << 48
TELEMETRY: Final = 5 << 48
FORM: Final = 6 << 48


class Clock(simpy.Environment):
    """SimPy's environment in whole ticks, with an agenda of calls.

    What happens here is one call of one function, so an entry of the agenda holds that and no event around it; SimPy's
    own events and processes stand among these entries.
    """

    _now: int

    def __init__(self, initial_time: int = 0) -> None:
        super().__init__(initial_time)
        self.agenda: list[tuple[int, int, int, Callable[[Any], None], Any]] = self._queue  # type: ignore[assignment]
        """What is to happen, a heap: tick, priority, serial number, what is called then, and with which value."""
        self.happening = -1
        """Serial number of what is happening."""
        self.background = 0
        """Of the agenda, calls of who only watches, and watches as long as anything else is to happen; and calls that
        have come to nothing."""

    @property
    def now(self) -> int:
        """The present tick."""
        return self._now

    def at(self, tick: int, priority: int, call: Callable[[Any], None], value: Any = None) -> int:
        """Call with the value at a tick; ``priority`` is a kind plus an id. Returns the serial number of the call."""
        serial = next(self._eid)
        heappush(self.agenda, (tick, priority, serial, call, value))
        return serial

    def run_out(self) -> None:
        """Let everything happen until nothing is left."""
        agenda = self.agenda
        while True:  # CPython adapts this loop to its types from the first replication on, one with a condition later
            if not agenda:
                return
            self._now, _, self.happening, call, value = heappop(agenda)
            call(value)

    def schedule(self, event: Event, priority: int = 1, delay: int = 0) -> None:  # type: ignore[override]
        """Let an event of SimPy happen after a delay."""
        self.at(self._now + delay, priority, _happen, event)

    def step(self) -> None:
        """Let the next thing happen, as SimPy's ``run`` asks for it."""
        if not self.agenda:
            raise EmptySchedule
        self._now, _, self.happening, call, value = heappop(self.agenda)
        call(value)


def _happen(event: Event) -> None:
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
    if not event._ok and not event.defused:
        raise event._value


def answer(env: Clock, request: Any) -> None:
    """Answer a request now, after all that ends at this instant."""
    env.at(env._now, ANSWER + request.view.id, request.done, request)
