"""A client that manages its sessions: what a turn goes through besides the router, and what becomes of aborted ones.

It adds to the plain client, and gives the same log where nothing of this is asked for. A turn that is due passes

    children that join it -> client process -> gate (a trainer's) -> the others of its group, if they travel as one
    -> router -> answer -> tool -> next turn

A session under way can be aborted: for good (``DROP``), to be continued later (``KEEP``), to be sent again as soon as
the gate opens (``RESEND``), or because its time is over (``EXPIRE``). A request of it that is open is aborted through
the router, and its fate is applied when the answer is there: an answer that has come in full counts as such. What is
sent again carries prompt and partial answer, the same request id, and the next attempt.
"""

from collections import deque

from policies._content import count, extend
from sim.client._bundle import Bundle, taken_apart
from sim.client._client import Live, Sending
from sim.client._pool import Pool
from sim.client._sessions import DUE, NEVER, OPEN, OVER, WAITING, Sessions
from sim.client._stage import Stage
from sim.engine.request import Request
from sim.instants import SUBMIT, Clock
from sim.log.record import ABORTED, FINISHED, Log
from sim.rng import Streams
from sim.router import Routes
from sim.specs import ClientSpec
from sim.workload._model import Workload

STAY, DROP, KEEP, RESEND, EXPIRE = range(5)
"""What becomes of an aborted session."""


