"""The cores of a router: decisions take time on one of them, and wait for it in order of arrival (M/G/c)."""

from collections import deque
from collections.abc import Callable

from sim.instants import SUBMIT, Clock
from sim.router._trip import OVER, Trip
from sim.router.spec import Decision


class Cores:
    """Makes decisions one after the other on each core; ``choose`` is called at the end of each."""

    def __init__(
        self,
        env: Clock,
        spec: Decision,
        tick_s: float,
        candidates: Callable[[], int],
        choose: Callable[[Trip], None],
    ) -> None:
        self.env = env
        self.fixed, self.per_token = spec.fixed_s / tick_s, spec.per_token_s / tick_s
        self.per_candidate = spec.per_candidate_s / tick_s
        self.free = spec.cores
        self.candidates = candidates
        self.choose = choose
        self.queue: deque[Trip] = deque()

    def enter(self, trip: Trip) -> None:
        """Decide about a request as soon as a core is free."""
        if self.free:
            self.free -= 1
            self._begin(trip)
        else:
            self.queue.append(trip)

    def _begin(self, trip: Trip) -> None:
        now = self.env._now
        trip.waited = now - trip.since
        ticks = self.fixed + self.per_token * trip.request.prompt_tokens
        if self.per_candidate:
            ticks += self.per_candidate * self.candidates()
        trip.service = service = round(ticks)
        self.env.at(now + service, SUBMIT + trip.request.view.id, self._finish, trip)

    def _finish(self, trip: Trip) -> None:
        if trip.place != OVER:
            self.choose(trip)
        while self.queue:
            following = self.queue.popleft()
            if following.place != OVER:
                self._begin(following)
                return
        self.free += 1
