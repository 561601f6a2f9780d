"""An engine as the rest of the fleet sees it: requests go in, and who runs the fleet can stop, change or lose it.

Requests come in through ``submit`` and go out by a call of their ``done``; who hears it is not the engine's business.
What an engine is told to do between two steps (an abort, a flush, new weights, a pause) takes effect at the first
boundary from then on, before the next decision: the loop of both products looks there. The jump under way ends there.
With overlap the step that is decided by then is computed still. An engine that fails is gone at once.

Source: vllm-project/vllm ``vllm/v1/engine/core.py``; sgl-project/sglang ``managers/scheduler.py`` (``abort_request``,
``flush_cache``, ``pause_generation``). Both refuse to flush while requests are inside; here what these hold cannot be
found from then on, which is what an update of the weights under way needs.
"""

from collections.abc import Callable
from struct import calcsize, pack_into, unpack_from

from policies._content import Content
from sim.engine import _leaving
from sim.engine._runs import NOTHING, Runs
from sim.engine.load import Load
from sim.engine.request import Request
from sim.instants import answer
from sim.log.record import ABORTED, DOWN, ENGINE_FAILED, ENGINES, FAILED, FLUSH, UNFINISHED

_ROW = calcsize(f"{len(ENGINES)}q")
_END = 8 * ENGINES.index("end")


Listener = Callable[[int, bool, Content, int], None]
"""Called with the tick, whether content was stored or removed, the content, and how many of its first tokens are not
meant. ``((), 0)`` removed: all of it."""


