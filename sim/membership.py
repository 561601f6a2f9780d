"""Who runs the fleet: engines fail, come back, leave and join, at given times or at random.

An engine that joins later stands there from the beginning, down; one that left stays down. What becomes of a request
that was inside is the router's rule: it fails, or is tried again. Random failures are drawn for each engine alone, so a
policy does not shift them. What is to come when all requests have ended does not happen.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial

from sim.engine.shell import Engine
from sim.instants import FAILURE, Clock
from sim.log.record import FAIL, JOIN, LEAVE, RESTART, STOP, Log
from sim.rng import Streams
from sim.router import Members
from sim.router._watch import whisper
from sim.specs import Change, FailuresSpec


class Manager:
    """Changes the fleet, and tells the router."""

    def __init__(
        self,
        env: Clock,
        engines: Sequence[Engine],
        doors: Sequence[Engine],
        urls: Sequence[str],
        router: Members,
        log: Log,
        *,
        noticed_after_s: float | None,
        place: random.Random | None,
    ) -> None:
        """``engines`` are all that ever serve, ``doors`` what a router hands requests to.

        ``noticed_after_s`` None: the router finds out about failures itself.
        ``place``: draws where a router iterates an engine that joins; None: last.
        """
        self.env = env
        self.engines, self.doors, self.urls = engines, doors, urls
        self.router = router
        self.log = log
        self.ticks = 1 / log.tick_s
        self.noticed_after_s = noticed_after_s
        self.place = place
        self.members = 0
        self.gone: set[int] = set()
        """Engines that left: no failure can bring them back."""
        self.spells = [0] * len(engines)
        """How often each engine failed or came back: what was begun in an earlier spell is void."""

    def start(self, beginning: int, changes: Sequence[Change], failures: FailuresSpec | None, streams: Streams) -> None:
        """Plan what will happen to a fleet that begins with so many of the engines."""
        self.members = beginning
        for engine in self.engines[beginning:]:
            engine.is_up = False
        joining = beginning
        for change in sorted(changes, key=lambda each: each.at_s):
            if change.what == "join":
                for _ in range(change.count):
                    self._later(change.at_s, joining, self._join)
                    joining += 1
            elif change.what == "leave":
                self._later(change.at_s, change.engine or 0, partial(self._leave, change.drain_s))
            else:
                self._later(change.at_s, change.engine or 0, partial(self._fail, change.restart_after_s))
        if failures is not None:
            for engine in self.engines:
                self._await_failure(failures, streams.single(f"failures/{engine.index}"), engine.index)

    def _later(self, seconds: float, index: int, act: Callable[[int], None]) -> None:
        """Act on an engine some seconds from now, if anything but watching is still to happen then."""
        env = self.env

        def act_if_alive(engine: int) -> None:
            if len(env.agenda) > env.background:
                act(engine)

        whisper(env, env._now + round(seconds * self.ticks), FAILURE + index, act_if_alive, index)

    def _write(self, what: int, index: int) -> None:
        self.log.changes.append((self.env._now, what, index))

    # -- failures ----------------------------------------------------------------------------------------------------

    def _fail(self, restart_after_s: float | None, index: int) -> None:
        engine = self.engines[index]
        if not engine.is_up:
            return
        self._write(FAIL, index)
        engine.fail()
        self._begin_spell(index, is_up=False)
        if restart_after_s is not None:
            self._later(restart_after_s, index, partial(self._restart, self.spells[index]))

    def _restart(self, spell: int, index: int) -> None:
        if self.spells[index] != spell or index in self.gone:
            return
        self._write(RESTART, index)
        self.engines[index].restart()
        self._begin_spell(index, is_up=True)

    def _begin_spell(self, index: int, *, is_up: bool) -> None:
        """The engine failed or is back; who manages the fleet tells the router, in time."""
        self.spells[index] += 1
        if self.noticed_after_s is not None:
            spell = self.spells[index]
            self._later(self.noticed_after_s, index, partial(self._notice, spell, is_up))

    def _notice(self, spell: int, is_up: bool, index: int) -> None:
        if self.spells[index] == spell and index not in self.gone:
            self.router.set_available(index, is_up)

    def _await_failure(self, spec: FailuresSpec, chance: random.Random, index: int) -> None:
        """Fail after a while up, come back after a while down, and so on."""

        def fail(_: int) -> None:
            repair_s = chance.expovariate(1 / spec.mean_repair_s) if spec.mean_repair_s else 0.0
            if self.engines[index].is_up:
                self._fail(repair_s, index)
            if index not in self.gone:
                self._later(repair_s + chance.expovariate(1 / spec.mean_between_s), index, fail)

        self._later(chance.expovariate(1 / spec.mean_between_s), index, fail)

    # -- members -----------------------------------------------------------------------------------------------------

    def _join(self, index: int) -> None:
        self._write(JOIN, index)
        self.engines[index].restart()
        place = None if self.place is None else self.place.randrange(self.members + 1)
        self.members += 1
        self.router.join(self.doors[index], self.urls[index], place)

    def _leave(self, drain_s: float | None, index: int) -> None:
        if index in self.gone:
            return
        self._write(LEAVE, index)
        self.gone.add(index)
        self.members -= 1
        self.router.leave(index)
        if drain_s is not None:
            self._later(drain_s, index, self._stop)

    def _stop(self, index: int) -> None:
        if self.engines[index].is_up:
            self._write(STOP, index)
            self.engines[index].fail()
