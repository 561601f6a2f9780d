"""The clock of an engine: runs of equal steps, each one call on the agenda.

A run is a stretch of steps of one plan. Its boundaries are ``anchor + k*first + growth*k*(k-1)/2`` ticks, so the engine
jumps to the boundary at which the scheduler must decide again: the end of what the plan repeats, or the first boundary
after an arrival that may change something. Step by step it decides at every boundary; the times are the same integers.

With overlap the next step is decided when the present one starts: decisions lag by one step, an arrival during step i
enters step i+2, and an idle engine starts at once.
"""

from collections.abc import Callable
from typing import Final

from policies._content import Content
from sim.engine._scheduler import Plan, Scheduler
from sim.engine.request import Request
from sim.instants import FORM, STEP_END, Clock
from sim.log.record import BUSY, Log

NOTHING: Final = -1


class Runs:
    """A scheduler driven by the simulation's clock; what else happens to an engine comes in between."""

    def __init__(self, env: Clock, index: int, scheduler: Scheduler, log: Log, *, step_by_step: bool = False) -> None:
        self.env = env
        self.index = index
        self.scheduler = scheduler
        self.rows, self.pack = log.engines, log.engines.pack
        self.changes = log.changes
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
        self.awaited = NOTHING
        """Serial number of the call at which it goes on."""
        self.is_forming = False
        """Whether that is the decision of this instant, whose completions are done."""
        self.next_step = 0
        self.priority = STEP_END + index
        self.reaching = self._reach
        self.is_up = True
        self.is_paused = self.is_told = False
        self.is_plain = True
        """Neither paused nor listened to."""
        self.down_since = 0
        self.rested = self.rested_since = 0
        """Ticks without a run until the last one began; when it last had none."""
        self.before: Plan | None = None
        """Plan of the step under way, where the run is one that begins when that step ends."""
        self.listeners: list[Callable[[int, bool, Content, int], None]] = []
        self.asked: list[Callable[[], None]] = []
        """What is to be done at the next boundary, before its decision."""
        self.leaving: list[Request] = []
        """Aborted requests that leave at the end of the step under way, before it counts."""

    def _obey(self) -> None:
        """Do what was asked for."""
        raise NotImplementedError

    def _let_go(self) -> None:
        """Let those go that leave."""
        raise NotImplementedError

    def _cut(self, now: int) -> None:
        """Decide again at the first boundary from now on."""
        run = self.run
        assert run is not None
        step, ticks = run.boundary(now - self.anchor)
        if step < self.end_step - self.lag:
            self.end_step = step + self.lag
            self.next_step = step
            self._void()
            self.awaited = self.env.at(self.anchor + ticks, self.priority, self.reaching)

    def _void(self) -> None:
        """What is awaited comes to nothing; it stays on the agenda, and keeps no run going."""
        if self.awaited != NOTHING:
            self.env.background += 1

    def _decide_last(self, now: int) -> None:
        """Decide when all else of this instant has happened."""
        self.is_forming = True
        self.awaited = self.env.at(now, FORM + self.index, self._form)

    # -- boundaries --------------------------------------------------------------------------------------------------

    def _reach(self, _: None) -> None:
        """A boundary: answer what is complete, start what is decided, decide what comes next."""
        env = self.env
        if env.happening != self.awaited:
            env.background -= 1
            return
        self.awaited = NOTHING
        run, scheduler, step, end_step = self.run, self.scheduler, self.next_step, self.end_step
        assert run is not None
        now = env._now
        if self.accounted < end_step:
            scheduler.advance(end_step - self.accounted)
            self.accounted = end_step
        if self.leaving:
            self._let_go()
        if scheduler.ending or scheduler.decodes.next_stop <= run.from_step + step or (step and run.finishing):
            for request in scheduler.complete(run, step, now):
                done = request.done
                done(request)
        if self.lag and step == end_step:
            plan, self.pending = self.pending, None
            self._switch(plan, now)
            if plan is not None and self.next_step:
                return
        if self.asked:
            self._obey()
        agenda = env.agenda
        if agenda and agenda[0][0] == now:
            self._decide_last(now)
        else:
            self._decide(now)

    def _form(self, _: None) -> None:
        if self.env.happening == self.awaited:
            self.awaited = NOTHING
            self.is_forming = False
            self._decide(self.env._now)
        else:
            self.env.background -= 1

    def _decide(self, now: int) -> None:
        """Ask for the next steps, once all else of this instant has happened; the run goes on, or another follows it.

        With overlap the step under way is the last of the run. If it ends without an answer, what follows it is known
        already: the next run begins then.
        """
        run, scheduler = self.run, self.scheduler
        done = scheduler.decodes.steps
        if self.is_plain:
            plan = scheduler.form(now)
        else:
            plan = self._form_specially(now)
        if plan is None and (run is None or self.next_step == self.end_step) and not self.is_paused:
            scheduler.rest()
        if run is None:
            self._switch(plan, now)
        elif plan is run:
            self.accounted += 1
            self.end_step = end_step = self.end_step + (1 if self.step_by_step else run.repeat)
            self.next_step = step = end_step - self.lag
            end = self.anchor + step * run.first + run.growth * (step * (step - 1) // 2)
            self.awaited = self.env.at(end, self.priority, self.reaching)
            return
        elif self.next_step < self.end_step:
            step = self.end_step
            end = self.anchor + step * run.first + run.growth * (step * (step - 1) // 2)
            if plan is None or not scheduler.is_quiet(run, done):
                self.pending = plan
                self.next_step = step
                self.awaited = self.env.at(end, self.priority, self.reaching)
                return
            for request in run.finishing:
                if request.first_token < 0:
                    request.first_token = end
                    if request.on_first_token is not None:
                        request.on_first_token(request)
            self.before = run
            self._switch(plan, end)
            return
        else:
            self._switch(plan, now)
        if plan is not None and not self.next_step:
            self._decide(now)

    def _form_specially(self, now: int) -> Plan | None:
        """The next steps of an engine that is paused, or listened to."""
        scheduler = self.scheduler
        if self.is_paused:
            scheduler.hold()
            return None
        plan = scheduler.form(now)
        if self.is_told and plan is not None:
            scheduler.hush(plan)
        return plan

    def _switch(self, plan: Plan | None, start: int) -> None:
        """The run is over, write its row; a run of another plan starts now or when the step under way ends.

        ``next_step`` 0 tells that a decision is due at its start; where that is now, the caller takes it.
        """
        run = self.run
        if run is not None:
            steps, prefill, decodes = self.end_step, run.prefill, run.decodes
            rows, pack = self.rows, self.pack
            rows.data += pack(
                self.index, self.anchor, start, BUSY, steps, prefill * steps, run.repeated, decodes, run.context,
                run.pairs, len(run.chunks), prefill + decodes, run.waiting, run.kv_used, run.kv_cached,
            )  # fmt: skip
        else:
            self.rested += start - self.rested_since
        self.run = plan
        self.awaited = NOTHING
        if plan is None:
            self.rested_since = start
        else:
            self.anchor = start
            self.accounted = 1
            self.end_step = end_step = 1 if self.step_by_step else plan.repeat
            self.next_step = step = end_step - self.lag
            if step or start > self.env._now:
                end = start + step * plan.first + plan.growth * (step * (step - 1) // 2)
                self.awaited = self.env.at(end, self.priority, self.reaching)
