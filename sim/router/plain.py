"""The plain router: asks the policy, records the decision, sends the request on, and counts what is in flight.

It is one process with one view of the fleet. ``in_flight`` of an engine rises when a request is sent to it and falls
when its answer has ended, as the routers of sglang, smg and vLLM count. A policy that chooses no engine refuses the
request (503): it fails at once. A choice is delivered ``overhead_s`` later. A policy that wants to hear of first tokens
does: answers are streamed.

Left out: what ``sim.router.full`` adds.
"""

import random
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TypeVar

from policies._protocol import EngineView, FleetView, Policy
from sim.engine.request import Request
from sim.engine.shell import Engine
from sim.foreign import hears
from sim.instants import ANSWER, DELIVER, Clock
from sim.log.record import ABORTED, DECISIONS, FAILED, NO_ENGINE, UNSEEN, Log

T = TypeVar("T")
Done = Callable[[Request], None]

_ROW = Struct(f"{len(DECISIONS) - len(UNSEEN)}q").pack
_UNSEEN = Struct(f"{len(UNSEEN)}q").pack(*UNSEEN)
"""A row of the decisions table, up to what only other routers know."""


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
        self.engines = list(engines)
        self.views = [EngineView(index, url) for index, url in enumerate(urls)]
        in_order = [self.views[index] for index in order]
        self.fleet = FleetView(in_order, list(in_order))
        self.chance = chance
        self.log = log
        self.overhead = overhead
        self.in_flight = 0
        self.tells_dispatched = hears(policy, "dispatched")
        self.tells_completed = hears(policy, "completed")
        self.on_first_token = self._stream if hears(policy, "first_token") else None
        self.silent: dict[int, Done] = {}
        """Requests of which the policy has yet to hear the first token: their ``done``, by id."""

    def start(self) -> None:
        """Show the policy the fleet, before the first request."""
        self.policy.start(self.fleet)

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
            table.append((view.id, request.attempt, now, -1, code, 0, total, matched, *UNSEEN))
            request.status, request.reason = FAILED, NO_ENGINE
            request.ended = now
            self.env.at(now, ANSWER + view.id, self._refused, request)
            return
        request.engine = index = chosen.index
        in_flight = chosen.in_flight
        table.data += _ROW(view.id, request.attempt, now, index, code, in_flight, total, matched) + _UNSEEN
        chosen.in_flight = in_flight + 1
        self.in_flight = total + 1
        if self.tells_dispatched:
            self.policy.dispatched(view, chosen)
        request.done = done = self._answered  # a method looked up anew is another object
        if self.on_first_token is not None:
            request.on_first_token = self.on_first_token
            self.silent[view.id] = done
        if self.overhead:
            self.env.at(now + self.overhead, DELIVER + view.id, self._deliver, (request, done))
        else:
            self.engines[index].submit(request)

    def _deliver(self, sent: tuple[Request, Done]) -> None:
        request, done = sent
        if request.done is done:
            self.engines[request.engine].submit(request)

    def _answered(self, request: Request) -> None:
        if self.silent:
            self._hear((request, request.done))
        self._discount(request)
        reply = request.reply
        reply(request)

    def _discount(self, request: Request) -> None:
        """What was sent is in flight no more."""
        request.done = None
        engine = self.views[request.engine]
        engine.in_flight -= 1
        self.in_flight -= 1
        if self.tells_completed:
            self.policy.completed(request.view, engine)

    def _refused(self, request: Request) -> None:
        request.reply(request)

    def abort(self, request: Request) -> None:
        """End a request wherever it is; one that has ended stays as it is."""
        if request.done is None:
            return
        if request.arrived >= 0:
            self.engines[request.engine].abort(request)
            return
        self.silent.pop(request.view.id, None)
        self._discount(request)
        request.status = ABORTED
        now = request.ended = self.env._now
        self.env.at(now, ANSWER + request.view.id, self._refused, request)

    # -- first tokens ------------------------------------------------------------------------------------------------

    def _stream(self, request: Request) -> None:
        """The time of a first token is known; it may be yet to come."""
        done = self.silent[request.view.id]
        self.env.at(request.first_token, ANSWER + request.view.id, self._hear, (request, done))

    def _hear(self, sent: tuple[Request, Done]) -> None:
        """Tell of a first token, once, and before its answer ends."""
        request, done = sent
        if self.silent.get(request.view.id) is done:
            del self.silent[request.view.id]
            if 0 <= request.first_token <= self.env._now:
                self._first_token(request)

    def _first_token(self, request: Request) -> None:
        self.policy.first_token(request.view, self.views[request.engine])

    # -- the fleet ---------------------------------------------------------------------------------------------------

    def set_available(self, index: int, is_available: bool) -> None:
        """Let the policy choose an engine, or not; requests that it has stay with it."""
        self.views[index].is_available = is_available
        self.fleet.available[:] = [view for view in self.fleet.engines if view.is_available]

    def join(self, engine: Engine, url: str, place: int | None = None) -> None:
        """An engine is added, ``place`` being where the router iterates it; absent: last.

        Its index is the next free one, or that of an engine that left and comes back.
        """
        if engine.index == len(self.views):
            self.engines.append(engine)
            self.views.append(EngineView(engine.index, url))
        view = self.views[engine.index]
        self._prepare(engine)
        self.fleet.engines.insert(len(self.fleet.engines) if place is None else place, view)
        self.set_available(view.index, True)
        self.policy.joined(view, self.fleet)

    def _prepare(self, engine: Engine) -> None:
        """Be ready for an engine before the policy hears that it joined."""

    def leave(self, index: int) -> None:
        """An engine is removed: it is chosen no more, and what it has still ends."""
        view = self.views[index]
        self.fleet.engines.remove(view)
        self.set_available(index, False)
        self.policy.left(view, self.fleet)
