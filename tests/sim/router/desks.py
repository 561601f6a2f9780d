"""A router between scripted clients and engines that serve every request in a fixed time; a tick is a millisecond."""

import random
from types import SimpleNamespace

from policies._protocol import Policy, RequestView
from sim.engine.request import Request
from sim.instants import FAILURE, SUBMIT, Clock, answer
from sim.log.record import ABORTED, FAILED, FINISHED, REASON, STATUS, Log
from sim.router.build import build_router
from sim.router.spec import Around, RouterSpec


class FakeEngine:
    """Serves each request in ``service`` ticks, its first token after half of them; says what it was told to say."""

    def __init__(self, env, index, service):
        self.env, self.index, self.service = env, index, service
        self.is_up = True
        self.inside = {}
        self.cached = 0
        self.queued = 0
        self.share = 0.0
        self.generated = 0
        self.busy = 0
        self.scheduler = SimpleNamespace(block=1)
        self.listeners = []

    def listen(self, listener):
        self.listeners.append(listener)

    def tell(self, is_stored, content, before):
        for listener in self.listeners:
            listener(self.env.now, is_stored, content, before)

    def submit(self, request):
        now = self.env.now
        request.arrived = now
        if not self.is_up:
            self._end(request, FAILED)
            return
        self.inside[request.view.id] = request
        request.scheduled = now
        request.first_token = now + self.service // 2
        if request.on_first_token is not None:
            request.on_first_token(request)
        self.env.at(now + self.service, self.index, self._serve, (request, request.done))

    def _serve(self, served):
        request, done = served
        if self.inside.get(request.view.id) is request and request.done is done:
            self._end(request, FINISHED)

    def _end(self, request, status):
        self.inside.pop(request.view.id, None)
        request.status, request.ended = status, self.env.now
        self.generated += 10 * (status == FINISHED)
        answer(self.env, request)

    def fail(self):
        self.is_up = False
        for request in list(self.inside.values()):
            self._end(request, FAILED)

    def restart(self):
        self.is_up = True

    def abort(self, request):
        self._end(request, ABORTED)

    def peek(self, now):
        assert now == self.env.now
        tokens = sum(request.prompt_tokens for request in self.inside.values())
        return SimpleNamespace(
            running=len(self.inside), waiting=0, kv_share=self.share, tokens=tokens, queued_tokens=self.queued,
            generated=self.generated, busy=self.busy,
        )  # fmt: skip

    def cached_tokens(self, content):
        return self.cached


class Desk:
    """Sends requests of ``prompt`` tokens at given ticks, one session each unless told otherwise."""

    def __init__(self, policy, engines=2, service=10, seed=1, **around):
        self.env = Clock(initial_time=0)
        self.engines = [FakeEngine(self.env, index, service) for index in range(engines)]
        urls = [f"http://engine-{index}" for index in range(engines)]
        self.log = Log(urls, tick_s=1e-3)
        streams = SimpleNamespace(single=lambda purpose: random.Random(f"{seed}/{purpose}"))
        spec = RouterSpec(policy, {}, Around(**around))
        make = (lambda: policy) if isinstance(policy, Policy) else policy
        spec = SimpleNamespace(policy=make(), around=spec.around, make_policy=make)
        self.router = build_router(self.env, spec, self.engines, urls, streams, self.log)
        self.requests = []
        self.replies = []

    def send(self, *ticks, prompt=100, session=None):
        """Submit a request at each tick."""
        for tick in ticks:
            serial = len(self.requests)
            view = RequestView(serial, {}, ((serial, prompt),), prompt)
            request = Request(view, 10, 1, session=serial if session is None else session)
            request.submitted = tick
            request.reply = lambda each: self.replies.append((each.view.id, self.env.now))
            self.requests.append(request)
            self.at(tick, self.router.route, request, SUBMIT + serial)
        return self

    def at(self, tick, act, value=None, priority=FAILURE):
        """Do something at a tick."""
        self.env.at(tick, priority, act, value)
        return self

    def run(self):
        """Let it all happen; every request has been answered once."""
        self.env.run_out()
        assert sorted(serial for serial, _ in self.replies) == list(range(len(self.requests)))
        return self

    def outcomes(self):
        """Status and reason of every request."""
        return [(STATUS[each.status], REASON[each.reason]) for each in self.requests]

    def decisions(self, *columns):
        """Columns of the decisions table, row by row."""
        table = self.log.numpy("decisions")
        rows = [table[name].tolist() for name in columns]
        return rows[0] if len(rows) == 1 else list(zip(*rows, strict=True))
