"""Sessions under way: groups and samples that wait for places, environments that start, children, and how all end.

    group arrives -> place among groups -> place among sessions -> boot -> turns ... -> end
                                                                             |
                                          children start and end beside them, and hold no place

A session that a trainer suspended goes on where it was; one that was cut off by its time counts as usable, as one that
finished does. What a turn goes through, and aborts, are in ``_managed``.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from sim.client._cap import Controller, Polled
from sim.client._client import Client, Live, Sending
from sim.client._forks import Forks
from sim.client._pool import Pool
from sim.instants import SUBMIT, Clock
from sim.log.record import Log
from sim.router import Routes
from sim.specs import ClientSpec, FeedbackCap
from sim.workload._model import Workload

WAITING, DUE, OPEN, OVER = range(4)
"""A session waits for its delay, could send (but for children, a process, the gate), has a request out, is over."""
NEVER: Final = -1


class Sessions(Client):
    """Starts the sessions of a workload, in the places that there are, and ends them."""

    def __init__(
        self, env: Clock, workload: Workload, router: Routes, log: Log, sending: Sending, spec: ClientSpec
    ) -> None:
        """Arguments of the plain client; ``spec`` says what is managed."""
        super().__init__(env, workload, router, log, sending)
        self.group_cap = spec.max_groups_in_flight or workload.groups
        self.group_backlog: deque[int] = deque()
        self.groups_in_flight = 0
        self.group_of: list[int] = workload.group_of.tolist()
        self.follows = workload.follows
        self.order = self.order[: len(self.order) - len(self.follows)]
        self.drawn: dict[int, None] = {}
        """Groups that have arrived, in that order."""
        self.boots = Pool(env, spec.tools.boots) if spec.tools and spec.tools.boots else None
        self.forks = Forks(self, workload.children) if workload.children else None
        self.controller: Controller | None = None
        self.trainer: Any = None
        self.ended = 0
        """Samples that have given back their place."""
        self.losses_ended = 0
        """Times that requests which have been answered had lost their memory."""
        self.alive: dict[int, Live] = {}
        self.kept: dict[int, Live] = {}
        """Sessions of suspended groups that will be continued."""
        self.suspended: set[int] = set()
        self.has_ended = bytearray(workload.sessions)
        self.is_used = bytearray(workload.sessions)
        self.usable = [0] * workload.groups
        """Samples of each group that a trainer can use: finished, or cut off by their time."""
        self.first_attempt: dict[int, int] = {}
        """By group that began anew: the attempt that its requests make first."""

    # -- groups and sessions -----------------------------------------------------------------------------------------

    def draw(self, group: int, samples: int | None = None) -> None:
        """A trainer starts a group, or one that was suspended; of a new one only the first ``samples`` if given."""
        if group in self.suspended:
            self.suspended.remove(group)
        else:
            self.arrivals[group] = self.env._now
        if samples is not None:
            for session in self.members[group][samples:]:
                self._end(session, False, False)
        self._begin(group)

    def samples_of(self, group: int) -> int:
        """Sessions of a group that no other one starts."""
        members = self.members[group]
        return len(members) if self.forks is None else sum(not self.forks.is_child(each) for each in members)

    def _begin(self, group: int) -> None:
        self.drawn[group] = None
        if self.groups_in_flight < self.group_cap:
            self._begin_now(group)
        else:
            self.group_backlog.append(group)

    def _begin_now(self, group: int) -> None:
        self.groups_in_flight += 1
        forks = self.forks
        for session in self.members[group]:
            if self.has_ended[session]:
                continue
            if forks is not None and forks.is_child(session):
                if session in self.kept:
                    self.start_child(session)
            elif self.under_way < self.cap:
                self._start(session)
            else:
                self.backlog.append(session)
        if forks is not None:
            forks.resume(group)

    def _begin_next(self, _: None) -> None:
        if self.group_backlog and self.groups_in_flight < self.group_cap:
            self._begin_now(self.group_backlog.popleft())

    def _start(self, index: int) -> None:
        self.under_way += 1
        if self.controller is not None:
            self.controller.wake()
        self._run(index)

    def start_child(self, session: int) -> None:
        """A child's time has come; it takes no place."""
        self._run(session)

    def _run(self, index: int) -> None:
        """A session begins, or goes on where it was suspended."""
        live = self.kept.pop(index, None)
        boot = 0
        if live is None:
            key = self.keys[index]
            headers = {self.header: key} if key else {}
            live = Live(self.workload.session(index), self.first_requests[index], headers)
            live.base = live.attempt = self.first_attempt.get(live.group, 0)
            boot = round(live.turns[0].delay_s * self.ticks)
        self.alive[index] = live
        self._started(live)
        if boot:
            self._wait(live, boot, self.boots)
        else:
            self._ready(live)

    def _started(self, live: Live) -> None:
        """A session is under way from now on."""

    def join(self, live: Live) -> None:
        """The children that a session waited for have ended."""
        if live.state == DUE:
            self._wait(live, 0, None)

    def _wait(self, live: Live, delay: int, pool: Pool | None) -> None:
        """The next turn is due after a delay, which may itself wait for a place."""
        raise NotImplementedError

    def _ready(self, live: Live) -> None:
        """The next turn is due."""
        raise NotImplementedError

    def _finish(self, live: Live, is_finished: bool, is_usable: bool) -> None:
        """A session under way ends."""
        live.state = OVER
        del self.alive[live.index]
        self._end(live.index, is_finished, is_usable, live.turn + is_finished)
        self._free(live)

    def _end(self, session: int, is_finished: bool, is_usable: bool, turns_finished: int = 0) -> None:
        """A session has ended, or will never start."""
        group, forks = self.group_of[session], self.forks
        self.has_ended[session] = True
        self.kept.pop(session, None)
        self.finished[group] += is_finished
        self.is_used[session] = is_usable
        if is_usable and (forks is None or not forks.is_child(session)):
            self.usable[group] += 1
        self.left[group] = left = self.left[group] - 1
        if forks is not None:
            forks.session_ended(session, turns_finished)
        if not left:  # counted before children that never start, the last of which then finds 0
            self._group_ended(group)
        if self.trainer is not None:
            self.trainer.hear(group)

    def give_up(self, session: int) -> None:
        """A child whose parent never came to start it."""
        self._end(session, False, False)

    def _group_ended(self, group: int) -> None:
        env, now = self.env, self.env._now
        self._write_group(group, now)
        if group not in self.suspended:
            self._leave_place(group)
        follower = self.follows.get(group)
        if follower is not None:
            at = now + round(float(self.workload.arrival_s[follower]) * self.ticks)
            env.at(at, SUBMIT, self._follow, follower)

    def _follow(self, group: int) -> None:
        self.arrivals[group] = self.env._now
        self._begin(group)

    def _free_group(self) -> None:
        self.groups_in_flight -= 1
        if self.group_backlog:
            self.env.at(self.env._now, SUBMIT, self._begin_next)

    def _leave_place(self, group: int) -> None:
        """A group gives back its place, or leaves the queue for one."""
        if group in self.group_backlog:
            self.group_backlog.remove(group)
        else:
            self._free_group()

    def _free(self, live: Live) -> None:
        """Give back the place of a session."""
        if self.forks is not None and self.forks.is_child(live.index):
            return
        self.under_way -= 1
        self.ended += 1
        if self.backlog and self.under_way < self.cap:
            self.env.at(self.env._now, SUBMIT + 1 + live.index, self._start_next)

    # -- a cap that moves --------------------------------------------------------------------------------------------

    def control(self, spec: FeedbackCap, engines: Sequence[Polled]) -> None:
        """Let the cap on samples in flight follow what engines say."""
        self.controller = Controller(self, spec, engines)

    @property
    def losses(self) -> int:
        """Times that requests, ended and open, have lost their memory."""
        return self.losses_ended + sum(request.preemptions for request, _ in self.open_requests.values())

    def refill(self) -> None:
        """Start what may start under a raised cap."""
        for place in range(min(self.cap - self.under_way, len(self.backlog))):
            self.env.at(self.env._now, SUBMIT + 1 + place, self._start_next)

    # -- log ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write down what the end of the run left unfinished."""
        for request, live in self.open_requests.values():
            self._write(request, NEVER if self.forks is None else self.forks.parents.get(live.index, NEVER))
        for group in self.drawn:
            if self.left[group]:
                self._write_group(group, -1)
