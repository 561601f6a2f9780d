"""The client: groups arrive, their sessions start under a cap, and turns follow each other.

A session's next turn is submitted its delay after the answer of the turn before (never earlier). The cap counts
sessions under way in the whole job: a session holds its place through all its turns, as in slime's semaphore; who waits
for a place starts in order of arrival. Requests of a session, or of a group, carry one routing key in a header. A turn
that is refused, fails or can never fit ends its session.

This is the client of scenarios that ask for nothing more; ``_managed`` has the rest.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from policies._content import count
from policies._protocol import RequestView
from sim.engine.request import Request
from sim.instants import SUBMIT, Clock
from sim.log.record import FINISHED, Log
from sim.router import Routes
from sim.workload._model import Session, Workload


@dataclass(frozen=True, slots=True)
class Sending:
    """How requests are keyed, and how many sessions may be under way."""

    keys: Sequence[str]
    """Routing key of each session."""
    header: str
    cap: int | None
    keys_requests: bool
    """Whether sessions without a key get one for each request."""


class Live:
    """A session under way: the next turn to submit, or the one that is submitted."""

    __slots__ = (
        "attempt",
        "base",
        "fate",
        "first_request",
        "group",
        "headers",
        "index",
        "is_gathered",
        "state",
        "turn",
        "turns",
    )

    def __init__(self, session: Session, first_request: int, headers: dict[str, str]) -> None:
        self.index, self.group, self.turns = session
        self.first_request = first_request
        self.headers = headers
        self.turn = 0
        self.attempt = self.base = 0
        """Attempts that were made at this turn's request before, and at every later turn's."""
        self.is_gathered = False
        """Whether it waits for the others of its group, to be sent with them."""
        self.state = self.fate = 0
        """Where it is and what will become of it, for who aborts sessions: see ``_managed``."""

    def copy(self) -> "Live":
        """The session as it stands, as another object."""
        other = Live(Session(self.index, self.group, self.turns), self.first_request, self.headers)
        other.turn, other.attempt, other.base = self.turn, self.attempt, self.base
        return other


class Client:
    """Submits the sessions of a workload to a router and writes down how they fare."""

    def __init__(
        self,
        env: Clock,
        workload: Workload,
        router: Routes,
        log: Log,
        sending: Sending,
    ) -> None:
        self.env = env
        self.workload = workload
        self.router = router
        self.log = log
        self.keys = sending.keys
        self.header = sending.header
        self.cap = workload.sessions if sending.cap is None else sending.cap
        self.keys_requests = sending.keys_requests
        self.encoding = workload.encoding
        self.chars_per_token = workload.chars_per_token
        self.ticks = 1 / log.tick_s
        self.under_way = 0
        self.backlog: deque[int] = deque()
        self.open_requests: dict[int, tuple[Request, Live]] = {}
        """Requests that are submitted and not answered, and the sessions they belong to."""
        self.first_requests = workload.first_requests().tolist()
        members: list[list[int]] = [[] for _ in range(workload.groups)]
        for session, group in enumerate(workload.group_of.tolist()):
            members[group].append(session)
        self.members = members
        self.order: list[int] = workload.order.tolist()
        self.arrivals = [round(seconds * self.ticks) for seconds in workload.arrival_s.tolist()]
        self.arrived = 0
        """Groups that arrived so far."""
        self.left = [len(sessions) for sessions in members]
        self.answering = self._answered
        self.finished = [0] * workload.groups

    def start(self) -> None:
        """Let the first group arrive at its time."""
        if self.order:
            self.env.at(self.arrivals[self.order[0]], SUBMIT, self._arrive)

    # -- groups and sessions -----------------------------------------------------------------------------------------

    def _arrive(self, _: None) -> None:
        """All groups of this instant arrive, in their order; then the next one is awaited."""
        now, order, arrivals = self.env._now, self.order, self.arrivals
        for at in range(self.arrived, len(order)):
            group = order[at]
            when = arrivals[group]
            if when > now:
                self.env.at(when, SUBMIT, self._arrive)
                return
            self.arrived = at + 1
            self._begin(group)

    def _begin(self, group: int) -> None:
        for session in self.members[group]:
            if self.under_way < self.cap:
                self._start(session)
            else:
                self.backlog.append(session)

    def _start(self, index: int) -> None:
        self.under_way += 1
        key = self.keys[index]
        self._submit(Live(self.workload.session(index), self.first_requests[index], {self.header: key} if key else {}))

    def _end_session(self, live: Live, now: int, is_finished: bool) -> None:
        group = live.group
        self.under_way -= 1
        self.finished[group] += is_finished
        self.left[group] = left = self.left[group] - 1
        if not left:
            self._write_group(group, now)
        if self.backlog and self.under_way < self.cap:
            self.env.at(self.env._now, SUBMIT + 1 + live.index, self._start_next)

    def _start_next(self, _: None) -> None:
        if self.backlog and self.under_way < self.cap:
            self._start(self.backlog.popleft())

    # -- turns -------------------------------------------------------------------------------------------------------

    def _submit(self, live: Live) -> None:
        """Send the next turn of a session."""
        self.router.route(self._request(live))

    def _request(self, live: Live) -> Request:
        """The request of a session's next turn, which counts as open from now on."""
        turn, turns = live.turn, live.turns
        prompt, output_tokens, output_source, max_tokens, _ = turns[turn]
        headers = live.headers
        number = live.first_request + turn
        if self.keys_requests and not headers:
            headers = {self.header: f"request-{number}"}
        view = RequestView(number, headers, prompt, count(prompt), max_tokens, self.encoding, self.chars_per_token)
        request = Request(view, output_tokens, output_source, live.index, live.group, turn, turn + 1 == len(turns))
        env = self.env
        request.submitted = env._now
        request.attempt = live.attempt
        request.reply = self.answering
        self.open_requests[number] = request, live
        return request

    def _answered(self, request: Request) -> None:
        """Write the request down; send the next turn after its delay, or end the session."""
        _, live = self.open_requests.pop(request.view.id)
        self._write(request)
        is_finished = request.status == FINISHED
        if request.is_last or not is_finished:
            self._end_session(live, request.ended, is_finished)
            return
        live.turn = turn = live.turn + 1
        env = self.env
        delay = round(live.turns[turn].delay_s * self.ticks)
        env.at(env._now + delay, SUBMIT + 1 + live.index, self._submit, live)

    # -- log ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Write down what the end of the run left unfinished."""
        for request, _ in self.open_requests.values():
            self._write(request)
        for group in self.order[: self.arrived]:
            if self.left[group]:
                self._write_group(group, -1)

    def _write(self, r: Request, parent: int = -1) -> None:
        table = self.log.requests
        pack = table.pack
        table.data += pack(
            r.view.id, r.session, r.group, r.turn, r.is_last, r.attempt, r.engine, r.submitted, r.arrived, r.scheduled,
            r.first_token, r.ended, r.prompt_tokens, r.cached_tokens, r.queried_tokens, r.hit_tokens, r.max_tokens,
            r.generated, r.prefill_tokens, r.recomputed_tokens, r.preemptions, r.status, r.reason,
            parent,
        )  # fmt: skip

    def _write_group(self, group: int, ended: int) -> None:
        table = self.log.groups
        pack = table.pack
        table.data += pack(group, self.arrivals[group], ended, len(self.members[group]), self.finished[group])
