"""A limit on requests under way, with a queue of limited length and limited patience before it."""

from collections import OrderedDict
from collections.abc import Callable

from sim.instants import SUBMIT, Clock
from sim.log.record import LIMIT_429, TIMEOUT_408
from sim.router._trip import OVER, Trip
from sim.router.spec import Limit


class Limiter:
    """Lets requests go on, in order of arrival; ``refuse`` is called with the reason for those that it does not."""

    def __init__(
        self,
        env: Clock,
        spec: Limit,
        tick_s: float,
        go: Callable[[Trip], None],
        refuse: Callable[[Trip, int], None],
    ) -> None:
        self.env = env
        self.free, self.room = spec.concurrency, spec.queue_requests
        self.patience = round(spec.wait_s / tick_s)
        self.go, self.refuse = go, refuse
        self.queue: OrderedDict[int, Trip] = OrderedDict()
        """Who waits, by id of the request, in order of arrival."""

    def enter(self, trip: Trip) -> None:
        """Let a request go on, wait, or be refused."""
        if self.free:
            self.free -= 1
            trip.is_admitted = True
            self.go(trip)
        elif len(self.queue) < self.room:
            serial = trip.request.view.id
            self.queue[serial] = trip
            self.env.at(self.env._now + self.patience, SUBMIT + serial, self._expire, trip)
        else:
            self.refuse(trip, LIMIT_429)

    def drop(self, trip: Trip) -> None:
        """Who is over waits no more."""
        if self.queue.get(trip.request.view.id) is trip:
            del self.queue[trip.request.view.id]
            self.env.background += 1  # its patience has nobody left to refuse

    def leave(self) -> None:
        """An admitted request has ended: its place goes to the one that waits longest."""
        if self.queue:
            serial, following = self.queue.popitem(last=False)
            self.env.background += 1
            following.is_admitted = True
            self.env.at(self.env._now, SUBMIT + serial, self._go, following)
        else:
            self.free += 1

    def _go(self, trip: Trip) -> None:
        if trip.place != OVER:
            self.go(trip)

    def _expire(self, trip: Trip) -> None:
        if self.queue.get(trip.request.view.id) is trip:
            del self.queue[trip.request.view.id]
            self.refuse(trip, TIMEOUT_408)
        else:
            self.env.background -= 1