class Engine(Runs):
    """One engine of the fleet: a scheduler driven by the simulation's clock."""

    # -- in ----------------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Take a request in. One that cannot fit the pool is rejected at once; while the engine is down all fail."""
        now = self.env._now
        request.arrived = now
        scheduler = self.scheduler
        if not self.is_up:
            self._answer(request, FAILED)
        elif not scheduler.accept(request):
            request.ended = now
            answer(self.env, request)
        elif self.run is None:
            if self.awaited == NOTHING:
                self._decide_last(now)
        elif scheduler.is_open():
            if self.pending is None:
                self._cut(now)
            else:
                self.pending.repeat = 1

    def abort(self, request: Request) -> None:
        """End a request that is inside before its time; one that has ended, or is not here, is left alone.

        It is answered with status ABORTED: at once if it waits, else when the product lets go of it.
        """
        scheduler = self.scheduler
        if request.status != UNFINISHED or request.arrived < 0 or request in scheduler.aborted:
            return
        now = self.env._now
        self._settle(now)
        if _leaving.is_waiting(request):
            scheduler.waiting.remove(request)
            request.generated = request.base_output
            self._answer(request, ABORTED)
            self._interrupt(now)
        elif not scheduler.aborts_at_once:
            self._ask(lambda: self._stop(request))
        else:
            request.generated = self._progress(now).generated(request)
            if request.first_token > now:
                request.first_token = -1
            if self._is_at_boundary(now):
                self._ask(lambda: self._leave(request))
            else:
                self._interrupt(now)
                self.leaving.append(request)

    def _stop(self, request: Request) -> None:
        if request.status == UNFINISHED and request not in self.scheduler.aborted:
            generated = self._progress(self.env._now).generated(request)
            _leaving.stop(self.scheduler, request, generated, (self.run, self.pending))

    def _leave(self, request: Request) -> None:
        if request.status == UNFINISHED:
            _leaving.leave(self.scheduler, request, (self.run, self.pending))
            self._answer(request, ABORTED)

    def _answer(self, request: Request, status: int) -> None:
        """A request ends now, by no step: it is answered after the steps that end at this instant."""
        request.status = status
        request.reason = ENGINE_FAILED if status == FAILED else 0
        request.ended = self.env._now
        answer(self.env, request)

    # -- weights and pauses ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """The prefix cache forgets what no request holds; what requests hold is not found again."""
        self._ask(self._flush)

    def _flush(self) -> None:
        self.scheduler.cache.flush()
        self.changes.append((self.env._now, FLUSH, self.index))

    def set_version(self, version: int) -> None:
        """What is computed from now on is found only while weights of this version are in place."""
        self._ask(lambda: self.scheduler.cache.set_version(version))

    def pause(self) -> None:
        """Start no further step; what is decided is computed, and requests stay where they are."""
        self._settle(self.env._now)
        self._interrupt(self.env._now)
        self.is_paused = True
        self.is_plain = False

    def resume(self) -> None:
        """Go on after a pause."""
        self.is_paused = False
        self.is_plain = not self.is_told
        if self.is_up and self.run is None and self.awaited == NOTHING:
            self._decide_last(self.env._now)

    # -- failures ----------------------------------------------------------------------------------------------------

    def fail(self) -> None:
        """The engine is gone now, with its cache; every request inside is answered, FAILED.

        To be called when the steps that end at this instant have ended (``sim.instants.FAILURE`` or later).
        """
        if not self.is_up:
            return
        now = self.env._now
        self._settle(now)
        plans, progress = (self.run, self.pending), self._progress(now)
        lost = _leaving.inside(self.scheduler, plans)
        for request in lost:
            request.generated = progress.generated(request)
            if request.first_token > now:
                request.first_token = -1
        self._break_off(now)
        self.scheduler.clear()
        self.is_up = self.is_paused = False
        self.is_plain = not self.is_told
        self.down_since = now
        for request in lost:
            self._answer(request, FAILED)

    def _break_off(self, now: int) -> None:
        """The run ends here: what of it was begun is written down, what was only decided is not."""
        run, pending = self.run, self.pending
        self._void()
        self.pending = None
        self.awaited = NOTHING
        self.is_forming = False
        self.asked.clear()
        self.leaving.clear()
        if pending is not None:
            for request, _, tokens in pending.chunks:
                _leaving.take_back(request, tokens)
        if run is None:
            return
        begun, _ = run.boundary(now - self.anchor)
        if begun < min(self.end_step, begun + self.lag):
            for request, _, tokens in run.chunks:
                run.repeated -= _leaving.take_back(request, tokens)
        if now > self.anchor:
            self.end_step = begun
            self._switch(None, now)
        elif now < self.anchor:
            self._shorten(now)
        self.run = None
        self.rested_since = now

    def _shorten(self, now: int) -> None:
        """The last row was written ahead of the end of its last step, which does not come."""
        data = self.rows.data
        for at in range(len(data) - _ROW, -1, -_ROW):
            if unpack_from("q", data, at)[0] == self.index:
                pack_into("q", data, at + _END, now)
                return

    def restart(self) -> None:
        """Up again, with an empty cache."""
        if not self.is_up:
            self.close(self.env._now)
            self.is_up = True

    def close(self, now: int) -> None:
        """Write down how long it has been down, at the end of the run too."""
        if not self.is_up and now > self.down_since:
            rows = self.rows
            rows.data += rows.pack(self.index, self.down_since, now, DOWN, *(0,) * (len(ENGINES) - 4))

    # -- what others may know ----------------------------------------------------------------------------------------

    def peek(self, now: int) -> Load:
        """What the engine would say of itself at ``now``, the present tick. Changes nothing, and ends no jump."""
        self._settle(now)
        scheduler, block = self.scheduler, self.scheduler.block
        used, _ = scheduler.cache.usage()
        waiting = scheduler.waiting
        queued = sum(request.target for request in waiting)
        cached = sum(scheduler.cache.cached_tokens(request.content) for request in waiting)
        return Load(
            running=len(scheduler.running) + len(scheduler.ending),
            waiting=len(waiting),
            kv_share=used / scheduler.capacity,
            tokens=used * block + queued,
            queued_tokens=queued - cached,
            busy=now - self.rested - (now - self.rested_since if self.run is None else 0),
            generated=scheduler.decodes.generated,
        )

    def cached_tokens(self, content: Content) -> int:
        """Tokens of the longest prefix that is cached now; leaves no trace."""
        self._settle(self.env._now)
        return self.scheduler.cache.cached_tokens(content)

    def listen(self, listener: Listener) -> None:
        """Tell from now on what the prefix cache stores and forgets, at the ticks at which it does.

        The engine then jumps no further than to the next step that changes what can be found. To be called before the
        first request.
        """
        self.listeners.append(listener)
        if self.is_told:
            return
        if self.scheduler.admissions:
            raise ValueError("listen to an engine before its first request: its cache holds content already")
        self.is_told, self.is_plain = True, False
        self.scheduler.listen(self._tell)

    def _tell(self, is_stored: bool, content: Content, before: int) -> None:
        now = self.env._now
        for listener in self.listeners:
            listener(now, is_stored, content, before)

    # -- between two steps -------------------------------------------------------------------------------------------

    def _ask(self, action: Callable[[], None]) -> None:
        """Do something at the first boundary from now on, before the decision there."""
        now = self.env._now
        self._settle(now)
        if self._interrupt(now):
            self.asked.append(action)
        else:
            action()

    def _obey(self) -> None:
        """A boundary is reached and its completions are done."""
        asked, self.asked = self.asked, []
        for action in asked:
            action()

    def _let_go(self) -> None:
        """A boundary is reached; its completions come next."""
        leaving, self.leaving = self.leaving, []
        for request in leaving:
            self._leave(request)

    def _interrupt(self, now: int) -> bool:
        """Decide at the first boundary from now on; False if that is here and its completions are done."""
        if self.run is None or self.is_forming:
            return False
        if self.pending is None:
            self._cut(now)
        else:
            self.pending.repeat = 1
        return True

    def _is_at_boundary(self, now: int) -> bool:
        """Whether no step is halfway."""
        run = self.run
        return run is None or (now >= self.anchor and self.anchor + run.boundary(now - self.anchor)[1] == now)

    def _settle(self, now: int) -> None:
        """Account for the steps that are decided by now, as an engine that decides at every step has done."""
        run = self.run
        if run is None or now < self.anchor:
            return
        decided = min(self.end_step, run.boundary(now - self.anchor)[0] + self.lag)
        if self.accounted < decided:
            self.scheduler.advance(decided - self.accounted)
            self.accounted = decided

    def _progress(self, now: int) -> _leaving.Progress:
        """What is done by now."""
        run, pending, counts = self.run, self.pending, self.scheduler.counts_prefills
        if run is None:
            return _leaving.Progress(self.scheduler.decodes.steps, ())
        if now < self.anchor:
            before = self.before
            assert before is not None
            is_counted = counts or before.decodes > 0
            return _leaving.Progress(run.from_step - is_counted, {*before.finishing, *run.finishing})
        step, ticks = run.boundary(now - self.anchor)
        done = step if self.anchor + ticks == now else step - 1
        prefilling = set() if done else set(run.finishing)
        if pending is not None:
            prefilling.update(pending.finishing)
        return _leaving.Progress(run.from_step + (done if counts or run.decodes else 0), prefilling)
