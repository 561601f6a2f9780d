"""The router: asks the policy, records the decision, sends the request on, and counts what is in flight.

It is one process with one view of the fleet. ``in_flight`` of an engine rises when a request is sent to it and falls
when its answer has ended, as the routers of sglang, smg and vLLM count. A policy that chooses no engine refuses the
request (503): it fails at once. A decision takes ``overhead_s`` between choice and delivery.

Left out: several routers, retries, health checks, telemetry (policies that read engine reports see none).
"""

import random
from collections.abc import Sequence
from typing import TypeVar

from simpy.events import Event

from policies._protocol import EngineView, FleetView, Policy
from sim.engine.request import Request
from sim.engine.shell import Engine
from sim.instants import ANSWER, DELIVER, Clock, Instant
from sim.log.record import FAILED, Log

T = TypeVar("T")


class Router:
    """Sends each request to one of the engines."""

    def __init__(
        self,
        env: Clock,
        policy: Policy,
        engines: Sequence[Engine],
        urls: Sequence[str],
        order: Sequence[int],
        chance: random.Random,
        log: Log,
        *,
        overhead: int = 0,
    ) -> None:
        """``order`` lists engine indices as the router iterates them; ``overhead`` is in ticks."""
        self.env = env
        self.policy = policy
        self.engines = engines
        self.views = [EngineView(index, url) for index, url in enumerate(urls)]
        in_order = [self.views[index] for index in order]
        self.fleet = FleetView(in_order, list(in_order))
        self.chance = chance
        self.log = log
        self.overhead = overhead
        self.in_flight = 0
        self.delivering, self.refusing = (self._deliver,), (self._refused,)
        policy.start(self.fleet)
        self.tells_dispatched = type(policy).dispatched is not Policy.dispatched
        self.tells_completed = type(policy).completed is not Policy.completed

    def pick(self, candidates: Sequence[T], weights: Sequence[float] | None = None) -> T:
        """A random candidate, uniform or by weight."""
        if weights is None:
            return candidates[int(self.chance.random() * len(candidates))]
        return self.chance.choices(candidates, weights)[0]

    def route(self, request: Request) -> None:
        """Choose an engine for a request and send it there; ``request.reply`` is called when it has ended."""
        now = self.env._now
        log, view = self.log, request.view
        chosen, branch, matched = self.policy.choose(view, self.fleet, now * log.tick_s, self.pick)
        code = log.codes.get(branch)
        if code is None:
            code = log.branch_code(branch)
        total, table = self.in_flight, log.decisions
        if chosen is None:
            table.append((view.id, request.attempt, now, -1, code, 0, total, matched))
            request.status = FAILED
            request.ended = now
            Instant(self.env, now, ANSWER + view.id, self.refusing, request)
            return
        request.engine = index = chosen.index
        in_flight = chosen.in_flight
        table.data += table.pack(view.id, request.attempt, now, index, code, in_flight, total, matched)
        chosen.in_flight = in_flight + 1
        self.in_flight = total + 1
        if self.tells_dispatched:
            self.policy.dispatched(view, chosen)
        request.done = done = Event(self.env)
        done.callbacks.append(self._answered)
        if self.overhead:
            Instant(self.env, now + self.overhead, DELIVER + view.id, self.delivering, request)
        else:
            self.engines[index].submit(request)

    def _deliver(self, event: Event) -> None:
        request: Request = event._value
        self.engines[request.engine].submit(request)

    def _answered(self, event: Event) -> None:
        request: Request = event._value
        request.done = None  # the event holds the request: without this the two would keep each other alive
        engine = self.views[request.engine]
        engine.in_flight -= 1
        self.in_flight -= 1
        if self.tells_completed:
            self.policy.completed(request.view, engine)
        request.reply(request)

    def _refused(self, event: Event) -> None:
        request: Request = event._value
        request.reply(request)
