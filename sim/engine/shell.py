"""The clock of an engine: runs of equal steps as single SimPy events.

A run is a stretch of steps of one plan. Its boundaries are ``anchor + k*first + growth*k*(k-1)/2`` ticks, so the engine
jumps to the boundary at which the scheduler must decide again: the end of what the plan repeats, or the first boundary
after an arrival that may change something. Step by step it decides at every boundary; the times are the same integers.

With overlap the next step is decided when the present one starts: decisions lag by one step, an arrival during step i
enters step i+2, and an idle engine starts at once.

Requests come in through ``submit`` and go out by their ``done`` event; who waits on it is not the engine's business.
"""

from math import isqrt

from simpy.events import Event

from sim.engine._scheduler import Plan, Scheduler
from sim.engine.request import Request
from sim.instants import ANSWER, FORM, STEP_END, Clock, Instant, answer, conclude
from sim.log.record import BUSY, Log


class Engine:
    """One engine of the fleet: a scheduler driven by the simulation's clock."""

    def __init__(self, env: Clock, index: int, scheduler: Scheduler, log: Log, *, step_by_step: bool = False) -> None:
        self.env = env
        self.index = index
        self.scheduler = scheduler
        self.rows = log.engines
        self.step_by_step = step_by_step
        self.lag = 1 if scheduler.decodes.overlap else 0
        """Steps between a decision and its step's start."""
        self.run: Plan | None = None
        self.anchor = 0
        self.end_step = 0
        """Steps of the run that are decided."""
        self.accounted = 0
        """Of them, steps that the scheduler has accounted for."""
        self.pending: Plan | None = None
        """Decided batch of the next run, where the step under way ends with answers."""
        self.next_event: Event | None = None
        self.next_step = 0

    # -- in ----------------------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Take a request in; one that cannot fit the pool is answered at once, rejected."""
        now = self.env.now
        request.arrived = now
        scheduler = self.scheduler
        if not scheduler.accept(request):
            request.ended = now
            answer(self.env, request.done, ANSWER + request.view.id, request)
        elif self.run is None:
            if self.next_event is None:
                self.next_event = Instant(self.env, 0, FORM + self.index, self._form)
        elif scheduler.is_open:
            if self.pending is None:
                self._cut(now)
            else:
                self.pending.repeat = 1

    def _cut(self, now: int) -> None:
        """Decide again at the first boundary from now on."""
        run = self.run
        assert run is not None
        step = self._step_at(run, now)
        if step < self.end_step - self.lag:
            self.end_step = step + self.lag
            self._schedule(step)

    def _step_at(self, run: Plan, now: int) -> int:
        """First step of the run whose end is not before ``now``."""
        elapsed = now - self.anchor
        if elapsed <= 0:
            return 0
        first, growth = run.first, run.growth
        if growth:
            slope = 2 * first - growth
            step = (isqrt(slope * slope + 8 * growth * elapsed) - slope) // (2 * growth)
        else:
            step = elapsed // first
        while step > 0 and step * first + growth * (step * (step - 1) // 2) >= elapsed:
            step -= 1
        while step * first + growth * (step * (step - 1) // 2) < elapsed:
            step += 1
        return step

    # -- boundaries --------------------------------------------------------------------------------------------------

    def _end_of(self, step: int) -> int:
        """Tick at which a step of the run ends (0: at which the run starts)."""
        run = self.run
        assert run is not None
        return self.anchor + step * run.first + run.growth * (step * (step - 1) // 2)

    def _schedule(self, step: int) -> None:
        """Wake up at the end of a step of the run."""
        run = self.run
        assert run is not None
        self.next_step = step
        end = self.anchor + step * run.first + run.growth * (step * (step - 1) // 2)
        self.next_event = Instant(self.env, end - self.env.now, STEP_END + self.index, self._reach)

    def _reach(self, event: Event) -> None:
        """A boundary: answer what is complete, start what is decided, decide what comes next."""
        if event is not self.next_event:
            return
        run, scheduler, step = self.run, self.scheduler, self.next_step
        assert run is not None
        now: int = self.env.now
        if self.accounted < self.end_step:
            scheduler.advance(self.end_step - self.accounted)
            self.accounted = self.end_step
        if scheduler.is_due(run, step):
            for request in scheduler.complete(run, step, now):
                conclude(request.done, request)
        if self.lag and step == self.end_step:
            self._end(now)
            if self.pending is not None:
                plan, self.pending = self.pending, None
                self._begin(plan, now)
                return
        self._decide_last(now)

    def _decide_last(self, now: int) -> None:
        """Decide at this instant, after all else that happens at it."""
        if self.env.peek() > now:
            self._decide(now)
        else:
            self.next_event = Instant(self.env, 0, FORM + self.index, self._form)

    def _form(self, event: Event) -> None:
        self._decide(self.env.now)

    def _decide(self, now: int) -> None:
        """Ask for the next steps; the run goes on, or another follows it.

        With overlap the step under way is the last of the run. If it ends without an answer, what follows it is known
        already: the next run begins then.
        """
        run, scheduler = self.run, self.scheduler
        done = scheduler.decodes.steps
        plan = scheduler.form(now)
        if plan is not None and plan is run:
            self.accounted += 1
            self.end_step += 1 if self.step_by_step else plan.repeat
            self._schedule(self.end_step - self.lag)
            return
        start = now
        if run is not None:
            if self.next_step < self.end_step:
                if plan is None or not scheduler.is_quiet(run, done):
                    self.pending = plan
                    self._schedule(self.end_step)
                    return
                start = self._end_of(self.end_step)
                for request in run.finishing:
                    if request.first_token < 0:
                        request.first_token = start
            self._end(start)
        if plan is None:
            self.next_event = None
        else:
            self._begin(plan, start)

    def _begin(self, plan: Plan, start: int) -> None:
        """A run of a plan starts now or, decided beforehand, when the step under way ends."""
        self.run = plan
        self.anchor = start
        self.accounted = 1
        self.end_step = 1 if self.step_by_step else plan.repeat
        if self.end_step > self.lag:
            self._schedule(self.end_step - self.lag)
        elif start > self.env.now:
            self._schedule(0)
        else:
            self.next_step = 0
            self._decide_last(start)

    def _end(self, end: int) -> None:
        """The run is over: write its row."""
        run, steps = self.run, self.end_step
        assert run is not None
        self.run = None
        self.rows.extend((
            self.index, self.anchor, end, BUSY, steps, run.prefill * steps, run.repeated, run.decodes, run.context,
            run.pairs, len(run.chunks), run.prefill + run.decodes, run.waiting, run.kv_used, run.kv_cached,
        ))  # fmt: skip
