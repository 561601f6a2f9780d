"""The router with all that real ones have around their policy: queues, decisions that cost, late signals, retries.

A request passes, in this order: the limit on requests under way and its queue; a core for the decision; the choice;
``overhead_s`` of delivery; the engine. A failed answer, or no engine found, leads back to the core after a wait, as
often as ``retries`` allows, and each try selects again. What is not configured takes no part.

An engine can be chosen while nobody bars it: neither who manages the fleet (``set_available``), nor probes, nor its
circuit breaker.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from policies._protocol import Policy
from sim.engine.request import Request
from sim.engine.shell import Engine
from sim.foreign import hears, unwrapped
from sim.instants import ANSWER, DELIVER, SUBMIT, Clock
from sim.log.record import ABORTED, ENGINE_FAILED, FAILED, FINISHED, NO_ENGINE, RETRIES_EXHAUSTED, Log
from sim.router._caches import LaggedCaches
from sim.router._cores import Cores
from sim.router._health import Circuits, Probes
from sim.router._limiter import Limiter
from sim.router._regret import Hindsight, regret
from sim.router._telemetry import Finished, Telemetry, exact_report
from sim.router._trip import BACKING_OFF, DECIDING, OVER, SENT, Trip
from sim.router.plain import Done, Router
from sim.router.spec import Around, Moment

GIVEN, PROBED, BROKEN = 1, 2, 4
"""Who bars an engine."""
UNKNOWN: Hindsight = (-1, -1, -1)


class FullRouter(Router):
    """One replica of a router."""

    def __init__(
        self,
        env: Clock,
        policy: Policy,
        engines: Sequence[Engine],
        urls: Sequence[str],
        order: Sequence[int],
        chance: Callable[[str], random.Random],
        log: Log,
        around: Around,
        replica: int = 0,
        caches: LaggedCaches | None = None,
        finished: Finished | None = None,
    ) -> None:
        """``chance`` gives a generator by name, this replica's own; ``caches`` and ``finished`` are what all share."""
        tick_s = log.tick_s
        overhead = round(around.overhead_s / tick_s)
        super().__init__(env, policy, engines, urls, order, chance("policy"), log, overhead=overhead)
        self.around = around
        self.replica = replica
        self.trips: dict[int, Trip] = {}
        """Requests that have not ended, by id."""
        self.own = [0] * len(self.views)
        """The router's true count of what is in flight on each engine."""
        self.barred = [0] * len(self.views)
        """By engine: who bars it."""
        own_count = around.telemetry.in_flight if around.telemetry else None
        self.counts_at: Moment = own_count.visibility if own_count else "choice"
        self.counts_tokens = own_count is not None and own_count.unit == "tokens"
        self.finished = finished or Finished()
        self.tells_finished = around.telemetry is not None and "ended" in around.telemetry.also
        self.telemetry = (
            Telemetry(
                env, around.telemetry, tick_s, self.engines, self.views, self.own, chance, self.finished, log.signals
            )
            if around.telemetry
            else None
        )
        credited = self.telemetry.credited if self.telemetry else {}
        self.moments = {*credited, self.counts_at} - {"report"}
        """Moments of a request at which something is counted."""
        if "first_token" in self.moments:
            self.on_first_token = self._stream
        self.tells_first_token = hears(policy, "first_token")
        self.sees_all = unwrapped(policy).sees_all
        self.caches = caches
        self.is_blind = around.cache_index == "none"
        self.cores = (
            Cores(env, around.decision, tick_s, lambda: len(self.fleet.available), self._choose)
            if around.decision
            else None
        )
        self.limiter = Limiter(env, around.limit, tick_s, self._decide, self._refuse) if around.limit else None
        self.probes = (
            Probes(env, around.health, tick_s, self.engines, partial(self._bar, PROBED)) if around.health else None
        )
        self.circuits = Circuits(env, around.breaker, tick_s, partial(self._bar, BROKEN)) if around.breaker else None
        self.chance_of_retries = chance("retries")

    def start(self) -> None:
        """Read and probe the engines from now on, and show them to the policy."""
        if self.telemetry:
            self.telemetry.start()
        if self.probes:
            self.probes.start()
        for engine in self.engines:
            self._index(engine)
        super().start()

    def _index(self, engine: Engine) -> None:
        """Give the policy what it may know of an engine's cache."""
        view = self.views[engine.index]
        if self.sees_all or self.around.cache_index not in ("approximate", "none"):
            view.cached_tokens = engine.cached_tokens
            if self.caches is not None:
                self.caches.watch(engine)
                view.cached_tokens = partial(self.caches.cached_tokens, engine.index)

    # -- the way of a request ----------------------------------------------------------------------------------------

    def route(self, request: Request) -> None:
        """Take a request; ``request.reply`` is called when it has ended, after all tries."""
        view = replace(request.view, content=()) if self.is_blind else request.view
        trip = self.trips[request.view.id] = Trip(request, view, self.env._now)
        if self.limiter:
            self.limiter.enter(trip)
        else:
            self._decide(trip)

    def _decide(self, trip: Trip) -> None:
        trip.place = DECIDING
        if self.cores:
            self.cores.enter(trip)
        else:
            trip.waited = self.env._now - trip.since
            self._choose(trip)

    def _choose(self, trip: Trip) -> None:
        """Ask the policy, write down what it said and what was known, and send the request on."""
        now, request, view = self.env._now, trip.request, trip.view
        if self.sees_all:
            for each in self.fleet.available:
                each.report = exact_report(self.engines[each.index], now, self.log.tick_s)
        chosen, branch, matched = self.policy.choose(view, self.fleet, now * self.log.tick_s, self.pick)
        if chosen is None:
            self._write(trip, -1, branch, 0, matched, UNKNOWN)
            self._failed(trip, NO_ENGINE)
            return
        hindsight = UNKNOWN
        if self.around.record_regret:
            hindsight = regret(self.engines, self.fleet.available, chosen.index, request.view.content, now)
        self._write(trip, chosen.index, branch, chosen.in_flight, matched, hindsight)
        request.engine = chosen.index
        self.in_flight += 1
        self.own[chosen.index] += self._amount(trip)
        trip.place = SENT
        self._reach("choice", trip)
        if self.tells_dispatched:
            self.policy.dispatched(view, chosen)
        request.done = done = self._answered
        if self.on_first_token is not None:
            request.on_first_token = self.on_first_token
            self.silent[view.id] = done
        if self.overhead:
            self.env.at(now + self.overhead, DELIVER + view.id, self._deliver_trip, (trip, done))
        else:
            self._submit(trip)

    def _write(self, trip: Trip, index: int, branch: str, in_flight: int, matched: int, hindsight: Hindsight) -> None:
        now, request, log = self.env._now, trip.request, self.log
        if self.sees_all:
            age = 0 if index >= 0 else -1
        else:
            age = self.telemetry.age(index, now) if self.telemetry and index >= 0 else -1
        log.decisions.append((
            request.view.id, request.attempt, now, index, log.branch_code(branch), in_flight, self.in_flight, matched,
            trip.retry, self.replica, trip.waited, trip.service, age, *hindsight,
        ))  # fmt: skip

    def _deliver_trip(self, sent: tuple[Trip, Done]) -> None:
        trip, done = sent
        if trip.request.done is done:
            self._submit(trip)

    def _submit(self, trip: Trip) -> None:
        self._reach("delivery", trip)
        self.engines[trip.request.engine].submit(trip.request)

    def _answered(self, request: Request) -> None:
        if self.silent:
            self._hear((request, request.done))
        trip = self.trips[request.view.id]
        self._discount_trip(trip)
        if self.circuits and request.status in (FINISHED, FAILED):
            self.circuits.note(request.engine, request.status == FAILED)
        if self.tells_finished and request.status == FINISHED:
            self.finished.add(request)
        if request.status == FAILED and not trip.is_aborted:
            self._failed(trip, ENGINE_FAILED)
        else:
            self._end(trip)

    # -- counts ------------------------------------------------------------------------------------------------------

    def _amount(self, trip: Trip) -> int:
        return trip.request.prompt_tokens if self.counts_tokens else 1

    def _reach(self, moment: Moment, trip: Trip) -> None:
        """A dispatched request reached a moment at which policies may begin to see it."""
        if moment not in self.moments:
            return
        if moment == self.counts_at:
            trip.counted = self._amount(trip)
            self.views[trip.request.engine].in_flight += trip.counted
        if self.telemetry:
            self.telemetry.credit(moment, trip.request)

    def _discount_trip(self, trip: Trip) -> None:
        """What was sent is in flight no more."""
        request = trip.request
        request.done = None
        engine = self.views[request.engine]
        engine.in_flight -= trip.counted
        trip.counted = 0
        self.own[request.engine] -= self._amount(trip)
        self.in_flight -= 1
        if self.tells_completed:
            self.policy.completed(trip.view, engine)

    def _first_token(self, request: Request) -> None:
        trip = self.trips[request.view.id]
        if self.tells_first_token:
            self.policy.first_token(trip.view, self.views[request.engine])
        self._reach("first_token", trip)

    # -- ends --------------------------------------------------------------------------------------------------------

    def _failed(self, trip: Trip, reason: int) -> None:
        """Try again after a wait, or give up."""
        retries = self.around.retries
        if retries is None or trip.retry + 1 >= retries.attempts:
            self._refuse(trip, RETRIES_EXHAUSTED if trip.retry else reason)
            return
        wait = min(retries.backoff_s * retries.factor**trip.retry, retries.max_backoff_s)
        wait *= 1 + retries.jitter_share * (2 * self.chance_of_retries.random() - 1)
        trip.retry += 1
        trip.place = BACKING_OFF
        at = self.env._now + round(wait / self.log.tick_s)
        self.env.at(at, SUBMIT + trip.request.view.id, self._again, trip)

    def _again(self, trip: Trip) -> None:
        if trip.place == BACKING_OFF:
            trip.request.renew()
            trip.request.engine = -1
            trip.since = self.env._now
            trip.service = 0
            self._decide(trip)

    def _refuse(self, trip: Trip, reason: int) -> None:
        """The request fails."""
        trip.request.status, trip.request.reason = FAILED, reason
        self._end_now(trip)

    def _end_now(self, trip: Trip) -> None:
        trip.place = OVER
        if self.limiter:
            self.limiter.drop(trip)
        now = trip.request.ended = self.env._now
        self.env.at(now, ANSWER + trip.request.view.id, self._end, trip)

    def _end(self, trip: Trip) -> None:
        trip.place = OVER
        del self.trips[trip.request.view.id]
        if trip.is_admitted:
            assert self.limiter is not None
            self.limiter.leave()
        trip.request.reply(trip.request)

    def abort(self, request: Request) -> None:
        """End a request wherever it is; one that has ended stays as it is, and none is tried again."""
        trip = self.trips.get(request.view.id)
        if trip is None or trip.place == OVER:
            return
        trip.is_aborted = True
        if trip.place == SENT and request.arrived >= 0:
            self.engines[request.engine].abort(request)
            return
        if trip.place == SENT:
            self.silent.pop(request.view.id, None)
            self._discount_trip(trip)
        request.status = ABORTED
        self._end_now(trip)

    # -- the fleet ---------------------------------------------------------------------------------------------------

    def set_available(self, index: int, is_available: bool) -> None:
        """Let the policy choose an engine as far as nobody else bars it, or not."""
        self._bar(GIVEN, index, not is_available)

    def _bar(self, who: int, index: int, is_barred: bool) -> None:
        self.barred[index] = self.barred[index] | who if is_barred else self.barred[index] & ~who
        super().set_available(index, not self.barred[index])

    def _prepare(self, engine: Engine) -> None:
        """Nothing is held against an engine that comes back, and it is read at once."""
        index = engine.index
        if index == len(self.own):
            self.own.append(0)
            self.barred.append(0)
        self.barred[index] = 0
        if self.probes:
            self.probes.forget(index)
        if self.circuits:
            self.circuits.forget(index)
        if self.telemetry:
            self.telemetry.add(index)
        self._index(engine)