class ManagedClient(Sessions):
    """Submits the sessions of a workload under everything that a scenario may say of a client."""

    def __init__(
        self,
        env: Clock,
        workload: Workload,
        router: Routes,
        log: Log,
        sending: Sending,
        spec: ClientSpec,
        streams: Streams,
    ) -> None:
        """Arguments of the plain client; ``spec`` says what is managed."""
        super().__init__(env, workload, router, log, sending, spec)
        self.time_limit = None if spec.sample_time_limit_s is None else round(spec.sample_time_limit_s * self.ticks)
        self.tools = Pool(env, spec.tools.concurrency) if spec.tools and spec.tools.concurrency else None
        self.stage = self._make_stage(spec, streams)
        self.gathers = spec.group_as_one_request
        self.generated = [0] * workload.sessions
        """Tokens generated for each session, in all attempts."""
        self.top_attempt: dict[int, int] = {}
        """Highest attempt in a group, where some request made more than one."""
        self.bundles: dict[int, Bundle] = {}
        """By session, the bundle that its open request travels in."""
        self.is_open = True
        self.held: list[Live] = []
        """Sessions whose next turn waits for the gate."""
        self.aborting = 0
        """Requests that are aborted and not answered."""
        self.bundled = self._bundle_answered

    def _make_stage(self, spec: ClientSpec, streams: Streams) -> Stage | None:
        if spec.tokens_per_s is None and spec.turn_s == 0:
            return None
        last = self.workload.session(self.workload.sessions - 1)
        requests = self.first_requests[-1] + len(last.turns)
        drawn = (streams.column("client/processes").random(requests) * spec.processes).astype(int).tolist()
        per_token = 0.0 if spec.tokens_per_s is None else self.ticks / spec.tokens_per_s
        return Stage(self.env, drawn, per_token, round(spec.turn_s * self.ticks), self._send)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _started(self, live: Live) -> None:
        if self.time_limit is not None:
            at = self.env._now + self.time_limit
            self.env.at(at, SUBMIT + 1 + live.index, self._expire, live)

    def _finish(self, live: Live, is_finished: bool, is_usable: bool) -> None:
        super()._finish(live, is_finished, is_usable)
        if self.gathers:
            self.env.at(self.env._now, SUBMIT + 1 + live.index, self._pass_group, live.group)

    def _wait(self, live: Live, delay: int, pool: Pool | None) -> None:
        """The next turn is due after a delay, which may itself wait for a place."""
        live.state = WAITING
        if pool is None or delay == 0:
            self.env.at(self.env._now + delay, SUBMIT + 1 + live.index, self._waited, live)
        else:
            pool.use(delay, live.index, self._waited, live)

    def _waited(self, live: Live) -> None:
        if live.state == WAITING:
            self._ready(live)

    def _ready(self, live: Live) -> None:
        """The delay is over: wait for children, pass the client's processes, and send."""
        live.state = DUE
        if self.forks is not None and self.forks.must_wait(live):
            return
        if self._is_first(live):
            live.is_gathered = True
            self._pass_group(live.group)
        else:
            self._pass(live)

    def _pass(self, live: Live) -> None:
        if self.stage is None:
            self._send(live)
        else:
            self.stage.enter(live, live.first_request + live.turn, count(live.turns[live.turn].prompt))

    def _send(self, live: Live) -> None:
        if live.state != DUE:
            return
        if not self.is_open:
            self.held.append(live)
        elif self._is_first(live):
            self._send_group(live.group)
        else:
            live.state = OPEN
            self._submit(live)

    def _is_first(self, live: Live) -> bool:
        """Whether a turn travels with those of its group."""
        return self.gathers and live.turn == 0 and live.attempt == live.base

    def _gathered(self, group: int) -> list[Live]:
        """The samples whose first turns travel as one; none while some are still on the way to it."""
        alive, forks = self.alive, self.forks
        samples = [each for each in self.members[group] if forks is None or not forks.is_child(each)]
        if any(each not in alive and each not in self.kept and not self.has_ended[each] for each in samples):
            return []
        first = [alive[each] for each in samples if each in alive]
        first = [live for live in first if self._is_first(live) and live.state in (WAITING, DUE)]
        return first if all(live.is_gathered for live in first) else []

    def _pass_group(self, group: int) -> None:
        """Once all are there, the request of the group passes the client's processes under its first sample."""
        if first := self._gathered(group):
            self._pass(first[0])

    def _send_group(self, group: int) -> None:
        if not (first := self._gathered(group)):
            return
        for live in first:
            live.state = OPEN
        bundle = Bundle([self._request(live) for live in first])
        bundle.reply = self.bundled
        for live in first:
            self.bundles[live.index] = bundle
        self.router.route(bundle)

    def _bundle_answered(self, bundle: Request) -> None:
        assert isinstance(bundle, Bundle)
        for part in taken_apart(bundle):
            del self.bundles[part.session]
            self._answered(part)

    def _answered(self, request: Request) -> None:
        """Write the request down; then the next turn, the end of the session, or what an abort has decided."""
        _, live = self.open_requests.pop(request.view.id)
        if request.status == ABORTED and request.generated >= request.output_tokens:
            request.status = FINISHED  # its last token was there before the engine let go of it
        status, fate = request.status, live.fate
        is_finished = status == FINISHED
        parent = NEVER if self.forks is None else self.forks.parents.get(live.index, NEVER)
        self._write(request, parent)
        self.losses_ended += request.preemptions
        self.generated[live.index] += request.generated
        live.state = DUE
        if fate != STAY:
            live.fate = STAY
            self.aborting -= 1
        if is_finished:
            self._turn_finished(live, request.is_last, fate)
        elif status == ABORTED and fate != STAY:
            self._keep_partial(live, request)
            self._settle(live, fate)
        else:
            self._finish(live, False, False)
        if self.trainer is not None:
            self.trainer.answered()

    def _turn_finished(self, live: Live, is_last: bool, fate: int) -> None:
        if self.forks is not None:
            self.forks.turn_finished(live)
        if is_last:
            self._finish(live, True, True)
            return
        live.turn += 1
        live.attempt = live.base
        if fate in (STAY, RESEND):
            self._wait(live, round(live.turns[live.turn].delay_s * self.ticks), self.tools)
        else:
            self._settle(live, fate)

    # -- aborts ------------------------------------------------------------------------------------------------------

    def abort_group(self, group: int, fate: int) -> int:
        """End a group for good (``DROP``), or suspend it (``KEEP``); returns the samples that had not ended."""
        unended = sum(not self.has_ended[session] for session in self.members[group])
        if fate == KEEP:
            self.suspended.add(group)
        for session in self.members[group]:
            live = self.alive.get(session)
            if live is not None:
                self._abort(live, fate)
        self.backlog = deque(session for session in self.backlog if self.group_of[session] != group)
        if fate == KEEP:
            self._leave_place(group)
            return unended
        for session in self.members[group]:
            if not self.has_ended[session] and session not in self.alive:
                self._end(session, False, False)
        return unended

    def forget(self, group: int) -> None:
        """A suspended group will begin anew: what it had is lost, and its requests make new attempts."""
        self.first_attempt[group] = self.top_attempt[group] = self.top_attempt.get(group, 0) + 1
        for session in self.members[group]:
            self.kept.pop(session, None)
            self.has_ended[session] = self.is_used[session] = False
            self.generated[session] = 0
        self.left[group] = len(self.members[group])
        self.finished[group] = self.usable[group] = 0

    def resend_all(self) -> None:
        """Abort every open request; each is sent again, with its partial answer, when the gate opens."""
        for _, live in list(self.open_requests.values()):
            self._abort(live, RESEND)

    def _abort(self, live: Live, fate: int) -> None:
        if live.state != OPEN:
            self._settle(live, fate)
            return
        was_aborted = live.fate != STAY
        live.fate = fate
        if not was_aborted:
            self.aborting += 1
            request = self.open_requests[live.first_request + live.turn][0]
            self.router.abort(self.bundles.get(live.index, request))

    def _settle(self, live: Live, fate: int) -> None:
        """Apply the fate of a session that has no request out."""
        if fate == DROP:
            self._finish(live, False, False)
        elif fate == EXPIRE:
            self._finish(live, False, True)
        elif fate == KEEP:
            self._suspend(live)
        elif live.state == DUE:
            self._send(live)

    def _suspend(self, live: Live) -> None:
        """The session will go on as another object: events that are under way for this one find it over."""
        live.state = OVER
        del self.alive[live.index]
        self.kept[live.index] = live.copy()
        self._free(live)

    def _keep_partial(self, live: Live, request: Request) -> None:
        """The turn goes on behind what was generated of its answer."""
        generated, turn = request.generated, live.turns[live.turn]
        live.attempt = request.attempt + 1
        self.top_attempt[live.group] = max(self.top_attempt.get(live.group, 0), live.attempt)
        if generated:
            live.turns = [*live.turns]
            live.turns[live.turn] = turn._replace(
                prompt=extend(turn.prompt, request.output_source, generated),
                output_tokens=turn.output_tokens - generated,
                max_tokens=turn.max_tokens - generated,
            )

    def _expire(self, live: Live) -> None:
        if live.state != OVER:
            self._abort(live, EXPIRE)

    # -- the gate ----------------------------------------------------------------------------------------------------

    def close_gate(self) -> None:
        """Send no further turn; those that are due are held."""
        self.is_open = False

    def open_gate(self) -> None:
        """Send again, beginning with what is held, in order of sessions."""
        self.is_open = True
        held, self.held = self.held, []
        for live in held:
            self.env.at(self.env._now, SUBMIT + 1 + live.index, self._send, live)
